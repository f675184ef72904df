"""The scope of this scheduler: the pods that it places, and the nodes that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.workloads.kinds import KINDS, Kinds, mark_of
from windlass.workloads.objects import NO_SEAL, ObjectMeta, Pod, Seal


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a cluster that is ours; other schedulers, also of our kind, may share it."""

    schedulers: frozenset[str] = frozenset({"windlass"})
    """The values of a pod's `schedulerName` that make it ours."""
    namespaces: frozenset[str] = frozenset()
    """The namespaces whose pods are placed; empty: all."""
    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    """The labels that a node must have to be used."""
    default_queue: str = ""
    kinds: Kinds = field(default_factory=lambda: KINDS)
    """The known kinds of owners, with the rows that users added."""
    seal: Seal = NO_SEAL
    """Signs the marks on owners, and tells which marks are ours."""

    def has_pod(self, pod: Pod) -> bool:
        """Return whether this scheduler places a pod."""
        return pod.spec.scheduler_name in self.schedulers and self._has(pod.metadata)

    def has_owner(self, meta: ObjectMeta) -> bool:
        """Return whether an owner is in scope and, if it is suspended, was suspended by us."""
        if not self._has(meta):
            return False
        mark = mark_of(meta)
        return mark is None or not mark.by or mark.by in self.schedulers

    def has_node(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels is used."""
        return all(labels.get(key) == value for key, value in self.nodes.items())

    def _has(self, meta: ObjectMeta) -> bool:
        return not self.namespaces or meta.namespace in self.namespaces
