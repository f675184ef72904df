"""The running work that a cycle could displace, by node, and the cost of making room on each node.

    CycleVictims   all units of a cycle; indexed when a search first needs them
    VictimIndex    the same units by node and by queue, with their costs (`victim_costs.py`)
    VictimOffer    for one shape and one filter: the cost of each node and its victims in order,
                   kept up to date from the log of changed nodes
    EmptiedNodes   all nodes without anything that could be displaced: an upper bound of room

The costs rest on sums of free amounts, so they are estimates: the caller of an offer evicts on the
draft and checks on the columns whether a task really fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Set
from functools import cached_property
from operator import ge
from typing import TypeAlias

import numpy as np

from windlass.engine.draft import Draft, EvictionUnit, Freed, RunningUnits
from windlass.engine.nodes import ShapeIndex
from windlass.engine.preemption.reclaim_memo import ReclaimRules
from windlass.engine.preemption.victim_costs import IMPOSSIBLE, VictimCost, VictimCosts
from windlass.engine.preemption.victim_filter import VictimFate, VictimFilter
from windlass.model.actions import EvictionRule
from windlass.model.jobs import GangId, Shape
from windlass.model.settings import Victims
from windlass.state.device_states import Devices, after_releasing
from windlass.state.node_columns import Ints

QueueRules: TypeAlias = tuple[EvictionRule | None, ...]
"""The widest rule against each queue of an index, in the order of `VictimIndex.queues`."""
Priced: TypeAlias = tuple[VictimCost, EvictionUnit, Freed]
_NEVER = 1 << 62


class CycleVictims:
    """All units that one cycle could displace; `decided` gangs are left out."""

    def __init__(self, draft: Draft, rules: ReclaimRules, decided: Set[GangId]) -> None:
        self._draft, self._rules, self._decided = draft, rules, decided
        self._units: list[EvictionUnit] = []
        self._indexes: dict[int | None, VictimIndex] = {}
        """The index for each `hurry_s` of a preemptor: it changes the costs."""
        self._emptied: EmptiedNodes | None = None
        self._protected_until: int | None = None
        """The cached value of `protected_until`; `_NEVER`: nothing is protected; None: not computed
        yet."""

    def index(self, hurry_s: int | None) -> VictimIndex:
        """Return the index for preemptors with this `hurry_s`; it is made when it is first
        needed."""
        if not self._indexes:
            self._units = self._draft.cluster.recall(RunningUnits).current()
            self._protected_until = None
        if hurry_s not in self._indexes:
            self._indexes[hurry_s] = VictimIndex(
                self._draft, self._decided, self._units, hurry_s, self._rules.min_run
            )
        return self._indexes[hurry_s]

    def room_when_emptied(self, shape: Shape, hurry_s: int | None) -> Ints:
        """Return, per node, how many tasks of a shape would fit without the units that can be
        displaced."""
        if self._emptied is None:
            self._emptied = EmptiedNodes(self.index(hurry_s))
        return self._emptied.room(shape)

    def protected_until(self) -> int | None:
        """Return the next instant at which a unit loses its protection; None if no unit is
        protected."""
        if self._protected_until is None:
            levels = self._rules.levels
            by_order = levels.next_change(self._rules.min_run) if levels.preempts_by_order else None
            self._protected_until = min(self._next_unprotected(), by_order or _NEVER)
        return self._protected_until if self._protected_until < _NEVER else None

    def _next_unprotected(self) -> int:
        """Return the next end of a minimum run time or dwell time; `_NEVER` if there is none."""
        now, rules, soonest = self._draft.cluster.now, self._rules, _NEVER
        dwell_s = self._draft.cluster.settings.dwell_s
        for unit in self._units:
            since = now if unit.started_at is None else unit.started_at
            least = rules.min_run(unit.gang.queue)
            for at in (since + least, since + max(least, dwell_s)):
                if now < at < soonest:
                    soonest = at
        return soonest


class VictimIndex:
    """The units that can be displaced, by node, without gangs that were decided about before.

    Gangs that are decided about while the index is in use are left out by `VictimOffer`.
    """

    def __init__(
        self,
        draft: Draft,
        decided: Set[GangId],
        units: Iterable[EvictionUnit],
        hurry_s: int | None,
        min_run: Callable[[str], int],
    ) -> None:
        cluster, self.decided = draft.cluster, decided
        self.nodes, self.columns = draft.index, cluster.columns
        self.units = [unit for unit in units if unit.gang.id not in decided]
        if cluster.settings.victims is Victims.LOWEST_PRIORITY:
            self.units.sort(key=lambda unit: (unit.gang.id, len(unit.earlier)))
        self.queues = tuple(sorted({unit.gang.queue for unit in self.units}))
        self.costs = VictimCosts(cluster, self.units, hurry_s)
        self._now, self._min_run = cluster.now, min_run
        self._offers: dict[Hashable, VictimOffer] = {}
        self._latest: dict[Hashable, tuple[QueueRules, VictimOffer]] = {}
        """The last offer of each shape and key, from which the next one is derived."""

    @cached_property
    def at(self) -> dict[int, list[tuple[EvictionUnit, Freed]]]:
        """By slot: the units of a node, in the order in which they are evicted, with what each
        frees."""
        by_node: dict[int, list[tuple[EvictionUnit, Freed]]] = {}
        for unit in sorted(self.units, key=self.costs.order):
            for slot, freed in unit.frees.items():
                by_node.setdefault(slot, []).append((unit, freed))
        return by_node

    @cached_property
    def _unprotected(self) -> dict[str, list[EvictionUnit]]:
        """By queue: the units that have run for the minimum run time. Every rule protects at least
        so long."""
        by_queue: dict[str, list[EvictionUnit]] = {}
        started_by = {queue: self._now - self._min_run(queue) for queue in self.queues}
        for unit in self.units:
            if self._since(unit) <= started_by[unit.gang.queue]:
                by_queue.setdefault(unit.gang.queue, []).append(unit)
        return by_queue

    @cached_property
    def _queue_bounds(self) -> list[tuple[str, int, int]]:
        """The queues with unprotected units; the earliest start and the lowest priority of
        these."""
        return [
            (queue, min(map(self._since, units)), min(unit.gang.priority for unit in units))
            for queue, units in self._unprotected.items()
        ]

    @cached_property
    def _nodes_of(self) -> dict[str, set[int]]:
        """By queue: the slots of the nodes on which it has units."""
        nodes: dict[str, set[int]] = {queue: set() for queue in self.queues}
        for slot, entries in self.at.items():
            for unit, _ in entries:
                nodes[unit.gang.queue].add(slot)
        return nodes

    def could_touch(self, permits: VictimFilter) -> bool:
        """Return whether any unit may have a fate other than KEEP."""
        return any(permits.could_touch(*bounds) for bounds in self._queue_bounds)

    def permitted(self, permits: VictimFilter) -> list[tuple[EvictionUnit, VictimFate]]:
        """Return the units that may be displaced, with their fates; a quick test skips most
        queues."""
        keep = VictimFate.KEEP
        fates = (
            (unit, permits.fate_for_equals(unit))
            for bounds in self._queue_bounds
            if permits.could_touch(*bounds)
            for unit in self._unprotected[bounds[0]]
        )
        return [(unit, fate) for unit, fate in fates if fate is not keep]

    def offer(
        self, kind: ShapeIndex, key: Hashable, rules: QueueRules, permits: VictimFilter
    ) -> VictimOffer:
        """Return the offer for one shape; filters with equal `key` and `rules` share one offer.

        A missing offer is copied from the last one of the same shape and key. Only the nodes with
        units of queues whose rule has changed are computed again.
        """
        family = (kind.shape, key)
        offer = self._offers.get((family, rules))
        if offer is None:
            offer = self._offers[family, rules] = VictimOffer(self, kind)
            if family not in self._latest:
                offer.work_out_all(permits)
            else:
                before, latest = self._latest[family]
                pairs = zip(self.queues, before, rules, strict=True)
                changed = [queue for queue, was, now in pairs if was != now]
                nodes = set[int]().union(*(self._nodes_of[queue] for queue in changed))
                offer.follow(latest, nodes, permits)
        self._latest[family] = rules, offer
        offer.sync()
        return offer

    def _since(self, unit: EvictionUnit) -> int:
        return self._now if unit.started_at is None else unit.started_at


class VictimOffer:
    """The cost of making room for one more task of a shape, on each node."""

    def __init__(self, index: VictimIndex, kind: ShapeIndex) -> None:
        self._index, self._kind = index, kind
        gpu = kind.shape.request.gpu
        self._milli = 0 if gpu is None else max(gpu.count * gpu.milli, 1)
        self._is_exact = gpu is not None and not gpu.memory_mib and not gpu.profile
        if gpu is not None and not self._is_exact:
            self._milli = 1  # the amount depends on the device: evict and see
        self._needs: list[int] = [] if kind.amounts is None else kind.amounts.tolist()
        self.costs: Ints = np.full(len(index.columns), IMPOSSIBLE, np.int64)
        """The `VictimCost` of each node; do not modify: attempts share it."""
        self._victims: dict[int, list[EvictionUnit]] = {}
        self._permitted: dict[int, list[tuple[EvictionUnit, Freed, VictimFate]]] = {}
        """By slot: the units whose fate is not KEEP, in the order in which they are evicted."""
        self._fits_empty = index.nodes.room_when_empty(kind.shape) > 0
        self._cursor = index.nodes.end_of_log()
        """The position in the log of changed nodes up to which the costs are valid."""

    def work_out_all(self, permits: VictimFilter) -> None:
        """Compute the costs of all nodes with units that may be displaced."""
        permitted = self._index.permitted(permits)
        permitted.sort(key=lambda entry: self._index.costs.order(entry[0]))
        for unit, fate in permitted:
            for slot, freed in unit.frees.items():
                self._permitted.setdefault(slot, []).append((unit, freed, fate))
        self._refresh(self._permitted)

    def follow(self, other: VictimOffer, changed: Collection[int], permits: VictimFilter) -> None:
        """Copy another offer; compute again the `changed` nodes, on which fates may differ."""
        self.costs, self._victims = other.costs.copy(), other._victims.copy()
        self._permitted, self._cursor = other._permitted.copy(), other._cursor
        fate_of, at, keep = permits.fate_for_equals, self._index.at, VictimFate.KEEP
        for slot in changed:
            entries = [(unit, freed, fate_of(unit)) for unit, freed in at.get(slot, ())]
            self._permitted[slot] = [entry for entry in entries if entry[2] is not keep]
        self._refresh(changed)

    def sync(self) -> None:
        """Compute again the costs of the nodes that changed since the last call."""
        end = self._index.nodes.end_of_log()
        if end != self._cursor:
            self._refresh(self._index.nodes.changed_since(self._cursor))
            self._cursor = end

    def victims(self, slot: int) -> list[EvictionUnit]:
        """Return the units of a node that may be displaced, in the order in which to evict them.

        A single unit that suffices comes first, if that is cheaper; then units that may be evicted,
        then units that may only move.
        """
        return self._victims.get(slot, [])

    def lacks_gpu(self, slot: int) -> bool:
        """Return whether too little GPU is free on a node now, as far as sums can tell."""
        columns = self._index.columns
        free = columns.states.free_milli[int(columns.device_number[slot])]
        return self._is_exact and free < self._milli

    def _refresh(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if self._fits_empty[slot]:
                self._work_out(slot)

    def _work_out(self, slot: int) -> None:
        """Compute the cost of a node: the cheaper of one unit that suffices, and several in their
        order."""
        columns, priced = self._index.columns, self._priced(slot)
        if not priced:
            self.costs[slot], self._victims[slot] = IMPOSSIBLE, []
            return
        free = columns.free[:, slot].tolist()
        lack = [need - has for need, has in zip(self._needs, free, strict=True)]
        lack_gpu = self._milli - columns.states.free_milli[int(columns.device_number[slot])]
        alone, best = IMPOSSIBLE, None
        for cost, unit, (gpu, amounts) in priced:
            if cost < alone and gpu >= lack_gpu and all(map(ge, amounts, lack)):
                alone, best = cost, unit
        together = _together(priced, lack_gpu, lack)
        self.costs[slot] = min(alone, together, IMPOSSIBLE)
        victims = self._victims[slot] = [unit for _, unit, _ in priced]
        if best is not None and alone <= together:
            victims.remove(best)
            victims.insert(0, best)

    def _priced(self, slot: int) -> list[Priced]:
        """Return the units of a node that may be displaced, with their costs; evictions before
        moves."""
        index, evicted, moved = self._index, list[Priced](), list[Priced]()
        decided, cost_of, evict = index.decided, index.costs.with_earlier, VictimFate.EVICT
        for unit, freed, fate in self._permitted.get(slot, ()):
            if not unit.gone and unit.gang.id not in decided:
                units = evicted if fate is evict else moved
                units.append((cost_of(unit, fate), unit, freed))
        return evicted + moved


def _together(priced: list[Priced], lack_gpu: int, lack: list[int]) -> int:
    """Return the cost of evicting units in turn until there is room; `IMPOSSIBLE` if there never
    is."""
    total = 0
    for cost, _, (gpu, amounts) in priced:
        total += cost
        lack_gpu -= gpu
        lack = [need - more for need, more in zip(lack, amounts, strict=True)]
        if lack_gpu <= 0 and max(lack) <= 0:
            return total
    return IMPOSSIBLE


class EmptiedNodes:
    """All nodes as they would be without the units that can be displaced: an upper bound of
    room."""

    def __init__(self, index: VictimIndex) -> None:
        columns = index.columns
        self._nodes, self._free = index.nodes, columns.free.copy()
        self._device_numbers: Ints = columns.device_number.copy()
        self._rooms: dict[Shape, Ints] = {}
        devices: dict[int, Devices] = {}
        for unit in index.units:
            if not unit.gone:
                for slot, (_, amounts) in unit.frees.items():
                    self._free[:, slot] += amounts
                for task in unit.tasks:
                    slot = columns.slot[task.node]
                    before = devices.get(slot, columns.devices[slot])
                    devices[slot] = after_releasing(
                        before, columns.existing_slices(slot, task.devices)
                    )
        for slot, emptied in devices.items():
            self._device_numbers[slot] = columns.states.number(emptied)

    def room(self, shape: Shape) -> Ints:
        """Return, per node, how many tasks of a shape would fit."""
        if shape not in self._rooms:
            self._rooms[shape] = self._nodes.room(shape, self._free, self._device_numbers)
        return self._rooms[shape]
