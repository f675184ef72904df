"""The request of a pod: containers, init containers, sidecars, overhead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass_lab.fake_kubelet.quantities import milli, whole
from windlass_lab.fake_kubelet.wire import Container, PodSpec

Amounts = dict[str, int]
"""Amounts by resource; CPU in milli-CPU, memory in bytes, devices as a count."""

_OF_WHOLE_PODS = ("cpu", "memory")
"""The resources that a pod may request as a whole, whatever its containers say."""


def requested(spec: PodSpec) -> Amounts:
    """Return the pod's effective request.

    Containers and sidecars (init containers that restart) run together and add up. A plain init
    container runs before them, beside the sidecars started so far, so the pod needs the larger.
    """
    together = _sum(amounts(container.resources.requests) for container in spec.containers)
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.init_containers:
        own = amounts(container.resources.requests)
        at_once = _sum((sidecars, own))
        highest = _larger(highest, at_once)
        if _is_sidecar(container):
            sidecars = at_once
    total = _larger(_sum((together, sidecars)), highest)
    if spec.resources:
        pod = amounts(spec.resources.requests)
        total |= {name: pod[name] for name in _OF_WHOLE_PODS if name in pod}
    return _sum((total, amounts(spec.overhead)))


def amounts(quantities: Mapping[str, str]) -> Amounts:
    """Return a resource list as integers."""
    return {
        name: milli(quantity) if name == "cpu" else whole(quantity)
        for name, quantity in quantities.items()
    }


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _sum(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
