"""The resources that a pod requests, added up as kube-scheduler does.

    request = max(sum of containers and sidecars, most during start-up) + overhead

Init containers run one after the other, beside the sidecars that were started before them. During a
resize a container counts with the largest of its requested, its actual and its allocated resources;
once the node has reported the resize as infeasible, the requested ones do not count. CPU, memory
and huge pages that the pod requests as a whole replace the sum of its containers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from windlass.model.gpus import GpuRequest
from windlass.model.resources import Port, Request
from windlass.model.units import LARGEST_AMOUNT, count_rounded_up, mib_rounded_up, milli_rounded_up
from windlass.workloads.objects import Container, ContainerStatus, Pod

GPU = "nvidia.com/gpu"
RESIZE = "PodResizePending"
"""The type of the condition of a pod whose resize is not granted yet, or infeasible."""
ALL_ADDRESSES = "0.0.0.0"
Sums = dict[str, int]
"""Amounts by resource name: CPU in thousandths, bytes in MiB, all else in whole units."""

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""Prefixes of resources that Kubernetes counts in bytes, and we in MiB."""
_OF_POD = ("cpu", "memory", "hugepages-")
"""The prefixes of the resources that can be requested at pod level, not only per container."""


def request_of(pod: Pod) -> Request:
    """Return the resources and host ports that a pod takes from its node."""
    sums = _sum_of_pod(pod)
    gpus = sums.pop(GPU, 0)
    cpu, memory = sums.pop("cpu", 0), sums.pop("memory", 0)
    extra = tuple(sorted((name, amount) for name, amount in sums.items() if amount))
    return Request(cpu, memory, GpuRequest(gpus) if gpus else None, extra, _ports(pod))


def reader_of(resource: str) -> Callable[[str], int]:
    """Return the function that reads amounts of a resource, rounded up."""
    if resource == "cpu":
        return milli_rounded_up
    return mib_rounded_up if resource.startswith(_BYTES) else count_rounded_up


def _ports(pod: Pod) -> tuple[Port, ...]:
    """Return the host ports of the containers and sidecars of a pod, without duplicates."""
    sidecars = [init for init in pod.spec.init_containers or () if init.restart_policy == "Always"]
    ports = {
        Port(
            port.host_port,
            port.protocol or "TCP",
            "" if port.host_ip == ALL_ADDRESSES else port.host_ip,
        )
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports or ()
        if port.host_port > 0
    }
    # A port at all addresses ("") includes the same port at one address.
    distinct = [
        port for port in ports if not port.address or replace(port, address="") not in ports
    ]
    return tuple(sorted(distinct, key=lambda port: (port.number, port.protocol, port.address)))


def _sum_of_pod(pod: Pod) -> Sums:
    statuses = {status.name: status for status in pod.status.container_statuses or ()}
    statuses |= {status.name: status for status in pod.status.init_container_statuses or ()}
    running: Sums = {}
    for container in pod.spec.containers:
        _add(running, _of_container(pod, container, statuses))
    sidecars: Sums = {}
    starting: Sums = {}
    for container in pod.spec.init_containers or ():
        if container.restart_policy == "Always":
            own = _of_container(pod, container, statuses)
            _add(running, own)
            _add(sidecars, own)
            _raise(starting, sidecars)
        else:  # init containers cannot be resized
            _raise(starting, _sum(_read(container.resources.requests), sidecars))
    _raise(running, starting)
    running |= _of_pod(pod)
    _add(running, _read(pod.spec.overhead))
    return running


def _of_container(pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus]) -> Sums:
    wanted, status = _read(container.resources.requests), statuses.get(container.name)
    if status is None or status.resources is None:
        return wanted
    return _resized(pod, wanted, status.resources.requests, status.allocated_resources)


def _of_pod(pod: Pod) -> Sums:
    """Return the amounts that the pod requests as a whole."""
    requested = _read(pod.spec.resources.requests if pod.spec.resources else None)
    wanted = {name: amount for name, amount in requested.items() if name.startswith(_OF_POD)}
    actual = pod.status.resources
    if actual is None or not wanted:
        return wanted
    sums = _resized(pod, wanted, actual.requests, pod.status.allocated_resources)
    return {name: sums.get(name, 0) for name in wanted}


def _resized(
    pod: Pod, wanted: Sums, actual: Mapping[str, str] | None, allocated: Mapping[str, str] | None
) -> Sums:
    """Return the largest of the amounts, without the wanted ones if the node cannot grant them."""
    sums = {} if _is_resize_infeasible(pod) else dict(wanted)
    _raise(sums, _read(actual))
    _raise(sums, _read(allocated))
    return sums


def _is_resize_infeasible(pod: Pod) -> bool:
    return any(
        condition.type == RESIZE and condition.reason == "Infeasible"
        for condition in pod.status.conditions or ()
    )


def _read(amounts: Mapping[str, str] | None) -> Sums:
    return {name: reader_of(name)(amount) for name, amount in (amounts or {}).items()}


def _add(sums: Sums, more: Mapping[str, int]) -> None:
    """Add amounts to the sums in place, up to MOST."""
    for name, amount in more.items():
        sums[name] = min(LARGEST_AMOUNT, sums.get(name, 0) + amount)


def _raise(sums: Sums, others: Mapping[str, int]) -> None:
    """Raise each sum in place to the other amount, if that is larger."""
    for name, amount in others.items():
        sums[name] = max(sums.get(name, 0), amount)


def _sum(*parts: Mapping[str, int]) -> Sums:
    total: Sums = {}
    for part in parts:
        _add(total, part)
    return total
