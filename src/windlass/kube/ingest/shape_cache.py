"""Shapes of pods, worked out once: thousands of pods are made from a few templates.

Reading a pod's needs takes longer than comparing them as bytes. Pods of equal needs also share one
shape, which the engine then recognises without looking into it. Some pods ask for what depends on
others: on namespaces that are chosen by their labels, and on claims. They are looked at again
whenever that changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from windlass.kube.ingest.volume_state import Storage, refusal_of, with_volumes
from windlass.model.jobs import Shape, TaskId
from windlass.model.reasons import Reason
from windlass.model.resources import Request
from windlass.workloads.objects.wire import Pod, condition
from windlass.workloads.pods.requests import RESIZE
from windlass.workloads.pods.task import chooses_namespaces, shape_of
from windlass.workloads.pods.volumes import has_claims

MOST = 500
"""Templates that are remembered; then it begins anew."""


class PodRequest(NamedTuple):
    """What a pod asks for."""

    shape: Shape
    lacking: Reason | None = None
    """What its volumes keep it waiting for."""
    rivals: Sequence[TaskId] = ()
    """Who may have a claim that the pod now has, or has no more."""


class Shapes:
    """What pods ask for and where they may run, by what they say about it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[bytes, Shape] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._choosy: set[TaskId] = set()
        """Pods that look at namespaces which are chosen by their labels."""
        self._last: tuple[Pod, Shape] | None = None
        """The pod that was looked at last: equal stand-ins are one object."""
        self._encode = msgspec.msgpack.Encoder().encode

    def ask(self, task: TaskId, pod: Pod, is_placed: bool) -> PodRequest:
        """What a pod asks for, as it and all that it depends on are now."""
        if chooses_namespaces(pod):
            self._choosy.add(task)
        shape = self._of(pod)
        if not has_claims(pod):
            return PodRequest(shape)
        rivals = self._storage.use(task, pod, is_placed)
        needs = self._storage.needs(pod)
        return PodRequest(with_volumes(shape, needs), refusal_of(needs), rivals)

    def request(self, pod: Pod) -> Request:
        """What a pod asks of its node."""
        return self._of(pod).request

    def forget(self, task: TaskId) -> Sequence[TaskId]:
        """A pod is gone; answers who waited for what it had."""
        self._choosy.discard(task)
        return self._storage.forget(task)

    def see_namespace(self, name: str, labels: Mapping[str, str] | None) -> Sequence[TaskId]:
        """A namespace has these labels, or is gone; answers which pods to look at again."""
        if self._namespaces.get(name) == labels:
            return ()
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        self._known.clear()
        self._last = None
        return sorted(self._choosy)

    def _of(self, pod: Pod) -> Shape:
        if self._last is not None and self._last[0] is pod:
            return self._last[1]
        key = self._encode(_needs(pod))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = shape_of(pod, self._namespaces)
        self._last = pod, found
        return found


def _needs(pod: Pod) -> tuple[object, ...]:
    """All that `shape_of` looks at."""
    spec, status = pod.spec, pod.status
    near = (spec.affinity, spec.topology_spread_constraints)
    labels = pod.metadata.labels if any(near) else None  # terms may refer to the pod's own labels
    asked = (spec.containers, spec.init_containers, spec.resources, spec.overhead)
    given = (status.container_statuses, status.init_container_statuses)
    resized = (status.resources, status.allocated_resources, condition(pod, RESIZE))
    return (*asked, spec.node_selector, spec.tolerations, *near, labels, *given, *resized)
