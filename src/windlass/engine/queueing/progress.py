"""The progress of gangs: which tasks run, must start together now, or may join later."""

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
    """The tasks of one group that have to be placed together."""

    group: Group
    tasks: tuple[Task, ...]
    nodes: tuple[str, ...] = ()
    """The nodes on which members of the group run already, by name."""


@dataclass(frozen=True)
class Progress:
    """The state of one gang at the start of a cycle."""

    gang: Gang
    parts: tuple[TaskBatch, ...]
    """The tasks that must be placed, all or none; empty if the gang has its minimum."""
    elastic: tuple[TaskBatch, ...]
    """The tasks above the minimum, one per batch, in the order in which they may join."""
    short: int = 0
    """The number of tasks of the minimum that do not exist yet."""
    nodes: tuple[str, ...] = ()
    """The nodes on which members run already, by name."""
    started: bool = False
    """True if some members run or have succeeded: missing members were lost."""
    grown: int = 0
    """The number of elastic tasks that it got in this cycle."""

    @cached_property
    def counts(self) -> Mapping[Shape, int]:
        """The number of tasks of each shape that have to be placed together."""
        return Counter(task.shape for part in self.parts for task in part.tasks)

    @cached_property
    def signature(self) -> Hashable:
        """A value that is equal for gangs that fit the same nodes, apart from queue rules."""
        parts = tuple(
            (part.group.domain, part.nodes, tuple(Counter(t.shape for t in part.tasks).items()))
            for part in self.parts
        )
        return self.gang.domain, self.nodes, parts


class ProgressCache:
    """The progress of all gangs with waiting tasks, cached across cycles.

    An entry rests on the gang's stamp, which every event about the gang changes, and on its hold.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._cached: dict[GangId, tuple[int, Hold | None, Progress]] = {}

    def waiting(self) -> list[Progress]:
        """Return the progress of all gangs with waiting tasks; forget all other gangs."""
        stamps, holds, before = self._cluster.stamps, self._cluster.holds, self._cached
        self._cached = {}
        for gangs in self._cluster.waiting.values():
            for gang in gangs:
                entry, stamp, hold = before.get(gang), stamps[gang], holds.get(gang)
                if entry is None or entry[0] != stamp or entry[1] is not hold:
                    entry = stamp, hold, gang_progress(self._cluster, gang)
                self._cached[gang] = entry
        return [progress for _, _, progress in self._cached.values()]

    def of(self, gang: GangId) -> Progress | None:
        """Return the progress of a gang at the last call of `waiting`; None if it did not wait."""
        entry = self._cached.get(gang)
        return entry[2] if entry else None


def gang_progress(cluster: Cluster, gang_id: GangId) -> Progress:
    """Return the progress of a gang."""
    gang = cluster.gangs[gang_id]
    members = cluster.members(gang_id)
    waiting = sorted(
        (task for task in members if task.state == TaskState.WAITING), key=natural_order
    )
    # The most common gang, one task that waits, without the general case below.
    if len(waiting) == len(members) == 1 and len(gang.groups) == 1 and gang.needed() == 1:
        return Progress(gang, (TaskBatch(gang.groups[0], tuple(waiting)),), ())
    hold = cluster.holds.get(gang_id)
    return _progress(gang, members, _held_first(hold, waiting) if hold else waiting)


def _held_first(hold: Hold, waiting: list[Task]) -> list[Task]:
    """Return tasks for which a place is held before others that could make up the minimum too."""
    places = Counter(claim.request for claim in hold.claims)
    first: list[Task] = []
    others: list[Task] = []
    for task in waiting:
        is_held = hold.firm and places[task.shape.request] > 0
        places[task.shape.request] -= is_held
        (first if is_held else others).append(task)
    return first + others


def _progress(gang: Gang, members: Iterable[Task], waiting: list[Task]) -> Progress:
    counted: Counter[str] = Counter()
    nodes: dict[str, list[str]] = {}
    for task in members:
        if task.state in ACTIVE:
            nodes.setdefault(task.group, []).append(task.node)
        if task.state in COUNTED:
            counted[task.group] += 1
    chosen, spare, short = _choose(gang, waiting, counted)
    groups = {group.name: group for group in gang.groups}
    parts = tuple(
        TaskBatch(groups.get(name, Group(name, 0)), tuple(tasks), _distinct(nodes.get(name, ())))
        for name, tasks in sorted(chosen.items())
    )
    everywhere = _distinct(node for in_group in nodes.values() for node in in_group)
    return Progress(gang, parts, _elastic(gang, spare, nodes), short, everywhere, bool(counted))


def batches_of(gang: Gang, tasks: Iterable[Task]) -> tuple[TaskBatch, ...]:
    """Return tasks of a gang in batches by group, as if none of the gang ran yet."""
    groups = {group.name: group for group in gang.groups}
    chosen: dict[str, list[Task]] = {}
    for task in tasks:
        chosen.setdefault(task.group, []).append(task)
    return tuple(
        TaskBatch(groups.get(name, Group(name, 0)), tuple(members))
        for name, members in sorted(chosen.items())
    )


def _choose(
    gang: Gang, waiting: list[Task], counted: Counter[str]
) -> tuple[dict[str, list[Task]], list[Task], int]:
    """Return the tasks that make up the minimum by group, the other tasks, and how many lack.

    First the minimum of each group is filled; then any tasks fill the minimum of the whole gang.
    """
    chosen: dict[str, list[Task]] = {}
    spare: list[Task] = []
    missing = {group.name: group.minimum - counted[group.name] for group in gang.groups}
    for task in waiting:
        if missing.get(task.group, 0) > 0:
            missing[task.group] -= 1
            chosen.setdefault(task.group, []).append(task)
        else:
            spare.append(task)
    short = sum(max(0, lack) for lack in missing.values())
    picked = sum(len(tasks) for tasks in chosen.values())
    extra = max(0, gang.needed() - counted.total() - picked - short)
    for task in spare[:extra]:
        chosen.setdefault(task.group, []).append(task)
    return chosen, spare[extra:], short + max(0, extra - len(spare))


def _elastic(gang: Gang, spare: list[Task], nodes: dict[str, list[str]]) -> tuple[TaskBatch, ...]:
    """Return the tasks above the minimum, one per batch."""
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


def natural_order(task: Task) -> tuple[int, str]:
    """Return a sort key that puts worker-2 before worker-10."""
    return len(task.id), task.id
