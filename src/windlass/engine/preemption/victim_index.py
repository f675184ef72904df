"""Where room is cheapest to make: for each node, what displacing enough of it would cost.

A `Pool` is all that a cycle could displace, node by node. For one shape and one set of permissions
an `Offer` keeps the cost of each node, up to date from the log of changes. Costs compare victims
by priority, then by GPU time lost, by their number, and by age, the youngest first (for somebody in
a hurry by the time until their places are free); what may only be moved, not lost, comes after
everything else. Where the order of a queue says who is stopped first (`policies.py`), the turn of a
unit times its GPUs stands in place of the time lost. Sums of free amounts are a guide: whoever
takes an offer finds out exactly, on the columns themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from functools import cached_property
from operator import ge
from typing import Protocol, TypeAlias

import numpy as np

from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import EvictionUnit, Freed
from windlass.engine.draft.restart_cost import frees_in, harm
from windlass.engine.nodes.node_index import ShapeIndex
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.model.actions import EvictionRule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import GangId
from windlass.model.queues import GPU
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster
from windlass.state.node_columns import Ints

IMPOSSIBLE = 1 << 62
_ONLY_MOVED = 1 << 56
_PRIORITY = 1 << 48
_HARM = 1 << 16
_ONE = 1 << 12
_MOST_HARM = (1 << 31) - 1
_MOST_AGE = _ONE - 1
_MOST_RANK = (1 << 6) - 1

Rules: TypeAlias = tuple[EvictionRule | None, ...]
"""For each queue of a pool, by which rule it may lose something."""
Priced: TypeAlias = tuple[int, EvictionUnit, Freed]


class Permission(Protocol):
    """Whoever says what may go."""

    def may(self, unit: EvictionUnit) -> bool | None:
        """May a unit be displaced: True, be lost; False, only move; None, not at all."""
        ...

    def may_any(self, queue: str, since: int, priority: int) -> bool:
        """Could anything go of a queue, given its oldest and its lowest? If not, `may` says None.

        Its oldest work started then, and none of it has a lower priority than this.
        """
        ...


class VictimIndex:
    """What runs and can be displaced, by node; nothing of gangs about which it is decided."""

    def __init__(
        self,
        draft: Draft,
        leaving: Set[GangId],
        units: Iterable[EvictionUnit],
        hurry_s: int | None,
        min_run: Callable[[str], int],
    ) -> None:
        cluster, self.leaving = draft.cluster, leaving
        self.index, self.columns = draft.index, cluster.columns
        self.units = [each for each in units if each.gang.id not in leaving]
        if cluster.settings.victims is Victims.LOWEST_PRIORITY:
            self.units.sort(key=_by_name)
        self.queues = tuple(sorted({unit.gang.queue for unit in self.units}))
        self._now, self._min_run = cluster.now, min_run
        self._turns = _turns(cluster, self.units)
        self._price = _VictimCosts(cluster, self.units, hurry_s, self._turns)
        self._offers: dict[Hashable, VictimOffer] = {}
        self._latest: dict[Hashable, tuple[Rules, VictimOffer]] = {}
        self._nodes: dict[str, set[int]] | None = None

    @cached_property
    def at(self) -> dict[int, list[tuple[EvictionUnit, Freed]]]:
        """The units of each node, in the order in which they are taken."""
        found: dict[int, list[tuple[EvictionUnit, Freed]]] = {}
        for unit in sorted(self.units, key=self.order):
            for slot, freed in unit.frees.items():
                found.setdefault(slot, []).append((unit, freed))
        return found

    @cached_property
    def _open(self) -> dict[str, list[EvictionUnit]]:
        """By queue, what has run long enough: no rule protects for a shorter time than that."""
        found: dict[str, list[EvictionUnit]] = {}
        started_by = {queue: self._now - self._min_run(queue) for queue in self.queues}
        for unit in self.units:
            if self._since(unit) <= started_by[unit.gang.queue]:
                found.setdefault(unit.gang.queue, []).append(unit)
        return found

    @cached_property
    def _whose(self) -> list[tuple[str, int, int]]:
        """Each queue that has open work, when the oldest of it started, and its least priority."""
        return [
            (queue, min(map(self._since, units)), min(unit.gang.priority for unit in units))
            for queue, units in self._open.items()
        ]

    def _since(self, unit: EvictionUnit) -> int:
        return self._now if unit.started_at is None else unit.started_at

    def may_any(self, permission: Permission) -> bool:
        """Could anything go at all?"""
        return any(permission.may_any(*each) for each in self._whose)

    def permitted(self, permission: Permission) -> list[tuple[EvictionUnit, bool]]:
        """What may go, queue by queue: most have nothing that may, and are asked once."""
        asked = (
            (unit, permission.may(unit))
            for each in self._whose
            if permission.may_any(*each)
            for unit in self._open[each[0]]
        )
        return [(unit, may) for unit, may in asked if may is not None]

    def offer(
        self, kind: ShapeIndex, key: Hashable, rules: Rules, permission: Permission
    ) -> VictimOffer:
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

    def cost(self, unit: EvictionUnit, lost: bool) -> int:
        """The price of a unit with all that leaves before it."""
        total = self._price[unit]
        for each in unit.before:
            if not each.gone:
                total += self._price[each]
        return total if lost else total + _ONLY_MOVED

    def order(self, unit: EvictionUnit) -> tuple[int, int, int, bool, str, int]:
        """The cheapest unit of a node first; by priority and turn, where there are turns."""
        price, turn = self._price[unit], self._turns.get(unit, 0)
        priority = unit.gang.priority if self._turns else 0
        return priority, turn, price, unit.is_core, unit.gang.id, len(unit.before)

    def _new_offer(
        self, family: Hashable, kind: ShapeIndex, rules: Rules, permission: Permission
    ) -> VictimOffer:
        """From the last one of its family: most rules still hold, and so do most costs."""
        found = VictimOffer(self, kind, permission)
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


def _turns(cluster: Cluster, units: list[EvictionUnit]) -> dict[EvictionUnit, int]:
    """Whom the order of a queue stops first, where it says so."""
    ranks = cluster.recall(OrderLevels)
    if not ranks.policy.worst_first:
        return {}
    places = [ranks.goes_after(unit.gang) for unit in units]
    turns = {place: at for at, place in enumerate(sorted(set(places)))}
    return {unit: turns[place] for unit, place in zip(units, places, strict=True)}


class _VictimCosts(dict[EvictionUnit, int]):
    """What losing each unit costs, compared with the others; worked out when somebody asks."""

    def __init__(
        self,
        cluster: Cluster,
        units: list[EvictionUnit],
        hurry_s: int | None,
        turns: Mapping[EvictionUnit, int],
    ) -> None:
        super().__init__()
        self._now, self._hurry_s, self._turns = cluster.now, hurry_s, turns
        self._by_harm = cluster.settings.victims is Victims.LEAST_HARM
        priorities = sorted({unit.gang.priority for unit in units})
        self._ranks = {each: min(at, _MOST_RANK) for at, each in enumerate(priorities)}
        self._ages = {unit: age for age, unit in enumerate(units)}

    def __missing__(self, unit: EvictionUnit) -> int:
        lost, last = self._lost(unit), self._ages[unit]
        if self._hurry_s is not None:
            gang = unit.gang
            last = frees_in(gang, self._hurry_s) if unit.is_core else gang.terminates_s
        rank = self._ranks[unit.gang.priority]
        found = rank * _PRIORITY + min(lost, _MOST_HARM) * _HARM + _ONE + min(last, _MOST_AGE)
        self[unit] = found
        return found

    def _lost(self, unit: EvictionUnit) -> int:
        """GPU time, or, where the order says who is stopped first, the turn times the GPUs."""
        if self._turns:
            return (1 + self._turns[unit]) * unit.charges.get(GPU, 0)
        if not self._by_harm:
            return 0
        if self._hurry_s is None:
            return unit.harm // WHOLE
        return harm(unit.gang, unit.tasks, self._now, unit.is_core, self._hurry_s) // WHOLE


class VictimOffer:
    """What making room for one task of a shape costs on each node."""

    def __init__(self, pool: VictimIndex, kind: ShapeIndex, permission: Permission) -> None:
        self._pool, self._kind, self._permission = pool, kind, permission
        gpu = kind.shape.request.gpu
        self._milli = 0 if gpu is None else max(gpu.count * gpu.milli, 1)
        self._is_exact = gpu is not None and not gpu.memory_mib and not gpu.profile
        if gpu is not None and not self._is_exact:
            self._milli = 1  # how much it is depends on the device: evict and see
        self._needs: list[int] = [] if kind.amounts is None else kind.amounts.tolist()
        self.costs: Ints = np.full(len(pool.columns), IMPOSSIBLE, np.int64)
        self._victims: dict[int, list[EvictionUnit]] = {}
        self._permitted: dict[int, list[tuple[EvictionUnit, Freed, bool]]] = {}
        self._could = pool.index.room_when_empty(kind.shape) > 0
        self._cursor = pool.index.end_of_log()

    def work_out_all(self) -> None:
        """Look at every node on which something may go."""
        some = self._pool.permitted(self._permission)
        some.sort(key=lambda each: self._pool.order(each[0]))
        for unit, may in some:
            for slot, freed in unit.frees.items():
                self._permitted.setdefault(slot, []).append((unit, freed, may))
        self._look_at(self._permitted)

    def follow(self, other: VictimOffer, changed: Collection[int]) -> None:
        """Take over what another one knows, but for the nodes on which permissions differ."""
        self.costs, self._victims = other.costs.copy(), other._victims.copy()
        self._permitted, self._cursor = other._permitted.copy(), other._cursor
        may_go, at = self._permission.may, self._pool.at
        for slot in changed:
            asked = [(*entry, may_go(entry[0])) for entry in at.get(slot, ())]
            self._permitted[slot] = [(u, freed, may) for u, freed, may in asked if may is not None]
        self._look_at(changed)

    def sync(self) -> None:
        """Catch up with what changed."""
        end = self._pool.index.end_of_log()
        if end != self._cursor:
            self._look_at(self._pool.index.changed_since(self._cursor))
            self._cursor = end

    def victims(self, slot: int) -> list[EvictionUnit]:
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
        columns, some = self._pool.columns, self._displaceable(slot)
        if not some:
            self.costs[slot], self._victims[slot] = IMPOSSIBLE, []
            return
        free = columns.free[:, slot].tolist()
        lack = [need - has for need, has in zip(self._needs, free, strict=True)]
        short = self._milli - columns.states.free_milli[int(columns.device_number[slot])]
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
        for unit, freed, may in self._permitted.get(slot, ()):
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


def _by_name(unit: EvictionUnit) -> tuple[str, int]:
    return unit.gang.id, len(unit.before)
