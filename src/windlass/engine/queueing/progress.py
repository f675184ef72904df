"""How far a gang is: who runs, who must start together now, who may join later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from windlass.model.actions import Hold
from windlass.model.jobs import ACTIVE, COUNTED, Gang, GangId, Group, Shape, Task, TaskState
from windlass.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """Tasks of one group that have to be placed together."""

    group: Group
    tasks: tuple[Task, ...]
    nodes: tuple[str, ...] = ()
    """Where members of the group run already."""


@dataclass(frozen=True)
class Progress:
    """One gang at the start of a cycle."""

    gang: Gang
    parts: tuple[TaskBatch, ...]
    """What must be placed, all of it or none; empty if the gang has its minimum."""
    elastic: tuple[TaskBatch, ...]
    """One task each, in the order in which they may join."""
    short: int = 0
    """Tasks of the minimum that do not exist yet."""
    nodes: tuple[str, ...] = ()
    """Where members run already."""
    started: bool = False
    """Some members run or have succeeded: what is missing was lost."""
    grown: int = 0
    """Elastic tasks it got in this cycle."""

    @cached_property
    def counts(self) -> Mapping[Shape, int]:
        """How many tasks of each shape have to be placed together."""
        return Counter(task.shape for part in self.parts for task in part.tasks)

    @cached_property
    def signature(self) -> Hashable:
        """Gangs with equal signatures fit or fail alike, apart from their queues."""
        parts = tuple(
            (part.group.domain, part.nodes, tuple(Counter(t.shape for t in part.tasks).items()))
            for part in self.parts
        )
        return self.gang.domain, self.nodes, parts


class Progresses:
    """How far the gangs are, worked out again only for those that something happened to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[GangId, tuple[int, Hold | None, Progress]] = {}

    def waiting(self) -> list[Progress]:
        """All gangs with waiting tasks."""
        stamps, holds, before = self._cluster.stamps, self._cluster.holds, self._known
        self._known = {}
        for line in self._cluster.waiting.values():
            for gang in line:
                found, stamp, hold = before.get(gang), stamps[gang], holds.get(gang)
                if found is None or found[0] != stamp or found[1] is not hold:
                    found = stamp, hold, progress(self._cluster, gang)
                self._known[gang] = found
        return [progress for _, _, progress in self._known.values()]

    def of(self, gang: GangId) -> Progress | None:
        """How far a gang was when they were last asked for; None if it did not wait."""
        known = self._known.get(gang)
        return known[2] if known else None


def progress(cluster: Cluster, gang_id: GangId) -> Progress:
    """How far a gang is."""
    gang = cluster.gangs[gang_id]
    members = cluster.members(gang_id)
    waiting = sorted((task for task in members if task.state == TaskState.WAITING), key=natural)
    if len(waiting) == len(members) == 1 and len(gang.groups) == 1 and gang.needed() == 1:
        return Progress(gang, (TaskBatch(gang.groups[0], tuple(waiting)),), ())
    hold = cluster.holds.get(gang_id)
    return _progress(gang, members, _kept_first(hold, waiting) if hold else waiting)


def _kept_first(hold: Hold, waiting: list[Task]) -> list[Task]:
    """Tasks for which a place is kept come before others that would make up the minimum as well."""
    kept = Counter(claim.request for claim in hold.claims)
    first: list[Task] = []
    others: list[Task] = []
    for task in waiting:
        is_kept = hold.firm and kept[task.shape.request] > 0
        kept[task.shape.request] -= is_kept
        (first if is_kept else others).append(task)
    return first + others


def _progress(gang: Gang, members: Iterable[Task], waiting: list[Task]) -> Progress:
    there: Counter[str] = Counter()
    nodes: dict[str, list[str]] = {}
    for task in members:
        if task.state in ACTIVE:
            nodes.setdefault(task.group, []).append(task.node)
        if task.state in COUNTED:
            there[task.group] += 1
    chosen, spare, short = _choose(gang, waiting, there)
    groups = {group.name: group for group in gang.groups}
    parts = tuple(
        TaskBatch(groups.get(name, Group(name, 0)), tuple(tasks), _distinct(nodes.get(name, ())))
        for name, tasks in sorted(chosen.items())
    )
    everywhere = _distinct(node for some in nodes.values() for node in some)
    return Progress(gang, parts, _elastic(gang, spare, nodes), short, everywhere, bool(there))


def parts_of(gang: Gang, tasks: Iterable[Task]) -> tuple[TaskBatch, ...]:
    """Tasks of a gang by their groups, as if they were to be placed anew."""
    groups = {group.name: group for group in gang.groups}
    chosen: dict[str, list[Task]] = {}
    for task in tasks:
        chosen.setdefault(task.group, []).append(task)
    return tuple(
        TaskBatch(groups.get(name, Group(name, 0)), tuple(some))
        for name, some in sorted(chosen.items())
    )


def _choose(
    gang: Gang, waiting: list[Task], there: Counter[str]
) -> tuple[dict[str, list[Task]], list[Task], int]:
    """The tasks that make up the minimum, the others, and how many are lacking."""
    chosen: dict[str, list[Task]] = {}
    spare: list[Task] = []
    missing = {group.name: group.minimum - there[group.name] for group in gang.groups}
    for task in waiting:
        if missing.get(task.group, 0) > 0:
            missing[task.group] -= 1
            chosen.setdefault(task.group, []).append(task)
        else:
            spare.append(task)
    short = sum(max(0, lack) for lack in missing.values())
    picked = sum(len(tasks) for tasks in chosen.values())
    extra = max(0, gang.needed() - there.total() - picked - short)
    for task in spare[:extra]:
        chosen.setdefault(task.group, []).append(task)
    return chosen, spare[extra:], short + max(0, extra - len(spare))


def _elastic(gang: Gang, spare: list[Task], nodes: dict[str, list[str]]) -> tuple[TaskBatch, ...]:
    groups = {group.name: group for group in gang.groups}
    return tuple(
        TaskBatch(
            groups.get(task.group, Group(task.group, 0)),
            (task,),
            _distinct(nodes.get(task.group, ())),
        )
        for task in spare
    )


def _distinct(nodes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(nodes)))


def natural(task: Task) -> tuple[int, str]:
    """worker-2 before worker-10."""
    return len(task.id), task.id
