"""Gangs whose owner we have suspended: they wait though they have no pods.

From its owner's template each such gang has *stand-ins*: tasks without pods, which keep its place
in line. Whatever pods it has, or has again after it was resumed, take the places of stand-ins. All
this follows from the owner as it is, so that whoever leads next finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from windlass.kube.ingest.owners import KnownOwner, Owners, matters
from windlass.kube.ingest.priorities import Priorities
from windlass.kube.ingest.scope import Scope
from windlass.kube.writers.suspend import Switch
from windlass.model.jobs import GangId, TaskId
from windlass.model.units import format_timestamp, parse_timestamp_or_none
from windlass.workloads.kinds import gang_sizes as gangs
from windlass.workloads.kinds.suspension import (
    Mark,
    OwnerState,
    has_ended,
    is_suspended,
    mark_of,
    standing,
)
from windlass.workloads.kinds.table import Key, climb, membership, stopping
from windlass.workloads.manifests.expand import ClusterDefaults, ExpandedPods, made_again
from windlass.workloads.objects.annotations import GANG, mark
from windlass.workloads.objects.wire import (
    ObjectCondition,
    ObjectMeta,
    Owner,
    Pod,
    PodStatus,
    controller,
)

COME_WITHIN_S = 60
"""So long places are held for pods that a resumed owner is to make, besides its own back-off."""


@dataclass(frozen=True, slots=True)
class AbsentPod:
    """A gang that we have suspended, and what it is made of."""

    gang: GangId
    switch: Switch
    mark: Mark
    standing: OwnerState
    pods: Mapping[TaskId, Pod] = field(default_factory=dict[TaskId, Pod])
    """Its stand-ins, one for each pod that it would have; equal ones share one object."""
    comes_within_s: int = COME_WITHIN_S
    """How long its owner may take to make the pods again, once it is resumed."""


class Stoppable(NamedTuple):
    """A gang that could be stopped whole."""

    switch: Switch
    pods: int
    """As many of the gang as its owner would make again."""
    used_by: Set[TaskId]
    """All tasks that would go with it, also those of other gangs of its owner."""


class SuspendedGangs:
    """The absent gangs, by the owner that was suspended."""

    def __init__(self, scope: Scope, owners: Owners, priorities: Priorities) -> None:
        self._scope, self._kinds = scope, scope.kinds
        self._owners, self._priorities = owners, priorities
        self._by_owner: dict[str, list[GangId]] = {}
        self._absent: dict[GangId, AbsentPod] = {}
        self._noted: dict[str, tuple[object, ...]] = {}
        """What the stand-ins of a marked owner were made of, by the uid of the owner."""

    def of(self, gang: GangId) -> AbsentPod | None:
        """What is known of a gang, if it is absent."""
        return self._absent.get(gang)

    def __iter__(self) -> Iterator[AbsentPod]:
        return iter(list(self._absent.values()))

    def see(self, kind: Key, owner: Owner, now: int) -> list[GangId]:
        """An owner is new or has changed; answers which gangs may have other stand-ins now."""
        row, meta = self._kinds.get(kind), owner.metadata
        if row is None or not self._scope.has_owner(meta):
            return []
        if has_ended(owner.status):
            return self.lose(owner)
        if mark_of(meta) is None or not row.suspend:
            above = controller(meta)
            found = self._owners.known(above, meta.namespace) if above else None
            if found is not None and mark_of(found.owner.metadata) is not None:
                return self.see(found.kind, found.owner, now)
            return self.lose(owner)
        noted = self._made_of(kind, owner)
        if self._noted.get(meta.uid) == noted:
            return []  # its user has changed something that concerns no stand-in
        lost = self.lose(owner)
        self._noted[meta.uid] = noted
        return sorted({*lost, *self._note(kind, owner, now)})

    def lose(self, owner: Owner) -> list[GangId]:
        """An owner is gone, or unmarked; answers which gangs have no stand-ins any more."""
        self._noted.pop(owner.metadata.uid, None)
        gangs = self._by_owner.pop(owner.metadata.uid, [])
        return [gang for gang in gangs if self._absent.pop(gang, None)]

    def by_owner(self) -> list[list[AbsentPod]]:
        """Return the absent gangs, those of one owner together."""
        return [[self._absent[gang] for gang in gangs] for gangs in self._by_owner.values()]

    def tasks_of(self, uid: str) -> list[TaskId]:
        """Return all tasks, also stand-ins, that depend on an owner with this uid."""
        known = self._owners.known_as(uid)
        return self._owners.asked(known.kind, known.owner) if known else []

    def switch(self, gang: GangId, pods: Sequence[Pod], now: int) -> Stoppable | None:
        """How a gang with these pods can be stopped whole, and wait on.

        None if it cannot: its owner has no field for that, or would not make the same gang again.
        """
        tops = {self._top(pod) for pod in pods}
        top = tops.pop() if len(tops) == 1 else None
        known = self._owners.known_as(top) if top else None
        if known is None or is_suspended(known.owner.spec, self._kinds[known.kind].suspend):
            return None
        rows = self._make(known.kind, known.owner, 0, now, whole=True)
        size = sum(len(row.tasks) for row in rows if self._gangs([row]) == {gang})
        if not size:
            return None
        used_by = frozenset(self._owners.asked(known.kind, known.owner))
        return Stoppable(self._switch(known.kind, known.owner), size, used_by)

    def _note(self, kind: Key, owner: Owner, now: int) -> list[GangId]:
        row, found = self._kinds[kind], mark_of(owner.metadata)
        how = standing(owner, row.suspend)
        if found is None or how is None:
            return []
        rows: dict[GangId, list[ExpandedPods]] = {}
        for made in self._make(kind, owner, found.since, now):
            names = self._gangs([made])
            if len(names) != 1:
                return []  # each pod would be a gang of its own
            rows.setdefault(names.pop(), []).append(made)
        within_s = COME_WITHIN_S + row.backoff_s(owner, 0)
        switch = self._switch(kind, owner)
        for gang, some in rows.items():
            here = some if how is not OwnerState.TAKEN else ()
            said = [(made.tasks, _saying(made.pod, found, how)) for made in here]
            pods = {task: pod for tasks, pod in said for task in tasks}
            self._absent[gang] = AbsentPod(gang, switch, found, how, pods, within_s)
        self._by_owner[owner.metadata.uid] = sorted(rows)
        return sorted(rows)

    def _make(
        self, kind: Key, owner: Owner, since: int, now: int, *, whole: bool = False
    ) -> list[ExpandedPods]:
        """The pods that an owner would make again; what only passes on has its own maker below."""
        maker = self._maker(kind, owner)
        if maker is None:
            return []
        kind, owner = maker
        meta = owner.metadata
        # no older than the owner itself: users can write the mark, too
        began = min(now, max(since, parse_timestamp_or_none(meta.creation_timestamp) or 0))
        terms = ClusterDefaults(
            meta.namespace,
            min(self._scope.schedulers, default=""),
            format_timestamp(began),
            self._priorities.values(),
            self._kinds,
            self._priorities.meek,
        )
        return made_again(kind, owner, terms, whole=whole)

    def _maker(self, kind: Key, owner: Owner) -> KnownOwner | None:
        if self._kinds[kind].gang is gangs.below:
            return self._owners.below(owner.metadata.uid)
        return KnownOwner(kind, owner)

    def _made_of(self, kind: Key, owner: Owner) -> tuple[object, ...]:
        """All that the stand-ins of an owner follow from."""
        maker = self._maker(kind, owner)
        made_by = matters(maker.owner) if maker else None
        return kind, self._owners.upwards(owner), made_by, self._priorities.version

    def _gangs(self, made: Iterable[ExpandedPods]) -> set[GangId]:
        # two of a row tell whether each of its pods would be a gang of its own
        some = (pod for row in made for pod in (row.pod, row.twin))
        return {GangId(membership(pod, self._owners.find, self._kinds).gang) for pod in some}

    def _top(self, pod: Pod) -> str | None:
        """The owner that stops a pod's gang: the topmost, if nobody above it could object."""
        way = climb(pod, self._owners.find, self._kinds)
        if not way or way[-1].owner is None or mark(pod.metadata, GANG):
            return None
        return stopping(way, pod.metadata.namespace) or None

    def _switch(self, kind: Key, owner: Owner) -> Switch:
        row = self._kinds[kind]
        return Switch(_path(row.path, owner.metadata), owner.metadata.uid, row.suspend)


def _saying(pod: Pod, found: Mark, how: OwnerState) -> Pod:
    """A stand-in that says why it waits, where others look at what stands on pods."""
    text = f"Its owner was suspended at {format_timestamp(found.at)} for {found.gainer or 'others'}"
    more = (
        "it is resumed when there is room" if how is OwnerState.SUSPENDED else "it is being resumed"
    )
    says = ObjectCondition("PodScheduled", "False", how.capitalize(), f"{text}; {more}")
    return msgspec.structs.replace(pod, status=PodStatus(phase="Pending", conditions=[says]))


def _path(path: str, meta: ObjectMeta) -> str:
    folder, _, plural = path.rpartition("/")
    return f"{folder}/namespaces/{meta.namespace}/{plural}/{meta.name}"
