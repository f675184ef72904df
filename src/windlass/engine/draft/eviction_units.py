"""Running work as what can be displaced: whole gangs, and elastic members one by one.

A gang's units leave in order: elastic members above the minimum first, the last one first; then
the rest, all together. Taking a unit therefore takes all that stand before it in its gang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeAlias

from windlass.engine.draft.restart_cost import harm
from windlass.engine.queueing.progress import TaskBatch, natural, parts_of
from windlass.model.jobs import ACTIVE, COUNTED, Gang, GangId, Task
from windlass.model.nodes import Node
from windlass.state.cluster import Cluster
from windlass.state.node_columns import NodeTable
from windlass.state.queue_accounts import charges_of

Freed: TypeAlias = tuple[int, list[int]]
"""GPU thousandths and the other amounts that come free on one node."""


@dataclass(slots=True, eq=False)
class EvictionUnit:
    """Tasks that leave together."""

    gang: Gang
    tasks: tuple[Task, ...]
    is_core: bool
    """Without it the gang does not run."""
    is_torn: bool
    """Does its gang lack part of its minimum? It would have to be placed whole elsewhere."""
    started_at: int | None
    """When its last task came up; None if one has not."""
    frees: Mapping[int, Freed]
    """What comes free on each node."""
    nodes: Mapping[str, Node]
    """All nodes by name."""
    now: int = 0
    """When it is looked at."""
    before: tuple[EvictionUnit, ...] = ()
    """The units of the gang that leave first, in their order."""
    after: tuple[EvictionUnit, ...] = ()
    """The units of the gang that leave later."""
    gone: bool = False
    age: tuple[int, str, int] = (0, "", 0)
    """Sorts the youngest gang first, and its units as they leave."""
    _charges: Mapping[str, int] | None = None
    _harm: int | None = None

    @property
    def harm(self) -> int:
        """What losing it now would cost; of most units nobody asks."""
        if self._harm is None:
            self._harm = harm(self.gang, self.tasks, self.now, self.is_core)
        return self._harm

    def look(self, now: int) -> None:
        """It is there, and this is the time."""
        self.now, self.gone, self._harm = now, False, None

    @property
    def charges(self) -> Mapping[str, int]:
        """What its queue is charged for it; of most units nobody asks."""
        if self._charges is None:
            self._charges = _charges(self.nodes, self.tasks)
        return self._charges

    def closure(self) -> Iterator[EvictionUnit]:
        """The units that leave if this one does, itself last."""
        return (unit for unit in (*self.before, self) if not unit.gone)

    def beside(self) -> tuple[str, ...]:
        """Where the rest of its gang runs."""
        return tuple(sorted({task.node for unit in self.after for task in unit.tasks}))

    def parts(self) -> tuple[TaskBatch, ...]:
        """Its tasks as they would have to be placed, beside the rest of their groups."""
        stays = [task for unit in self.after for task in unit.tasks]
        return tuple(
            replace(
                part, nodes=tuple(sorted({t.node for t in stays if t.group == part.group.name}))
            )
            for part in parts_of(self.gang, self.tasks)
        )


class Units:
    """The units of all running gangs; those of a gang are worked out again when it changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[GangId, tuple[int, list[EvictionUnit]]] = {}
        self._sorted: list[EvictionUnit] = []

    def now(self) -> list[EvictionUnit]:
        """All units that can be displaced, the youngest first, as of now."""
        self._catch_up()
        for unit in self._sorted:
            unit.look(self._cluster.now)
        return self._sorted

    def _catch_up(self) -> None:
        """Leave out the units of gangs that have changed, and sort in what they are now."""
        cluster, before = self._cluster, self._known
        known, fresh = dict[GangId, tuple[int, list[EvictionUnit]]](), list[EvictionUnit]()
        for gang in cluster.active:
            stamp = cluster.stamps[gang]
            kept = before.get(gang)
            if kept is None or kept[0] != stamp:
                kept = (stamp, _units(cluster, cluster.gangs[gang]))
                fresh += kept[1]
            known[gang] = kept
        self._known = known
        same = [each for each in self._sorted if _is_kept(known, before, each.gang.id)]
        # nearly in order already, which sorting makes use of
        self._sorted = sorted(same + fresh, key=_AGE)


_AGE = attrgetter("age")


def _is_kept(
    known: Mapping[GangId, tuple[int, list[EvictionUnit]]],
    before: Mapping[GangId, tuple[int, list[EvictionUnit]]],
    gang: GangId,
) -> bool:
    return gang in known and known[gang] is before[gang]


def _units(cluster: Cluster, gang: Gang) -> list[EvictionUnit]:
    """The units of one gang, first to leave first; none if it may not be displaced."""
    if not gang.preemptible:
        return []
    members = cluster.members(gang.id)
    active = [task for task in members if task.state in ACTIVE]
    for task in active:
        if task.node not in cluster.nodes:
            return []
    if len(active) > 1:
        active.sort(key=natural)
    tails, core = _split(gang, active, members)
    torn = is_torn(gang, members)
    units: list[EvictionUnit] = []
    for tasks in [*((task,) for task in tails), tuple(core)]:
        if tasks:
            is_core = len(units) == len(tails)
            started, frees = _started(tasks), _frees(cluster.columns, tasks)
            units.append(EvictionUnit(gang, tasks, is_core, torn, started, frees, cluster.nodes))
    for at, unit in enumerate(units):
        unit.before, unit.after = tuple(units[:at]), tuple(units[at + 1 :])
        unit.age = -gang.created_at, gang.id, at
    return units


def _split(
    gang: Gang, active: list[Task], members: Collection[Task]
) -> tuple[list[Task], list[Task]]:
    """The elastic members above the minimum, last first, and the others."""
    if len(members) <= gang.needed():
        return [], active
    there: dict[str, int] = {}
    for task in members:
        if task.state in COUNTED:
            there[task.group] = there.get(task.group, 0) + 1
    least = {group.name: group.minimum for group in gang.groups}
    spare = sum(there.values()) - gang.needed()
    tails: list[Task] = []
    for task in reversed(active):
        if len(tails) < spare and there[task.group] > least.get(task.group, 0):
            there[task.group] -= 1
            tails.append(task)
    leaving = {task.id for task in tails}
    return tails, [task for task in active if task.id not in leaving]


def is_torn(gang: Gang, members: Collection[Task]) -> bool:
    """Does a gang with these members lack part of its minimum?"""
    there = [task for task in members if task.state in COUNTED]
    if len(there) < gang.needed():
        return True
    if len(gang.groups) < 2:
        return False
    has = Counter(task.group for task in there)
    return any(has[group.name] < group.minimum for group in gang.groups)


def _frees(columns: NodeTable, tasks: Collection[Task]) -> dict[int, Freed]:
    frees: dict[int, Freed] = {}
    for task in tasks:
        slot = columns.slot[task.node]
        milli = sum([each.milli for each in task.devices])
        amounts: list[int] = columns.taken(task.shape.request).tolist()
        if slot in frees:
            more, others = frees[slot]
            milli += more
            amounts = [a + b for a, b in zip(amounts, others, strict=True)]
        frees[slot] = milli, amounts
    return frees


def _charges(nodes: Mapping[str, Node], tasks: Collection[Task]) -> dict[str, int]:
    first, *others = [charges_of(t.shape.request, t.devices, nodes[t.node]) for t in tasks]
    total = dict(first)
    for charges in others:
        for dimension, amount in charges:
            total[dimension] = total.get(dimension, 0) + amount
    return total


def _started(tasks: Collection[Task]) -> int | None:
    instants = [task.started_at for task in tasks if task.started_at is not None]
    return max(instants) if len(instants) == len(tasks) else None
