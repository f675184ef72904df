"""What a pod asks for, added up as kube-scheduler adds it.

Containers and sidecars run together, init containers one after the other beside the sidecars that
were started before them; the larger of both counts, and the runtime's overhead on top. While a
resize is under way a container counts with the largest of what it wants, has, and is set aside for
it; once the node has said that it can never grant the wish, the wish does not count. CPU, memory
and huge pages asked for by the pod as a whole replace the sum of its containers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from windlass.model.gpus import GpuRequest
from windlass.model.resources import Port, Request
from windlass.model.units import LARGEST_AMOUNT, count_rounded_up, mib_rounded_up, milli_rounded_up
from windlass.workloads.objects.wire import Container, ContainerStatus, Pod

GPU = "nvidia.com/gpu"
RESIZE = "PodResizePending"
"""The condition of a pod whose resize has not been granted."""
ALL_ADDRESSES = "0.0.0.0"
Sums = dict[str, int]

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""Resources that are counted in bytes, and here in MiB."""
_OF_POD = ("cpu", "memory", "hugepages-")
"""Resources that a pod may ask for as a whole."""


def request_of(pod: Pod) -> Request:
    """All that the pod takes from a node, besides its pod slot."""
    sums = _together(pod)
    gpus = sums.pop(GPU, 0)
    cpu, memory = sums.pop("cpu", 0), sums.pop("memory", 0)
    extra = tuple(sorted((name, amount) for name, amount in sums.items() if amount))
    return Request(cpu, memory, GpuRequest(gpus) if gpus else None, extra, _ports(pod))


def reader_of(resource: str) -> Callable[[str], int]:
    """How the amounts of a resource are read, rounded up."""
    if resource == "cpu":
        return milli_rounded_up
    return mib_rounded_up if resource.startswith(_BYTES) else count_rounded_up


def _ports(pod: Pod) -> tuple[Port, ...]:
    """The ports of the node that the pod listens on as long as it runs, each once."""
    staying = [each for each in pod.spec.init_containers or () if each.restart_policy == "Always"]
    found = {
        Port(
            each.host_port,
            each.protocol or "TCP",
            "" if each.host_ip == ALL_ADDRESSES else each.host_ip,
        )
        for container in (*pod.spec.containers, *staying)
        for each in container.ports or ()
        if each.host_port > 0
    }
    # who has a port at all addresses has it at each
    chosen = {each for each in found if not each.address or replace(each, address="") not in found}
    return tuple(sorted(chosen, key=lambda each: (each.number, each.protocol, each.address)))


def _together(pod: Pod) -> Sums:
    given = {each.name: each for each in pod.status.container_statuses or ()}
    given |= {each.name: each for each in pod.status.init_container_statuses or ()}
    running: Sums = {}
    for container in pod.spec.containers:
        _add(running, _of_container(pod, container, given))
    sidecars: Sums = {}
    starting: Sums = {}
    for container in pod.spec.init_containers or ():
        if container.restart_policy == "Always":
            own = _of_container(pod, container, given)
            _add(running, own)
            _add(sidecars, own)
            _raise(starting, sidecars)
        else:  # it ends before anybody could resize it
            _raise(starting, _sum(_read(container.resources.requests), sidecars))
    _raise(running, starting)
    running |= _of_pod(pod)
    _add(running, _read(pod.spec.overhead))
    return running


def _of_container(pod: Pod, container: Container, given: Mapping[str, ContainerStatus]) -> Sums:
    wanted, status = _read(container.resources.requests), given.get(container.name)
    if status is None or status.resources is None:
        return wanted
    return _resized(pod, wanted, status.resources.requests, status.allocated_resources)


def _of_pod(pod: Pod) -> Sums:
    asked = _read(pod.spec.resources.requests if pod.spec.resources else None)
    wanted = {name: amount for name, amount in asked.items() if name.startswith(_OF_POD)}
    has = pod.status.resources
    if has is None or not wanted:
        return wanted
    found = _resized(pod, wanted, has.requests, pod.status.allocated_resources)
    return {name: found.get(name, 0) for name in wanted}


def _resized(
    pod: Pod, wanted: Sums, has: Mapping[str, str] | None, allocated: Mapping[str, str] | None
) -> Sums:
    found = {} if _is_hopeless(pod) else dict(wanted)
    _raise(found, _read(has))
    _raise(found, _read(allocated))
    return found


def _is_hopeless(pod: Pod) -> bool:
    """Is the resize one that the node can never grant?"""
    return any(
        each.type == RESIZE and each.reason == "Infeasible" for each in pod.status.conditions or ()
    )


def _read(amounts: Mapping[str, str] | None) -> Sums:
    return {name: reader_of(name)(amount) for name, amount in (amounts or {}).items()}


def _add(sums: Sums, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        sums[name] = min(LARGEST_AMOUNT, sums.get(name, 0) + amount)


def _raise(sums: Sums, others: Mapping[str, int]) -> None:
    for name, amount in others.items():
        sums[name] = max(sums.get(name, 0), amount)


def _sum(*parts: Mapping[str, int]) -> Sums:
    total: Sums = {}
    for part in parts:
        _add(total, part)
    return total
