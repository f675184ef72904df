"""The owners of pods, and the tasks that depend on each.

An owner may be observed after its pods, or change its size: then the pods that depend on it are
evaluated again. An owner is looked up by uid, and by kind and name only where the owner references
of a pod do not lead to it. Kind, namespace and name of a reference must match the owner as well,
because users can write references.

Owners are kept without marks that this scheduler did not sign (`SignedMarks`), so that nothing
follows from a mark that a user wrote.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.kube.ingest.scope import Scope
from windlass.model.jobs import TaskId
from windlass.workloads.kinds import (
    MOST_STEPS,
    RAY_PRIORITY,
    Key,
    Kinds,
    Membership,
    is_suspended,
    key_of,
    kind_of,
    mark_of,
    membership,
    succeeded_jobs,
)
from windlass.workloads.objects import (
    CREATOR,
    MINIMUM,
    SUSPENDED,
    Owner,
    OwnerRef,
    Pod,
    controller,
    mark,
    without_unsigned_mark,
)

MOST_REPORTED = 1000
"""The number of owners with unsigned marks that are reported; users can create any number."""


class KnownOwner(NamedTuple):
    """An owner and its kind."""

    kind: Key
    owner: Owner


class OwnerIndex:
    """The observed owners, by uid and by kind and name, and the tasks that depend on them."""

    def __init__(self) -> None:
        self._owners: dict[str, KnownOwner] = {}
        """Each owner stands here twice: under its uid, and under its kind, namespace and name."""
        self._asked: dict[str, set[TaskId]] = {}
        """The dependent tasks by the same keys; may hold keys of owners that are not observed."""
        self.version = 0
        """Counts the changes that matter to the pods of an owner; caches compare it."""

    def see(self, kind: Key, owner: Owner) -> list[TaskId]:
        """Store an owner that is new or has changed; return the tasks to evaluate again."""
        dependents: set[TaskId] = set()
        for key in _keys(kind, owner):
            before = self._owners.get(key)
            self._owners[key] = KnownOwner(kind, owner)
            if before is None or matters(before.owner) != matters(owner):
                self.version += 1
                dependents |= self._asked.get(key, set())
        return sorted(dependents)

    def lose(self, kind: Key, owner: Owner) -> None:
        """Remove an owner that was deleted; the deletion of its pods is observed separately."""
        for key in _keys(kind, owner):
            known = self._owners.get(key)
            # an owner of the same name may have replaced it already
            if known is not None and known.owner.metadata.uid == owner.metadata.uid:
                del self._owners[key]
                self.version += 1

    def dependents(self, kind: Key, owner: Owner) -> list[TaskId]:
        """Return the tasks that depend on an owner."""
        return sorted({task for key in _keys(kind, owner) for task in self._asked.get(key, ())})

    def find(self, ref: OwnerRef, namespace: str) -> Owner | None:
        """Return the owner that a reference in this namespace names; None if not observed."""
        known = self.known(ref, namespace)
        return known.owner if known else None

    def known(self, ref: OwnerRef, namespace: str) -> KnownOwner | None:
        """Return the owner that a reference names, with its kind; None if not observed."""
        known = self.known_as(key_of(ref, namespace))
        if known is None or known.kind != kind_of(ref):
            return None
        meta = known.owner.metadata
        return known if (meta.namespace, meta.name) == (namespace, ref.name) else None

    def known_as(self, key: str) -> KnownOwner | None:
        """Return the owner with this key, such as its uid; None if not observed."""
        return self._owners.get(key)

    def below(self, uid: str) -> KnownOwner | None:
        """Return an owner that the owner with this uid controls; None if there is none."""
        for known in self._owners.values():
            above = controller(known.owner.metadata)
            if above is not None and above.uid == uid:
                return known
        return None

    def upwards(self, owner: Owner) -> list[tuple[object, ...]]:
        """Return the fields of an owner, and of the owners above it, on which pods depend."""
        fields = [matters(owner)]
        while (above := controller(owner.metadata)) is not None and len(fields) < MOST_STEPS:
            known = self.known(above, owner.metadata.namespace)
            if known is None:
                break
            owner = known.owner
            fields.append(matters(owner))
        return fields

    def add_dependent(self, task: TaskId, keys: tuple[str, ...]) -> None:
        """Note that a task depends on the owners with these keys."""
        for key in keys:
            self._asked.setdefault(key, set()).add(task)

    def remove_dependent(self, task: TaskId, keys: tuple[str, ...]) -> None:
        """Note that a task no longer depends on the owners with these keys."""
        for key in keys:
            tasks = self._asked.get(key, set())
            tasks.discard(task)
            if not tasks:
                self._asked.pop(key, None)


class MembershipCache:
    """Works out the gang of a pod, and remembers the answer for the last pod.

    Equal placeholders share one pod object, so thousands of calls in a row ask about the same one.
    """

    def __init__(self, owners: OwnerIndex, kinds: Kinds) -> None:
        self._owners, self._kinds = owners, kinds
        self._last: tuple[Pod, int, Membership] | None = None
        """The last pod, the version of the owners at that time, and the answer."""

    def of(self, pod: Pod) -> Membership:
        """Return the gang that a pod belongs to, by the owners that were observed so far."""
        version = self._owners.version
        if self._last is not None and self._last[0] is pod and self._last[1] == version:
            return self._last[2]
        answer = membership(pod, self._owners.find, self._kinds)
        self._last = pod, version, answer
        return answer


class UnsignedMark(NamedTuple):
    """A suspended owner whose mark is not signed by this scheduler."""

    kind: Key
    namespace: str
    name: str
    field: str
    """The field that suspends it, such as `spec.suspend`."""


class SignedMarks:
    """Removes unsigned marks from owners, and reports suspended owners that have one.

    Such an owner may have been suspended by an older version, which did not sign its marks. It is
    left as it is and reported once, so that a person can resume it.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._reported: set[str] = set()
        """The uids of reported owners; at most `MOST_REPORTED`."""
        self._unreported: list[UnsignedMark] = []

    def without_unsigned(self, kind: Key, owner: Owner) -> Owner:
        """Return the owner, without its mark if this scheduler did not sign that."""
        trusted = without_unsigned_mark(owner, self._scope.seal)
        if trusted is not owner:
            self._report(kind, owner)
        return trusted

    def due(self) -> list[UnsignedMark]:
        """Return the owners to report now, and forget them: each is returned once."""
        due, self._unreported = self._unreported, []
        return due

    def _report(self, kind: Key, owner: Owner) -> None:
        meta, row = owner.metadata, self._scope.kinds.get(kind)
        if row is None or not row.suspend or not is_suspended(owner.spec, row.suspend):
            return
        if meta.uid in self._reported or len(self._reported) >= MOST_REPORTED:
            return
        if self._scope.has_owner(meta) and mark_of(meta) is not None:
            self._reported.add(meta.uid)
            self._unreported.append(UnsignedMark(kind, meta.namespace, meta.name, row.suspend))


def _keys(kind: Key, owner: Owner) -> tuple[str, str]:
    meta = owner.metadata
    named = OwnerRef(kind.kind, meta.name, "", f"{kind.group}/")
    return meta.uid, key_of(named, meta.namespace)


def matters(owner: Owner) -> tuple[object, ...]:
    """Return the fields on which pods and placeholders depend; users may change all others."""
    meta, status = owner.metadata, owner.status
    counts = [status.get(name) for name in ("succeeded", "failed", "restarts")]
    marks = [mark(meta, name) for name in (MINIMUM, SUSPENDED, CREATOR, RAY_PRIORITY)]
    done = succeeded_jobs(status)
    return meta.uid, owner.spec, counts, done, marks, meta.creation_timestamp, meta.owner_references
