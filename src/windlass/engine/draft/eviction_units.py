"""Running work as units that can be evicted: whole gangs, and elastic members one by one.

The units of a gang are evicted in a fixed order: first the elastic members above the minimum, one
by one, the last by name first; then the rest, all together. Evicting a unit therefore evicts all
earlier units of its gang as well (`EvictionUnit.closure`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeAlias

from windlass.engine.draft.restart_cost import harm
from windlass.engine.queueing import TaskBatch, batches_of, natural_order
from windlass.model.jobs import ACTIVE, COUNTED, Gang, GangId, Task
from windlass.model.nodes import Node
from windlass.state.cluster import Cluster
from windlass.state.node_columns import NodeTable
from windlass.state.queue_accounts import charges_of

Freed: TypeAlias = tuple[int, list[int]]
"""The thousandths of GPUs and the other amounts that come free on one node."""


@dataclass(slots=True, eq=False)
class EvictionUnit:
    """The tasks of a gang that are evicted together."""

    gang: Gang
    tasks: tuple[Task, ...]
    is_core: bool
    """True for the last unit of a gang: without it the gang does not run. False for an elastic
    member."""
    is_torn: bool
    """True if the gang lacks part of its minimum; such a unit may be evicted, but not moved."""
    started_at: int | None
    """The instant at which the last of the tasks started; None if one of them has not started."""
    frees: Mapping[int, Freed]
    """The amounts that come free if the unit is evicted, by the slot of the node."""
    nodes: Mapping[str, Node]
    """All nodes of the cluster, by name."""
    now: int = 0
    """The instant of the cycle; set by `refresh`."""
    earlier: tuple[EvictionUnit, ...] = ()
    """The units of the gang that are evicted before this one, in their order."""
    later: tuple[EvictionUnit, ...] = ()
    """The units of the gang that are evicted after this one, in their order."""
    gone: bool = False
    """True if the unit is evicted on the draft; only `Draft.evict` and `Draft.put_back` change
    this."""
    age: tuple[int, str, int] = (0, "", 0)
    """A sort key: the youngest gang first; units of one gang in the order of their eviction."""
    _charges: Mapping[str, int] | None = None
    """The cached value of `charges`, valid as long as the unit exists; None: not computed yet."""
    _harm: int | None = None
    """The cached value of `harm`, valid until the next `refresh`; None: not computed yet."""

    @property
    def harm(self) -> int:
        """The cost of evicting the unit now (`restart_cost.harm`); computed on demand."""
        if self._harm is None:
            self._harm = harm(self.gang, self.tasks, self.now, self.is_core)
        return self._harm

    def refresh(self, now: int) -> None:
        """Reset the unit for a cycle at the instant `now`: it is not evicted, and its harm not
        computed."""
        self.now, self.gone, self._harm = now, False, None

    @property
    def charges(self) -> Mapping[str, int]:
        """The amounts that the queue is charged for the unit, per dimension; computed on demand."""
        if self._charges is None:
            self._charges = _charges(self.nodes, self.tasks)
        return self._charges

    def closure(self) -> Iterator[EvictionUnit]:
        """Return the units to evict in order to evict this one: earlier units, then itself.

        Units that are gone already are left out.
        """
        return (unit for unit in (*self.earlier, self) if not unit.gone)

    def nodes_of_rest(self) -> tuple[str, ...]:
        """Return the nodes on which the later units of the gang run, by name."""
        return tuple(sorted({task.node for unit in self.later for task in unit.tasks}))

    def parts(self) -> tuple[TaskBatch, ...]:
        """Return the tasks as batches to place elsewhere, beside the members of their groups that
        stay."""
        stays = [task for unit in self.later for task in unit.tasks]
        return tuple(
            replace(
                part, nodes=tuple(sorted({t.node for t in stays if t.group == part.group.name}))
            )
            for part in batches_of(self.gang, self.tasks)
        )


class RunningUnits:
    """The eviction units of all running gangs, cached over cycles and rebuilt for changed gangs
    only."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_gang: dict[GangId, tuple[int, list[EvictionUnit]]] = {}
        """By gang: its stamp (`Cluster.stamps`) at the time when the units were made, and the
        units."""
        self._sorted: list[EvictionUnit] = []
        """All units, sorted by `EvictionUnit.age`."""

    def current(self) -> list[EvictionUnit]:
        """Return the units of all preemptible gangs, refreshed, the youngest gang first; do not
        modify."""
        self._catch_up()
        for unit in self._sorted:
            unit.refresh(self._cluster.now)
        return self._sorted

    def _catch_up(self) -> None:
        """Replace the units of the gangs that have changed since the last cycle."""
        cluster, before = self._cluster, self._by_gang
        now, fresh = dict[GangId, tuple[int, list[EvictionUnit]]](), list[EvictionUnit]()
        for gang in cluster.active:
            stamp = cluster.stamps[gang]
            kept = before.get(gang)
            if kept is None or kept[0] != stamp:
                kept = (stamp, _units(cluster, cluster.gangs[gang]))
                fresh += kept[1]
            now[gang] = kept
        self._by_gang = now
        same = [
            unit
            for unit in self._sorted
            if unit.gang.id in now and now[unit.gang.id] is before[unit.gang.id]
        ]
        # nearly in order already, which makes sorting fast
        self._sorted = sorted(same + fresh, key=_AGE)


_AGE = attrgetter("age")


def _units(cluster: Cluster, gang: Gang) -> list[EvictionUnit]:
    """Return the units of one gang in the order of their eviction.

    Empty if the gang is not preemptible, or if one of its tasks runs on an unknown node.
    """
    if not gang.preemptible:
        return []
    members = cluster.members(gang.id)
    active = [task for task in members if task.state in ACTIVE]
    for task in active:
        if task.node not in cluster.nodes:
            return []
    if len(active) > 1:
        active.sort(key=natural_order)
    tails, core = _split(gang, active, members)
    torn = is_torn(gang, members)
    units: list[EvictionUnit] = []
    for tasks in [*((task,) for task in tails), tuple(core)]:
        if tasks:
            is_core = len(units) == len(tails)
            started, frees = _started(tasks), _frees(cluster.columns, tasks)
            units.append(EvictionUnit(gang, tasks, is_core, torn, started, frees, cluster.nodes))
    for at, unit in enumerate(units):
        unit.earlier, unit.later = tuple(units[:at]), tuple(units[at + 1 :])
        unit.age = -gang.created_at, gang.id, at
    return units


def _split(
    gang: Gang, active: list[Task], members: Collection[Task]
) -> tuple[list[Task], list[Task]]:
    """Return the elastic members above the minimum, last by name first, and all other active
    members."""
    if len(members) <= gang.needed():
        return [], active
    counts: dict[str, int] = {}
    for task in members:
        if task.state in COUNTED:
            counts[task.group] = counts.get(task.group, 0) + 1
    least = {group.name: group.minimum for group in gang.groups}
    spare = sum(counts.values()) - gang.needed()
    tails: list[Task] = []
    for task in reversed(active):
        if len(tails) < spare and counts[task.group] > least.get(task.group, 0):
            counts[task.group] -= 1
            tails.append(task)
    leaving = {task.id for task in tails}
    return tails, [task for task in active if task.id not in leaving]


def is_torn(gang: Gang, members: Collection[Task]) -> bool:
    """Return whether a gang with these members lacks part of its minimum."""
    counted = [task for task in members if task.state in COUNTED]
    if len(counted) < gang.needed():
        return True
    if len(gang.groups) < 2:
        return False
    has = Counter(task.group for task in counted)
    return any(has[group.name] < group.minimum for group in gang.groups)


def _frees(columns: NodeTable, tasks: Collection[Task]) -> dict[int, Freed]:
    """Return the amounts that come free without these tasks, by the slot of their node."""
    frees: dict[int, Freed] = {}
    for task in tasks:
        slot = columns.slot[task.node]
        milli = sum([slice_.milli for slice_ in task.devices])
        amounts: list[int] = columns.occupied_amounts(task.shape.request).tolist()
        if slot in frees:
            more, others = frees[slot]
            milli += more
            amounts = [a + b for a, b in zip(amounts, others, strict=True)]
        frees[slot] = milli, amounts
    return frees


def _charges(nodes: Mapping[str, Node], tasks: Collection[Task]) -> dict[str, int]:
    """Return the amounts that a queue is charged for tasks, per dimension."""
    first, *others = [charges_of(t.shape.request, t.devices, nodes[t.node]) for t in tasks]
    total = dict(first)
    for charges in others:
        for dimension, amount in charges:
            total[dimension] = total.get(dimension, 0) + amount
    return total


def _started(tasks: Collection[Task]) -> int | None:
    """Return the instant at which the last of the tasks started; None if one has not started."""
    instants = [task.started_at for task in tasks if task.started_at is not None]
    return max(instants) if len(instants) == len(tasks) else None
