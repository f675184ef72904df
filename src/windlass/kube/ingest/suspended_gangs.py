"""Gangs whose owner this scheduler has suspended: they wait although they have no pods.

Each such gang has *placeholders*, made from the template of its owner: tasks without pods, which
keep the gang in its queue. The pods that the gang still has, or has again after it was resumed,
take the places of placeholders. Everything follows from the owner as it is observed, so the next
leader finds the same.

`PlaceholderTasks` keeps the placeholders of all gangs, also of those whose followers are created
after their leaders have nodes (`leaders.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from windlass.kube.ingest.owners import KnownOwner, OwnerIndex, matters
from windlass.kube.ingest.queue_assignment import Priorities
from windlass.kube.ingest.scope import Scope
from windlass.kube.refs import OwnerSwitch
from windlass.model.jobs import GangId, TaskId
from windlass.model.resources import Request
from windlass.model.units import format_timestamp, parse_timestamp_or_none
from windlass.workloads.kinds import (
    Key,
    OwnerState,
    SuspensionMark,
    gang_sizes,
    has_ended,
    is_suspended,
    mark_of,
    membership,
    owner_chain,
    owner_state,
    suspendable_owner,
)
from windlass.workloads.manifests import ClusterDefaults, ExpandedPods, expand_owner
from windlass.workloads.objects import (
    GANG,
    ObjectCondition,
    ObjectMeta,
    Owner,
    Pod,
    PodStatus,
    controller,
    mark,
)

COME_WITHIN_S = 60
"""Seconds for which places are held for pods of a resumed owner, besides its own backoff."""


@dataclass(frozen=True, slots=True)
class SuspendedGang:
    """A gang that this scheduler has suspended, and its placeholders."""

    gang: GangId
    switch: OwnerSwitch
    mark: SuspensionMark
    standing: OwnerState
    pods: Mapping[TaskId, Pod] = field(default_factory=dict[TaskId, Pod])
    """A placeholder for each pod that the gang would have; equal ones share one object."""
    comes_within_s: int = COME_WITHIN_S
    """Seconds that its owner may take to create the pods again, once it is resumed."""


class StoppableGang(NamedTuple):
    """A running gang that could be stopped whole."""

    switch: OwnerSwitch
    pods: int
    """The number of pods of the gang that its owner would create again."""
    used_by: Set[TaskId]
    """All tasks that would stop with it, also those of other gangs of its owner."""


class SuspendedGangs:
    """The suspended gangs, by the owner that was suspended."""

    def __init__(self, scope: Scope, owners: OwnerIndex, priorities: Priorities) -> None:
        self._scope, self._kinds = scope, scope.kinds
        self._owners, self._priorities = owners, priorities
        self._by_owner: dict[str, list[GangId]] = {}
        """The gangs of each suspended owner, by its uid."""
        self._gangs: dict[GangId, SuspendedGang] = {}
        self._noted: dict[str, tuple[object, ...]] = {}
        """All that the placeholders of an owner were made from, by its uid: made again if other."""

    def of(self, gang: GangId) -> SuspendedGang | None:
        """Return a gang if it is suspended, else None."""
        return self._gangs.get(gang)

    def __iter__(self) -> Iterator[SuspendedGang]:
        return iter(list(self._gangs.values()))

    def see(self, kind: Key, owner: Owner, now: int) -> list[GangId]:
        """Take note of an owner; return the gangs that may have other placeholders now."""
        row, meta = self._kinds.get(kind), owner.metadata
        if row is None or not self._scope.has_owner(meta):
            return []
        if has_ended(owner.status):
            return self.lose(owner)
        if mark_of(meta) is None or not row.suspend:
            above = controller(meta)
            known = self._owners.known(above, meta.namespace) if above else None
            if known is not None and mark_of(known.owner.metadata) is not None:
                return self.see(known.kind, known.owner, now)
            return self.lose(owner)
        made_of = self._made_of(kind, owner)
        if self._noted.get(meta.uid) == made_of:
            return []  # its user has changed something that concerns no placeholder
        lost = self.lose(owner)
        self._noted[meta.uid] = made_of
        return sorted({*lost, *self._make_gangs(kind, owner, now)})

    def lose(self, owner: Owner) -> list[GangId]:
        """Remove the gangs of an owner that is gone or unmarked; return those removed."""
        self._noted.pop(owner.metadata.uid, None)
        gangs = self._by_owner.pop(owner.metadata.uid, [])
        return [gang for gang in gangs if self._gangs.pop(gang, None)]

    def by_owner(self) -> list[list[SuspendedGang]]:
        """Return the suspended gangs, grouped by owner."""
        return [[self._gangs[gang] for gang in gangs] for gangs in self._by_owner.values()]

    def tasks_of(self, uid: str) -> list[TaskId]:
        """Return all tasks, also placeholders, that depend on an owner with this uid."""
        known = self._owners.known_as(uid)
        return self._owners.dependents(known.kind, known.owner) if known else []

    def switch(self, gang: GangId, pods: Sequence[Pod], now: int) -> StoppableGang | None:
        """Return how a gang with these pods can be stopped whole, and wait in its queue.

        None if it cannot: its owner has no field for that, or would not create the same gang again.
        """
        tops = {self._top(pod) for pod in pods}
        top = tops.pop() if len(tops) == 1 else None
        known = self._owners.known_as(top) if top else None
        if known is None or is_suspended(known.owner.spec, self._kinds[known.kind].suspend):
            return None
        rows = self._expand(known.kind, known.owner, 0, now, whole=True)
        size = sum(len(row.tasks) for row in rows if self._gang_names([row]) == {gang})
        if not size:
            return None
        used_by = frozenset(self._owners.dependents(known.kind, known.owner))
        return StoppableGang(self._switch(known.kind, known.owner), size, used_by)

    def _make_gangs(self, kind: Key, owner: Owner, now: int) -> list[GangId]:
        """Make the gangs of a marked owner with their placeholders; return their ids."""
        row, owner_mark = self._kinds[kind], mark_of(owner.metadata)
        state = owner_state(owner, row.suspend)
        if owner_mark is None or state is None:
            return []
        rows: dict[GangId, list[ExpandedPods]] = {}
        for expanded in self._expand(kind, owner, owner_mark.since, now):
            names = self._gang_names([expanded])
            if len(names) != 1:
                return []  # each pod would be a gang of its own
            rows.setdefault(names.pop(), []).append(expanded)
        within_s = COME_WITHIN_S + row.backoff_s(owner, 0)
        switch = self._switch(kind, owner)
        for gang, expansions in rows.items():
            # a user who resumes the owner has taken it from us: its pods come by themselves
            there = expansions if state is not OwnerState.TAKEN else ()
            explained = [(made.tasks, _explained(made.pod, owner_mark, state)) for made in there]
            pods = {task: pod for tasks, pod in explained for task in tasks}
            self._gangs[gang] = SuspendedGang(gang, switch, owner_mark, state, pods, within_s)
        self._by_owner[owner.metadata.uid] = sorted(rows)
        return sorted(rows)

    def _expand(
        self, kind: Key, owner: Owner, since: int, now: int, *, whole: bool = False
    ) -> list[ExpandedPods]:
        """Return the pods that an owner, or the owner below it, would create again."""
        maker = self._maker(kind, owner)
        if maker is None:
            return []
        kind, owner = maker
        meta = owner.metadata
        # no older than the owner itself: users can write the mark, too
        began = min(now, max(since, parse_timestamp_or_none(meta.creation_timestamp) or 0))
        defaults = ClusterDefaults(
            meta.namespace,
            min(self._scope.schedulers, default=""),
            format_timestamp(began),
            self._priorities.values(),
            self._kinds,
            self._priorities.meek,
        )
        return expand_owner(kind, owner, defaults, whole=whole)

    def _maker(self, kind: Key, owner: Owner) -> KnownOwner | None:
        """Return the owner that creates the pods: a TrainJob only passes them on to a JobSet."""
        if self._kinds[kind].gang is gang_sizes.below:
            return self._owners.below(owner.metadata.uid)
        return KnownOwner(kind, owner)

    def _made_of(self, kind: Key, owner: Owner) -> tuple[object, ...]:
        """Return all values from which the placeholders of an owner are made."""
        maker = self._maker(kind, owner)
        made_by = matters(maker.owner) if maker else None
        return kind, self._owners.upwards(owner), made_by, self._priorities.version

    def _gang_names(self, rows: Iterable[ExpandedPods]) -> set[GangId]:
        # two pods of a row tell whether each of its pods would be a gang of its own
        pods = (pod for row in rows for pod in (row.pod, row.twin))
        return {GangId(membership(pod, self._owners.find, self._kinds).gang) for pod in pods}

    def _top(self, pod: Pod) -> str | None:
        """Return the uid of the owner that can stop a pod's gang: the topmost; None if none can."""
        way = owner_chain(pod, self._owners.find, self._kinds)
        if not way or way[-1].owner is None or mark(pod.metadata, GANG):
            return None
        return suspendable_owner(way, pod.metadata.namespace) or None

    def _switch(self, kind: Key, owner: Owner) -> OwnerSwitch:
        row = self._kinds[kind]
        return OwnerSwitch(_path(row.path, owner.metadata), owner.metadata.uid, row.suspend)


def _explained(pod: Pod, owner_mark: SuspensionMark, state: OwnerState) -> Pod:
    """Return a placeholder with a condition that says why it waits, for readers of conditions."""
    at, preemptor = format_timestamp(owner_mark.at), owner_mark.gainer or "others"
    text = f"Its owner was suspended at {at} for {preemptor}"
    more = (
        "it is resumed when there is room"
        if state is OwnerState.SUSPENDED
        else "it is being resumed"
    )
    says = ObjectCondition("PodScheduled", "False", state.capitalize(), f"{text}; {more}")
    return msgspec.structs.replace(pod, status=PodStatus(phase="Pending", conditions=[says]))


def _path(path: str, meta: ObjectMeta) -> str:
    folder, _, plural = path.rpartition("/")
    return f"{folder}/namespaces/{meta.namespace}/{plural}/{meta.name}"


@dataclass(slots=True)
class _GangPlaceholders:
    """The placeholders of one gang. Each place is in `here` or in `took`, never in both."""

    here: dict[TaskId, Pod] = field(default_factory=dict[TaskId, Pod])
    took: dict[TaskId, TaskId] = field(default_factory=dict[TaskId, TaskId])
    """The pod that has the place of a placeholder."""
    requests: dict[int, tuple[Pod, Request]] = field(default_factory=dict[int, tuple[Pod, Request]])
    """By the identity of a pod object, which equal placeholders share; the entry keeps it alive."""


@dataclass(frozen=True, slots=True)
class PlaceholderDelta:
    """The placeholders that are new or have changed, and those that are not needed any more."""

    come: Mapping[TaskId, Pod]
    go: list[TaskId]


class PlaceholderTasks:
    """The placeholders of each gang: one for each place that no pod has taken."""

    def __init__(self, request: Callable[[Pod], Request]) -> None:
        self._request = request
        self._gangs: dict[GangId, _GangPlaceholders] = {}
        self._tasks: set[TaskId] = set()
        """All placeholders, also those that are about to be removed (`forget`)."""

    def __contains__(self, task: object) -> bool:
        """Return whether a task is a placeholder."""
        return task in self._tasks

    def __bool__(self) -> bool:
        """Return whether there is any placeholder."""
        return bool(self._tasks)

    def knows(self, gang: GangId) -> bool:
        """Return whether the gang has places for placeholders, taken or not."""
        return gang in self._gangs

    def of(self, gang: GangId) -> Mapping[TaskId, Pod]:
        """Return the placeholders of a gang, each with the pod that it stands for."""
        placeholders = self._gangs.get(gang)
        return placeholders.here if placeholders else {}

    def all(self) -> dict[TaskId, Pod]:
        """Return the placeholders of all gangs."""
        return {task: pod for each in self._gangs.values() for task, pod in each.here.items()}

    def took(self, gang: GangId) -> Mapping[TaskId, TaskId]:
        """Return the pods of a gang that have places of placeholders, by placeholder."""
        placeholders = self._gangs.get(gang)
        return placeholders.took if placeholders else {}

    def change(
        self,
        gang: GangId,
        places: Mapping[TaskId, Pod] | None,
        present: Mapping[TaskId, Request],
    ) -> PlaceholderDelta:
        """Fill the places of a gang (None: it has none) that the present pods leave.

        A pod takes the place of a placeholder with the same request, if there is one.
        """
        placeholders = self._gangs.setdefault(gang, _GangPlaceholders())
        before = placeholders.here
        placeholders.here, placeholders.took = dict(places or {}), {}
        placeholders.requests.clear()
        for task, request in list(present.items())[: len(placeholders.here)]:
            equal = (
                place
                for place, pod in placeholders.here.items()
                if self._request_of(placeholders, pod) == request
            )
            place = next(equal, None) or next(iter(placeholders.here))
            placeholders.took[place] = task
            del placeholders.here[place]
        if places is None:
            del self._gangs[gang]
        self._tasks |= placeholders.here.keys()
        come = {task: pod for task, pod in placeholders.here.items() if before.get(task) is not pod}
        return PlaceholderDelta(come, sorted(before.keys() - placeholders.here.keys()))

    def forget(self, task: TaskId) -> None:
        """Forget a placeholder after its task was removed."""
        self._tasks.discard(task)

    def _request_of(self, placeholders: _GangPlaceholders, pod: Pod) -> Request:
        known = placeholders.requests.get(id(pod))
        if known is None:
            known = placeholders.requests[id(pod)] = pod, self._request(pod)
        return known[1]
