"""The owners of pods that have been seen, and which pods depend on them.

An owner may come after its pods, or change its size: then the pods that asked for it are looked at
again. It is found by uid; by kind and name only where a pod's chain of owners does not lead to it.
"""

from __future__ import annotations

from windlass.model.jobs import TaskId
from windlass.workloads.kinds import key_of
from windlass.workloads.wire import Owner, OwnerRef


class Owners:
    """Owners by what they are remembered by, and who asked for them."""

    def __init__(self) -> None:
        self._owners: dict[str, Owner] = {}
        self._asked: dict[str, set[TaskId]] = {}

    def see(self, kind: str, owner: Owner) -> list[TaskId]:
        """An owner is new or has changed; answers whom that may concern."""
        concerned: set[TaskId] = set()
        for key in _keys(kind, owner):
            before = self._owners.get(key)
            self._owners[key] = owner
            if before is None or _matters(before) != _matters(owner):
                concerned |= self._asked.get(key, set())
        return sorted(concerned)

    def lose(self, kind: str, owner: Owner) -> None:
        """An owner was deleted; its pods are about to follow."""
        for key in _keys(kind, owner):
            there = self._owners.get(key)
            if there is not None and there.metadata.uid == owner.metadata.uid:
                del self._owners[key]

    def find(self, ref: OwnerRef, namespace: str) -> Owner | None:
        """An owner that has been seen, in this namespace."""
        owner = self._owners.get(key_of(ref, namespace))
        return owner if owner is not None and owner.metadata.namespace == namespace else None

    def ask(self, task: TaskId, keys: tuple[str, ...]) -> None:
        """A pod depends on these owners."""
        for key in keys:
            self._asked.setdefault(key, set()).add(task)

    def forget(self, task: TaskId, keys: tuple[str, ...]) -> None:
        """A pod depends on these owners no more."""
        for key in keys:
            asked = self._asked.get(key, set())
            asked.discard(task)
            if not asked:
                self._asked.pop(key, None)


def _keys(kind: str, owner: Owner) -> tuple[str, str]:
    meta = owner.metadata
    return meta.uid, key_of(OwnerRef(kind, meta.name), meta.namespace)


def _matters(owner: Owner) -> tuple[object, ...]:
    meta = owner.metadata
    done = owner.status.get("succeeded")
    return (meta.uid, owner.spec, done, meta.labels, meta.annotations, meta.owner_references)
