"""The owners of pods that have been seen, and which pods depend on them.

An owner may come after its pods, or change its size: then the pods that asked for it are looked at
again. It is found by uid; by kind and name only where a pod's chain of owners does not lead to it.
What a reference says besides must be true as well, since users can write references too.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.model.jobs import TaskId
from windlass.workloads.kinds.gang_sizes import finished
from windlass.workloads.kinds.table import MOST_STEPS, RAY_PRIORITY, Key, key_of, kind_of
from windlass.workloads.objects.annotations import CREATOR, MINIMUM, SUSPENDED, mark
from windlass.workloads.objects.wire import Owner, OwnerRef, controller


class KnownOwner(NamedTuple):
    """An owner and its kind."""

    kind: Key
    owner: Owner


class Owners:
    """Owners by what they are remembered by, and who asked for them."""

    def __init__(self) -> None:
        self._owners: dict[str, KnownOwner] = {}
        self._asked: dict[str, set[TaskId]] = {}
        self.version = 0
        """Counts the changes that matter to the pods of an owner."""

    def see(self, kind: Key, owner: Owner) -> list[TaskId]:
        """An owner is new or has changed; answers whom that may concern."""
        concerned: set[TaskId] = set()
        for key in _keys(kind, owner):
            before = self._owners.get(key)
            self._owners[key] = KnownOwner(kind, owner)
            if before is None or matters(before.owner) != matters(owner):
                self.version += 1
                concerned |= self._asked.get(key, set())
        return sorted(concerned)

    def lose(self, kind: Key, owner: Owner) -> None:
        """An owner was deleted; its pods are about to follow."""
        for key in _keys(kind, owner):
            there = self._owners.get(key)
            if there is not None and there.owner.metadata.uid == owner.metadata.uid:
                del self._owners[key]
                self.version += 1

    def asked(self, kind: Key, owner: Owner) -> list[TaskId]:
        """Who depends on an owner."""
        return sorted({task for key in _keys(kind, owner) for task in self._asked.get(key, ())})

    def find(self, ref: OwnerRef, namespace: str) -> Owner | None:
        """An owner that has been seen, in this namespace."""
        known = self.known(ref, namespace)
        return known.owner if known else None

    def known(self, ref: OwnerRef, namespace: str) -> KnownOwner | None:
        """The same, with its kind."""
        known = self.known_as(key_of(ref, namespace))
        if known is None or known.kind != kind_of(ref):
            return None
        meta = known.owner.metadata
        return known if (meta.namespace, meta.name) == (namespace, ref.name) else None

    def known_as(self, key: str) -> KnownOwner | None:
        """An owner by what it is remembered by."""
        return self._owners.get(key)

    def below(self, uid: str) -> KnownOwner | None:
        """An owner that this one controls."""
        for known in self._owners.values():
            above = controller(known.owner.metadata)
            if above is not None and above.uid == uid:
                return known
        return None

    def upwards(self, owner: Owner) -> list[tuple[object, ...]]:
        """Return the fields of an owner, and of the owners above it, on which pods depend."""
        found = [matters(owner)]
        while (above := controller(owner.metadata)) is not None and len(found) < MOST_STEPS:
            known = self.known(above, owner.metadata.namespace)
            if known is None:
                break
            owner = known.owner
            found.append(matters(owner))
        return found

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


def _keys(kind: Key, owner: Owner) -> tuple[str, str]:
    meta = owner.metadata
    named = OwnerRef(kind.kind, meta.name, "", f"{kind.group}/")
    return meta.uid, key_of(named, meta.namespace)


def matters(owner: Owner) -> tuple[object, ...]:
    """Return the fields on which pods and stand-ins depend; users may change the others freely."""
    meta, status = owner.metadata, owner.status
    counts = [status.get(name) for name in ("succeeded", "failed", "restarts")]
    said = [mark(meta, name) for name in (MINIMUM, SUSPENDED, CREATOR, RAY_PRIORITY)]
    done = finished(status)
    return meta.uid, owner.spec, counts, done, said, meta.creation_timestamp, meta.owner_references
