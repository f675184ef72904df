"""A cache of the shapes of pods: thousands of pods are made from a few templates.

Parsing the needs of a pod takes longer than comparing them as bytes. Pods of equal needs also share
one shape object, which the engine recognises by identity. The needs of some pods depend on other
objects: on namespaces that are selected by their labels, and on volume claims. These pods are
evaluated again whenever that changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from windlass.kube.ingest.volume_state import Storage, refusal_of, with_volumes
from windlass.model.jobs import Shape, TaskId
from windlass.model.reasons import Reason
from windlass.model.resources import Request
from windlass.workloads.objects import Pod, condition
from windlass.workloads.pods import RESIZE, chooses_namespaces, has_claims, shape_of

MOST = 500
"""The number of shapes in the cache; when it is full, it is emptied."""


class PodRequest(NamedTuple):
    """The needs of a pod."""

    shape: Shape
    lacking: Reason | None = None
    """The reason why its volumes keep it waiting; None if they do not."""
    rivals: Sequence[TaskId] = ()
    """The tasks that compete for a claim that the pod now uses, or uses no more."""


class Shapes:
    """The shapes of pods, by the fields from which they are made."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[bytes, Shape] = {}
        """Valid while `_namespaces` stays the same; emptied when that changes."""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._choosy: set[TaskId] = set()
        """The tasks whose affinity terms select namespaces by their labels."""
        self._last: tuple[Pod, Shape] | None = None
        """The last pod and its shape: equal placeholders share one pod object."""
        self._encode = msgspec.msgpack.Encoder().encode

    def ask(self, task: TaskId, pod: Pod, is_placed: bool) -> PodRequest:
        """Return the needs of a pod, with its volumes; note what they depend on."""
        if chooses_namespaces(pod):
            self._choosy.add(task)
        shape = self._of(pod)
        if not has_claims(pod):
            return PodRequest(shape)
        rivals = self._storage.use(task, pod, is_placed)
        needs = self._storage.needs(pod)
        return PodRequest(with_volumes(shape, needs), refusal_of(needs), rivals)

    def request(self, pod: Pod) -> Request:
        """Return the resources that a pod asks of its node."""
        return self._of(pod).request

    def forget(self, task: TaskId) -> Sequence[TaskId]:
        """Forget a pod that is gone; return the tasks that waited for its claims."""
        self._choosy.discard(task)
        return self._storage.forget(task)

    def see_namespace(self, name: str, labels: Mapping[str, str] | None) -> Sequence[TaskId]:
        """Set the labels of a namespace (None: it is gone); return the tasks to evaluate again."""
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
    """Return all fields that `shape_of` reads: the key of the cache."""
    spec, status = pod.spec, pod.status
    near = (spec.affinity, spec.topology_spread_constraints)
    labels = pod.metadata.labels if any(near) else None  # terms may refer to the pod's own labels
    asked = (spec.containers, spec.init_containers, spec.resources, spec.overhead)
    given = (status.container_statuses, status.init_container_statuses)
    resized = (status.resources, status.allocated_resources, condition(pod, RESIZE))
    return (*asked, spec.node_selector, spec.tolerations, *near, labels, *given, *resized)
