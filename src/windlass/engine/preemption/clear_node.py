"""Clearing a node: evict units from the cheapest node until a task fits there.

The placer calls this wherever it finds no room (`place.RoomMaker`). Everything happens on the
draft, in an attempt of the caller, who undoes it if the search fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from windlass.engine.draft import Draft, EvictionUnit
from windlass.engine.nodes import INFEASIBLE, ShapeIndex, TopologyLevel
from windlass.engine.preemption.victim_costs import IMPOSSIBLE, VictimCost
from windlass.engine.preemption.victim_filter import SearchScope, VictimFate, VictimFilter
from windlass.engine.preemption.victim_index import CycleVictims, VictimIndex, VictimOffer
from windlass.engine.queueing import Limits, TaskBatch
from windlass.model.jobs import Shape, Task
from windlass.model.queues import GPU, ROOT
from windlass.model.reasons import ReasonCode
from windlass.state.node_columns import Ints

MOST_NODES = 16
"""The number of nodes that are tried for one task, before the search gives up."""


class NodeClearing:
    """Clears nodes for one gang.

    `permits` is the filter of the attempt: it says which units may be evicted or moved.
    """

    def __init__(self, draft: Draft, victims: CycleVictims, permits: VictimFilter) -> None:
        self._draft, self._victims, self._permits = draft, victims, permits

    @property
    def index(self) -> VictimIndex:
        """The units that can be displaced for the gang."""
        return self._victims.index(self._permits.request.gang.hurry_s)

    def could_touch(self) -> bool:
        """Return whether any unit may be displaced at all."""
        return self.index.could_touch(self._permits)

    def clear(
        self, task: Task, kind: ShapeIndex, scope: Ints | None, over: Ints | None
    ) -> int | None:
        """Clear the cheapest node on which the task then fits; return its slot, or None if there is
        none.

        `scope` are the slots of the nodes that may be used, None for all; `over` is the overlay of
        scores by pod affinity, which excludes nodes at `INFEASIBLE`.
        """
        offer = self._offer(kind)
        costs = offer.costs
        if over is not None:
            costs = np.where(over < INFEASIBLE, costs, IMPOSSIBLE)
        for slot in _cheapest_nodes(costs, scope):
            with self._draft.attempt() as keep:
                if self._clear(slot, offer, kind):
                    keep()
                    return slot
        return None

    def room(self, shape: Shape) -> Ints:
        """Return, per node, how many tasks of a shape would fit without the units that can be
        displaced."""
        return self._victims.room_when_emptied(shape, self._permits.request.gang.hurry_s)

    def cheapest(
        self, domains: list[int], level: TopologyLevel, parts: Sequence[TaskBatch]
    ) -> list[int]:
        """Return the domains sorted by the cost of making room for the tasks in them, cheapest
        first.

        The cost of a domain is the sum over its cheapest nodes, one for each task.
        """
        tasks = [task for part in parts for task in part.tasks]
        kind = self._draft.index.of(tasks[0].shape)
        # the lowest eight bits only compare ages of gangs, which means nothing in a sum
        costs = np.where(kind.key < INFEASIBLE, 0, self._offer(kind).costs >> 8)

        def cost(domain: int) -> int:
            # Python integers: 512 impossible nodes would overflow a sum of 64 bits, and a domain
            # in which nothing may leave would become the cheapest
            lowest: list[int] = np.sort(costs[level.members[domain]])[: len(tasks)].tolist()
            return sum(lowest)

        return sorted(domains, key=lambda domain: (cost(domain), domain))

    def evict_below_limits(self, limits: Limits) -> bool:
        """Evict units until limits and lending allow what the gang needs; return whether they do.

        If a limit is reached, the victims come from the queue with that limit and the queues below
        it. If too little is lent, they come from any queue: what one borrower gives back, another
        may borrow.
        """
        request, need = self._permits.request, dict(self._permits.request.need)
        while (reason := limits.why_not_now(request.gang, need)) is not None:
            full = ROOT if reason.why is ReasonCode.NOT_LENT else str(reason.values["queue"])
            path = self._draft.cluster.accounts.path
            victims = [
                unit
                for unit in self.index.units
                if not unit.gone
                and full in (ROOT, *path(unit.gang.queue))
                and self._permits.fate(unit) is VictimFate.EVICT
                and unit.charges.get(GPU, 0)
            ]
            if not victims:
                return False
            for unit in min(victims, key=self.cost).closure():
                self._draft.evict(unit)
        return True

    def cost(self, unit: EvictionUnit) -> VictimCost:
        """Return the cost of evicting a unit and all units that must be evicted before it."""
        return self.index.costs.with_earlier(unit, VictimFate.EVICT)

    def _clear(self, slot: int, offer: VictimOffer, kind: ShapeIndex) -> bool:
        """Evict units of a node one by one until the shape fits; return False if it never does."""
        fate_of, keep = self._permits.fate, VictimFate.KEEP
        for victim in offer.victims(slot):
            if victim.gone or fate_of(victim) is keep:
                continue
            for unit in victim.closure():
                self._draft.evict(unit)
            if offer.lacks_gpu(slot):
                continue
            kind.sync()
            if kind.key[slot] < INFEASIBLE:
                return True
        return False

    def _offer(self, kind: ShapeIndex) -> VictimOffer:
        """Return the offer for a shape; its key contains everything that decides the fates of
        units.

        Gangs with the same key and the same widest rules share the offer: a new condition in
        `VictimFilter.fate_for_equals` has to become part of the key. Where queues are measured in
        several dimensions, such gangs may still differ about single units; `_clear` therefore asks
        the filter again before it evicts.
        """
        permits, index, request = self._permits, self.index, self._permits.request
        if permits.scope is SearchScope.MOVE:
            return index.offer(kind, permits.scope, (), permits)
        gang, own = request.gang, request.gang.queue
        reach = permits.rules.levels.best_preemptible_level(gang)
        rank = (own, gang.priority, reach) if own in index.queues else None
        rules = request.claim.widest_rules(index.queues)
        most_gpu = request.need.get(GPU, 0) if permits.modest else None
        return index.offer(kind, (permits.scope, request.grows, rank, most_gpu), rules, permits)


def _cheapest_nodes(costs: Ints, scope: Ints | None) -> Iterator[int]:
    """Yield the slots of the cheapest possible nodes, at most `MOST_NODES`, the cheapest first."""
    costs = costs if scope is None else costs[scope]
    if not costs.size:
        return
    # most often the first one does: the others are sorted only if it does not
    first = int(costs.argmin())
    if costs[first] < IMPOSSIBLE:
        yield first if scope is None else int(scope[first])
    for at in np.argsort(costs, kind="stable")[: min(MOST_NODES, costs.size)].tolist():
        if at != first and costs[at] < IMPOSSIBLE:
            yield at if scope is None else int(scope[at])
