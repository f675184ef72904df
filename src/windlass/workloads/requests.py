"""What a pod asks for, added up as kube-scheduler adds it.

Containers and sidecars run together, init containers one after the other beside the sidecars that
were started before them; the larger of both counts, and the runtime's overhead on top. While a
resize is under way a container counts with the larger of what it wants and what it was given.
Requests for the pod as a whole replace the sum of its containers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.model.gpus import GpuRequest
from windlass.model.problems import MOST
from windlass.model.resources import Request
from windlass.workloads.quantities import mib, milli, whole
from windlass.workloads.wire import Container, ContainerStatus, Pod

GPU = "nvidia.com/gpu"
Sums = dict[str, int]

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""Resources that are counted in bytes, and here in MiB."""


def request_of(pod: Pod) -> Request:
    """All that the pod takes from a node, besides its pod slot."""
    sums = _together(pod)
    gpus = sums.pop(GPU, 0)
    cpu, memory = sums.pop("cpu", 0), sums.pop("memory", 0)
    extra = tuple(sorted((name, amount) for name, amount in sums.items() if amount))
    return Request(cpu, memory, GpuRequest(gpus) if gpus else None, extra)


def reader_of(resource: str) -> Callable[[str], int]:
    """How the amounts of a resource are read, rounded up."""
    if resource == "cpu":
        return milli
    return mib if resource.startswith(_BYTES) else whole


def _together(pod: Pod) -> Sums:
    given = {each.name: each for each in pod.status.container_statuses or ()}
    given |= {each.name: each for each in pod.status.init_container_statuses or ()}
    running: Sums = {}
    for container in pod.spec.containers:
        _add(running, _of_container(pod, container, given))
    sidecars: Sums = {}
    starting: Sums = {}
    for container in pod.spec.init_containers or ():
        own = _of_container(pod, container, given)
        if container.restart_policy == "Always":
            _add(running, own)
            _add(sidecars, own)
            _raise(starting, sidecars)
        else:
            _raise(starting, _sum(own, sidecars))
    _raise(running, starting)
    if pod.spec.resources is not None:
        running |= _read(pod.spec.resources.requests)
    _add(running, _read(pod.spec.overhead))
    return running


def _of_container(pod: Pod, container: Container, given: Mapping[str, ContainerStatus]) -> Sums:
    wanted = _read(container.resources.requests)
    status = given.get(container.name)
    if status is None:
        return wanted
    has = _read(status.resources.requests if status.resources else None)
    if has and _is_hopeless(pod):
        return has
    _raise(wanted, has)
    _raise(wanted, _read(status.allocated_resources))
    return wanted


def _is_hopeless(pod: Pod) -> bool:
    """Is the resize one that the node can never grant?"""
    return any(
        each.type == "PodResizePending" and each.reason == "Infeasible"
        for each in pod.status.conditions or ()
    )


def _read(amounts: Mapping[str, str] | None) -> Sums:
    return {name: reader_of(name)(amount) for name, amount in (amounts or {}).items()}


def _add(sums: Sums, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        sums[name] = min(MOST, sums.get(name, 0) + amount)


def _raise(sums: Sums, others: Mapping[str, int]) -> None:
    for name, amount in others.items():
        sums[name] = max(sums.get(name, 0), amount)


def _sum(*parts: Mapping[str, int]) -> Sums:
    total: Sums = {}
    for part in parts:
        _add(total, part)
    return total
