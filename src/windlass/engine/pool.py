"""Where room is cheapest to make: for each node, what displacing enough of it would cost.

A `Pool` is all that a cycle could displace, node by node. For one shape and one set of permissions
an `Offer` keeps the cost of each node, up to date from the log of changes. Costs compare victims
by priority, then by GPU time lost, by their number, and by age, the youngest first; what may only
be moved, not lost, comes after everything else. Sums of free amounts are a guide: whoever takes an
offer finds out exactly, on the columns themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias

import numpy as np

from windlass.engine.index import Class, Index
from windlass.engine.units import Unit
from windlass.model.gpus import WHOLE
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


class Pool:
    """What runs and can be displaced, by node."""

    def __init__(self, cluster: Cluster, index: Index, units: Iterable[Unit]) -> None:
        self.index, self.columns = index, cluster.columns
        self.units = sorted(units, key=_youngest_first)
        self.queues = sorted({unit.gang.queue for unit in self.units})
        by_harm = cluster.settings.victims is Victims.LEAST_HARM
        priorities = sorted({unit.gang.priority for unit in self.units})
        ranks = {priority: min(at, _MOST_RANK) for at, priority in enumerate(priorities)}
        self.price: dict[Unit, int] = {}
        self.at: dict[int, list[tuple[Unit, tuple[int, list[int]]]]] = {}
        for age, unit in enumerate(self.units):
            lost = min(unit.harm // WHOLE, _MOST_HARM) if by_harm else 0
            rank = ranks[unit.gang.priority]
            self.price[unit] = rank * _PRIORITY + lost * _HARM + _ONE + min(age, _MOST_AGE)
            for slot, freed in self._freed(unit).items():
                self.at.setdefault(slot, []).append((unit, freed))
        for there in self.at.values():
            there.sort(key=self._order)
        self.protected_until: int | None = None
        """When the first unit that is protected now is so no longer; 0: none is."""
        self._offers: dict[Hashable, Offer] = {}

    def offer(self, kind: Class, key: Hashable, permission: Permission) -> Offer:
        """What each node costs one shape; equal keys stand for equal permissions."""
        whole = (kind.shape, key)
        if whole not in self._offers:
            self._offers[whole] = Offer(self, kind, permission)
        found = self._offers[whole]
        found.sync()
        return found

    def cost(self, unit: Unit, lost: bool) -> int:
        """The price of a unit with all that leaves before it."""
        total = self.price[unit] + sum(self.price[each] for each in unit.before if not each.gone)
        return total if lost else total + _ONLY_MOVED

    def _freed(self, unit: Unit) -> dict[int, tuple[int, list[int]]]:
        """Per node, the GPU and the other amounts that come free."""
        freed: dict[int, tuple[int, list[int]]] = {}
        for task in unit.tasks:
            slot = self.columns.slot[task.node]
            milli = sum(each.milli for each in task.devices)
            amounts: list[int] = self.columns.taken(task.shape.request).tolist()
            if slot in freed:
                more = freed[slot]
                milli += more[0]
                amounts = [a + b for a, b in zip(amounts, more[1], strict=True)]
            freed[slot] = milli, amounts
        return freed

    def _order(self, entry: tuple[Unit, object]) -> tuple[int, bool, str, int]:
        unit = entry[0]
        return self.price[unit], unit.is_core, unit.gang.id, len(unit.before)


class Offer:
    """What making room for one task of a shape costs on each node."""

    def __init__(self, pool: Pool, kind: Class, permission: Permission) -> None:
        self._pool, self._kind, self._permission = pool, kind, permission
        gpu = kind.shape.request.gpu
        self._milli = 0 if gpu is None else max(gpu.count * gpu.milli, 1)
        if gpu is not None and (gpu.memory_mib or gpu.profile):
            self._milli = 1  # how much it is depends on the device: evict and see
        self._needs: list[int] = [] if kind.amounts is None else kind.amounts.tolist()
        self.costs: Ints = np.full(len(pool.columns), IMPOSSIBLE, np.int64)
        self._best: dict[int, Unit | None] = {}
        self._could = pool.index.room_when_empty(kind.shape) > 0
        for slot in np.flatnonzero(self._could).tolist():
            self._work_out(slot)
        self._cursor = pool.index.end_of_log()

    def sync(self) -> None:
        """Catch up with what changed."""
        end = self._pool.index.end_of_log()
        if end != self._cursor:
            for slot in self._pool.index.changed_since(self._cursor):
                if self._could[slot]:
                    self._work_out(slot)
            self._cursor = end

    def victims(self, slot: int) -> list[Unit]:
        """The units of a node that may go, those that may be lost first, cheapest first."""
        there = [(unit, self._may(unit)) for unit, _ in self._pool.at.get(slot, ())]
        first = self._best.get(slot)
        lost = [unit for unit, may in there if may]
        some = lost + [unit for unit, may in there if may is False]
        return some if first is None else [first, *(each for each in some if each is not first)]

    def _may(self, unit: Unit) -> bool | None:
        return None if unit.gone else self._permission(unit)

    def _work_out(self, slot: int) -> None:
        """The cheaper of two: enough units in the order of their prices, or one that will do."""
        columns, pool = self._pool.columns, self._pool
        free = columns.free[:, slot].tolist()
        milli = columns.states.free_milli[int(columns.device_number[slot])]
        lack = [need - has for need, has in zip(self._needs, free, strict=True)]
        short = self._milli - milli
        there = [(*entry, self._may(entry[0])) for entry in pool.at.get(slot, ())]
        alone, best = IMPOSSIBLE, None
        for unit, (gives, amounts), may in there:
            if may is not None and gives >= short and _covers(amounts, lack):
                cost = pool.cost(unit, may)
                if cost < alone:
                    alone, best = cost, unit
        cost, enough = 0, False
        for wanted in (True, False):
            for unit, (gives, amounts), may in there:
                if may is wanted and not enough:
                    cost += pool.cost(unit, wanted)
                    short -= gives
                    lack = [a - b for a, b in zip(lack, amounts, strict=True)]
                    enough = short <= 0 and max(lack) <= 0
        together = cost if enough else IMPOSSIBLE
        self._best[slot] = best if alone <= together else None
        self.costs[slot] = min(alone, together, IMPOSSIBLE)


def _covers(amounts: list[int], lack: list[int]) -> bool:
    return all(a >= b for a, b in zip(amounts, lack, strict=True))


def _youngest_first(unit: Unit) -> tuple[int, str, int]:
    return -unit.gang.created_at, unit.gang.id, len(unit.before)
