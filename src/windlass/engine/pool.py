"""Where room is cheapest to make: for each node, what displacing enough of it would cost.

A `Pool` is all that a cycle could displace, node by node. For one shape and one set of permissions
an `Offer` keeps the cost of each node, up to date from the log of changes. Costs compare victims
by priority, then by GPU time lost, by their number, and by age, the youngest first; what may only
be moved, not lost, comes after everything else. Sums of free amounts are a guide: whoever takes an
offer finds out exactly, on the columns themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Set
from operator import ge
from typing import TypeAlias

import numpy as np

from windlass.engine.index import Class, Index
from windlass.engine.units import Freed, Unit, Units
from windlass.model.actions import Rule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import GangId
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster
from windlass.state.columns import Ints

IMPOSSIBLE = 1 << 62
_ONLY_MOVED = 1 << 56
_PRIORITY = 1 << 48
_HARM = 1 << 16
_ONE = 1 << 12
_MOST_HARM = (1 << 31) - 1
_MOST_AGE = _ONE - 1
_MOST_RANK = (1 << 6) - 1

Permission: TypeAlias = Callable[[Unit], bool | None]
"""May a unit be displaced: True, it may be lost; False, it may only move; None, not at all."""
Rules: TypeAlias = tuple[Rule | None, ...]
"""For each queue of a pool, by which rule it may lose something."""
Priced: TypeAlias = tuple[int, Unit, Freed]


class Pool:
    """What runs and can be displaced, by node; nothing of gangs about which it is decided."""

    def __init__(self, cluster: Cluster, index: Index, leaving: Set[GangId]) -> None:
        self.index, self.columns, self.leaving = index, cluster.columns, leaving
        units = (each for each in cluster.recall(Units).now() if each.gang.id not in leaving)
        self.units = sorted(units, key=_youngest_first)
        self.queues = tuple(sorted({unit.gang.queue for unit in self.units}))
        by_harm = cluster.settings.victims is Victims.LEAST_HARM
        priorities = sorted({unit.gang.priority for unit in self.units})
        ranks = {priority: min(at, _MOST_RANK) for at, priority in enumerate(priorities)}
        self.price: dict[Unit, int] = {}
        self.at: dict[int, list[tuple[Unit, Freed]]] = {}
        for age, unit in enumerate(self.units):
            lost = min(unit.harm // WHOLE, _MOST_HARM) if by_harm else 0
            rank = ranks[unit.gang.priority]
            self.price[unit] = rank * _PRIORITY + lost * _HARM + _ONE + min(age, _MOST_AGE)
            for slot, freed in unit.frees.items():
                self.at.setdefault(slot, []).append((unit, freed))
        for there in self.at.values():
            there.sort(key=self._order)
        self.protected_until: int | None = None
        """When the first unit that is protected now is so no longer; 0: none is."""
        self._offers: dict[Hashable, Offer] = {}
        self._latest: dict[Hashable, tuple[Rules, Offer]] = {}
        self._nodes: dict[str, set[int]] | None = None

    def offer(self, kind: Class, key: Hashable, rules: Rules, permission: Permission) -> Offer:
        """What each node costs one shape.

        Equal keys and rules, one for each queue of the pool, stand for equal permissions.
        """
        family = (kind.shape, key)
        found = self._offers.get((family, rules))
        if found is None:
            found = self._offers[family, rules] = self._new_offer(family, kind, rules, permission)
        self._latest[family] = rules, found
        found.sync()
        return found

    def cost(self, unit: Unit, lost: bool) -> int:
        """The price of a unit with all that leaves before it."""
        total = self.price[unit]
        for each in unit.before:
            if not each.gone:
                total += self.price[each]
        return total if lost else total + _ONLY_MOVED

    def _new_offer(
        self, family: Hashable, kind: Class, rules: Rules, permission: Permission
    ) -> Offer:
        """From the last one of its family: most rules still hold, and so do most costs."""
        found = Offer(self, kind, permission)
        if family not in self._latest:
            found.work_out_all()
            return found
        before, offer = self._latest[family]
        pairs = zip(self.queues, before, rules, strict=True)
        changed = [queue for queue, was, now in pairs if was != now]
        found.follow(offer, set[int]().union(*(self._nodes_of(queue) for queue in changed)))
        return found

    def _nodes_of(self, queue: str) -> set[int]:
        """The nodes on which a queue has units."""
        if self._nodes is None:
            self._nodes = {each: set() for each in self.queues}
            for slot, there in self.at.items():
                for unit, _ in there:
                    self._nodes[unit.gang.queue].add(slot)
        return self._nodes[queue]

    def _order(self, entry: tuple[Unit, object]) -> tuple[int, bool, str, int]:
        unit = entry[0]
        return self.price[unit], unit.is_core, unit.gang.id, len(unit.before)


class Offer:
    """What making room for one task of a shape costs on each node."""

    def __init__(self, pool: Pool, kind: Class, permission: Permission) -> None:
        self._pool, self._kind, self._permission = pool, kind, permission
        gpu = kind.shape.request.gpu
        self._milli = 0 if gpu is None else max(gpu.count * gpu.milli, 1)
        self._is_exact = gpu is not None and not gpu.memory_mib and not gpu.profile
        if gpu is not None and not self._is_exact:
            self._milli = 1  # how much it is depends on the device: evict and see
        self._needs: list[int] = [] if kind.amounts is None else kind.amounts.tolist()
        self.costs: Ints = np.full(len(pool.columns), IMPOSSIBLE, np.int64)
        self._victims: dict[int, list[Unit]] = {}
        self._permitted: dict[int, list[tuple[Unit, Freed, bool]]] = {}
        self._could = pool.index.room_when_empty(kind.shape) > 0
        self._cursor = pool.index.end_of_log()

    def work_out_all(self) -> None:
        """Look at every node."""
        for slot in np.flatnonzero(self._could).tolist():
            self._work_out(slot)

    def follow(self, other: Offer, changed: Collection[int]) -> None:
        """Take over what another one knows, but for the nodes on which permissions differ."""
        self.costs, self._victims = other.costs.copy(), other._victims.copy()
        self._permitted, self._cursor = other._permitted.copy(), other._cursor
        for slot in changed:
            self._permitted.pop(slot, None)
        self._look_at(changed)

    def sync(self) -> None:
        """Catch up with what changed."""
        end = self._pool.index.end_of_log()
        if end != self._cursor:
            self._look_at(self._pool.index.changed_since(self._cursor))
            self._cursor = end

    def victims(self, slot: int) -> list[Unit]:
        """The units of a node that may go, in the order in which to take them.

        First one that will do, if that is cheaper; those that may be lost, those that may move.
        """
        return self._victims.get(slot, [])

    def lacks_gpu(self, slot: int) -> bool:
        """Is there, as things stand, surely too little GPU free on a node?"""
        columns = self._pool.columns
        free = columns.states.free_milli[int(columns.device_number[slot])]
        return self._is_exact and free < self._milli

    def _look_at(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if self._could[slot]:
                self._work_out(slot)

    def _work_out(self, slot: int) -> None:
        """The cheaper of two: enough units in the order of their prices, or one that will do."""
        columns = self._pool.columns
        free = columns.free[:, slot].tolist()
        lack = [need - has for need, has in zip(self._needs, free, strict=True)]
        short = self._milli - columns.states.free_milli[int(columns.device_number[slot])]
        some = self._displaceable(slot)
        alone, best = IMPOSSIBLE, None
        for cost, unit, (gives, amounts) in some:
            if cost < alone and gives >= short and _covers(amounts, lack):
                alone, best = cost, unit
        together = _together(some, short, lack)
        self.costs[slot] = min(alone, together, IMPOSSIBLE)
        victims = self._victims[slot] = [unit for _, unit, _ in some]
        if best is not None and alone <= together:
            victims.remove(best)
            victims.insert(0, best)

    def _displaceable(self, slot: int) -> list[Priced]:
        """The units of a node that may go, as priced, those that may be lost first."""
        pool, lost, moved = self._pool, list[Priced](), list[Priced]()
        some = self._permitted.get(slot)
        if some is None:
            asked = [(*entry, self._permission(entry[0])) for entry in pool.at.get(slot, ())]
            some = [(unit, freed, may) for unit, freed, may in asked if may is not None]
            self._permitted[slot] = some
        for unit, freed, may in some:
            if not unit.gone and unit.gang.id not in pool.leaving:
                (lost if may else moved).append((pool.cost(unit, may), unit, freed))
        return lost + moved


def _together(some: list[Priced], short: int, lack: list[int]) -> int:
    """What it costs to displace one after the other until there is enough."""
    total = 0
    for cost, _, (gives, amounts) in some:
        total += cost
        short -= gives
        lack = [need - more for need, more in zip(lack, amounts, strict=True)]
        if short <= 0 and max(lack) <= 0:
            return total
    return IMPOSSIBLE


def _covers(amounts: list[int], lack: list[int]) -> bool:
    return all(map(ge, amounts, lack))


def _youngest_first(unit: Unit) -> tuple[int, str, int]:
    return -unit.gang.created_at, unit.gang.id, len(unit.before)
