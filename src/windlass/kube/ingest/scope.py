"""What Windlass is responsible for: whose pods it places, and on which nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.workloads.kinds.suspension import mark_of
from windlass.workloads.kinds.table import KINDS, Kinds
from windlass.workloads.objects.signed_marks import NO_SEAL, Seal
from windlass.workloads.objects.wire import ObjectMeta, Pod


@dataclass(frozen=True, slots=True)
class Scope:
    """Others may share the cluster, also others of our kind."""

    schedulers: frozenset[str] = frozenset({"windlass"})
    namespaces: frozenset[str] = frozenset()
    """Whose pods it places; none: all."""
    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Which nodes it uses, by label."""
    default_queue: str = ""
    kinds: Kinds = field(default_factory=lambda: KINDS)
    """Of owners, with the rows that users added."""
    seal: Seal = NO_SEAL
    """Tells which marks on owners are ours, and signs them."""

    def has_pod(self, pod: Pod) -> bool:
        """Is it for us to place it?"""
        return pod.spec.scheduler_name in self.schedulers and self._has(pod.metadata)

    def has_owner(self, meta: ObjectMeta) -> bool:
        """Is an owner there for us, and was it suspended by us, if it was?"""
        if not self._has(meta):
            return False
        found = mark_of(meta)
        return found is None or not found.by or found.by in self.schedulers

    def has_node(self, labels: Mapping[str, str]) -> bool:
        """Is a node with these labels to be used?"""
        return all(labels.get(key) == value for key, value in self.nodes.items())

    def _has(self, meta: ObjectMeta) -> bool:
        return not self.namespaces or meta.namespace in self.namespaces
