"""Admission of a pod by a node, in the order and with the words of a real kubelet (1.36).

A kubelet counts what it has admitted itself, not what the API server says. The reasons that reach
the user are OutOfpods, OutOfcpu, OutOfmemory, OutOf<device>, NodeAffinity and TaintToleration; of
several it reports the first. One departure on purpose: a real kubelet admits a pod that requests a
device its node has never reported; for GPUs that would hide a scheduler's mistake, so this one
refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass_lab.fake_kubelet.allocation_audit import Cause
from windlass_lab.fake_kubelet.requests import Amounts
from windlass_lab.fake_kubelet.wire import (
    Pod,
    PodSpec,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)
from windlass_lab.fake_nodes.labels import GPU

UNEXPECTED = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True)
class AdmissionDenied:
    """The reason and the message that go into the pod's status."""

    reason: str
    message: str
    cause: Cause


@dataclass(slots=True)
class Room:
    """The capacity of a node and the used part, as its kubelet counts."""

    name: str
    allocatable: Amounts
    """The amounts as last reported; `pods` is a resource like the others."""
    gpus: int = 0
    """The number of all GPUs, healthy or not."""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    used: Amounts = field(default_factory=dict[str, int])
    lingering: Amounts = field(default_factory=dict[str, int])
    """The part of `used` whose pods are gone from the API server."""

    def take(self, asked: Mapping[str, int]) -> None:
        """Count an admitted pod."""
        _add(self.used, asked, 1)

    def free(self, asked: Mapping[str, int], *, lingered: bool) -> None:
        """Forget a pod whose containers have ended."""
        _add(self.used, asked, -1)
        if lingered:
            _add(self.lingering, asked, -1)

    def linger(self, asked: Mapping[str, int]) -> None:
        """Note that a pod is gone from the API server while its containers still run."""
        _add(self.lingering, asked, 1)


def judge(room: Room, pod: Pod, asked: Mapping[str, int]) -> AdmissionDenied | None:
    """Return the first reason to refuse the pod; None if it is admitted."""
    return next(_objections(room, pod, asked), None)


def no_devices(asked: int, free: int, healthy: int, cause: Cause) -> AdmissionDenied:
    """Return the refusal of the device manager: it cannot allocate what the node's allocatable
    promised."""
    if healthy:
        what = (
            f"requested number of devices unavailable for {GPU}. "
            f"Requested: {asked}, Available: {free}"
        )
    else:
        what = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
    return AdmissionDenied(UNEXPECTED, f"Allocate failed due to {what}, which is unexpected", cause)


def blame(room: Room, name: str, asked: int, free: int) -> Cause:
    """Return the cause for which a resource is short, given the free amount."""
    lingering = room.lingering.get(name, 0)
    if asked <= free + lingering:
        return Cause.LINGERING
    if name == GPU and asked <= room.gpus - room.used.get(name, 0) + lingering:
        return Cause.UNHEALTHY
    return Cause.OVERBOOKED


def _objections(room: Room, pod: Pod, asked: Mapping[str, int]) -> Iterator[AdmissionDenied]:
    for name in ("pods", "cpu", "memory", *sorted(name for name in asked if "/" in name)):
        known = name in room.allocatable or name == GPU
        amount = asked.get(name, 0)
        has, used = room.allocatable.get(name, 0), room.used.get(name, 0)
        if known and amount > max(0, has - used):
            message = (
                f"Node didn't have enough resource: {name}, "
                f"requested: {amount}, used: {used}, capacity: {has}"
            )
            yield AdmissionDenied(f"OutOf{name}", message, blame(room, name, amount, has - used))
    if not suits(pod.spec, room.name, room.labels):
        yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if not tolerates(pod.spec, room.taints):
        yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, why: str) -> AdmissionDenied:
    return AdmissionDenied(name, f"Predicate {name} failed: {why}", Cause.MISPLACED)


def _add(total: Amounts, part: Mapping[str, int], sign: int) -> None:
    for name, amount in part.items():
        total[name] = total.get(name, 0) + sign * amount


def suits(spec: PodSpec, node: str, labels: Mapping[str, str]) -> bool:
    """Return whether the node has the labels that the pod's selector and required affinity need."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or affinity.required is None:
        return True
    return any(_matches(term, node, labels) for term in affinity.required.node_selector_terms)


def tolerates(spec: PodSpec, taints: Iterable[Taint]) -> bool:
    """Return whether the pod tolerates the NoExecute taints; a kubelet ignores NoSchedule."""
    return all(
        any(_covers(toleration, taint) for toleration in spec.tolerations)
        for taint in taints
        if taint.effect == "NoExecute"
    )


def _matches(term: SelectorTerm, node: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False  # an empty term matches no node
    fields = {"metadata.name": node}
    return all(_holds(wanted, labels) for wanted in term.match_expressions) and all(
        _holds(wanted, fields) for wanted in term.match_fields
    )


def _holds(wanted: Requirement, found: Mapping[str, str]) -> bool:
    value = found.get(wanted.key)
    match wanted.operator:
        case "In":
            return value is not None and value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, wanted)
        case _:
            return False


def _compares(value: str | None, wanted: Requirement) -> bool:
    try:
        found, bound = int(value or ""), int(wanted.values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if wanted.operator == "Gt" else found < bound


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
