"""Taking away: the cheapest node is cleared of what may go until a task fits there.

The placer asks for it wherever it finds no room (`place.Maker`). Everything is done on the draft,
in an attempt of whoever searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import EvictionUnit
from windlass.engine.nodes.node_index import ShapeIndex
from windlass.engine.nodes.score import NOWHERE
from windlass.engine.nodes.topology import TopologyLevel
from windlass.engine.preemption.displaceable import Displaceable
from windlass.engine.preemption.victim_filter import SearchScope, VictimFilter
from windlass.engine.preemption.victim_index import IMPOSSIBLE, VictimIndex, VictimOffer
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import TaskBatch
from windlass.model.jobs import Shape, Task
from windlass.model.queues import GPU, ROOT
from windlass.model.reasons import ReasonCode
from windlass.state.node_columns import Ints

MOST_NODES = 16
"""Nodes tried for one task before giving up."""


class NodeClearing:
    """Makes room for one gang."""

    def __init__(self, draft: Draft, displaceable: Displaceable, permits: VictimFilter) -> None:
        self._draft, self._displaceable, self._permits = draft, displaceable, permits

    @property
    def pool(self) -> VictimIndex:
        """What can be displaced for the gang."""
        return self._displaceable.pool(self._permits.gang.hurry_s)

    def may_take(self) -> bool:
        """Could anything go at all?"""
        return self.pool.may_any(self._permits)

    def clear(
        self, task: Task, kind: ShapeIndex, scope: Ints | None, over: Ints | None
    ) -> int | None:
        """Take away what may go from the cheapest node until the task fits there."""
        offer = self._offer(kind)
        costs = offer.costs
        if over is not None:
            costs = np.where(over < NOWHERE, costs, IMPOSSIBLE)
        for slot in _cheapest(costs, scope):
            with self._draft.attempt() as keep:
                if self._clear(slot, offer, kind):
                    keep()
                    return slot
        return None

    def room(self, shape: Shape) -> Ints:
        """How many tasks would fit each node without anything that can be displaced."""
        return self._displaceable.room(shape, self._permits.gang.hurry_s)

    def cheapest(
        self, domains: list[int], level: TopologyLevel, parts: Sequence[TaskBatch]
    ) -> list[int]:
        """The domains, those first in which room costs least."""
        tasks = [task for part in parts for task in part.tasks]
        kind = self._draft.index.of(tasks[0].shape)
        costs = np.where(kind.key < NOWHERE, 0, self._offer(kind).costs >> 8)

        def cost(domain: int) -> int:
            # Python integers: 512 impossible nodes would overflow a sum of 64 bits, and a domain
            # in which nothing may go would become the cheapest
            lowest: list[int] = np.sort(costs[level.members[domain]])[: len(tasks)].tolist()
            return sum(lowest)

        return sorted(domains, key=lambda domain: (cost(domain), domain))

    def goes_below(self, limits: Limits) -> bool:
        """Take away until the gang's queues may have what it needs.

        Where a limit is reached, from its own branch of the tree; where too little is lent, from
        anybody: what one borrower gives back another may have.
        """
        permits, need = self._permits, dict(self._permits.need)
        while (reason := limits.now(permits.gang, need)) is not None:
            full = ROOT if reason.why is ReasonCode.NOT_LENT else str(reason.values["queue"])
            paths = self._draft.cluster.accounts.path
            some = (
                u for u in self.pool.units if not u.gone and full in (ROOT, *paths(u.gang.queue))
            )
            victims = [u for u in some if permits.may_go(u) and u.charges.get(GPU, 0)]
            if not victims:
                return False
            cheapest = min(victims, key=self.cost)
            for each in cheapest.closure():
                self._draft.evict(each)
        return True

    def cost(self, unit: EvictionUnit) -> int:
        """The price of a unit if it is lost, with all that leaves before it."""
        return self.pool.cost(unit, lost=True)

    def _clear(self, slot: int, offer: VictimOffer, kind: ShapeIndex) -> bool:
        for unit in offer.victims(slot):
            if unit.gone or self._permits.may_go(unit) is None:
                continue
            for each in unit.closure():
                self._draft.evict(each)
            if offer.lacks_gpu(slot):
                continue
            kind.sync()
            if kind.key[slot] < NOWHERE:
                return True
        return False

    def _offer(self, kind: ShapeIndex) -> VictimOffer:
        permits, pool = self._permits, self.pool
        if permits.way is SearchScope.MOVE:
            return pool.offer(kind, permits.way, (), permits)
        gang, own = permits.gang, permits.gang.queue
        reach = permits.rights.ranks.reach(gang)
        whose = (own, gang.priority, reach) if own in pool.queues else None
        rules = permits.case.rules(pool.queues)
        most = permits.need.get(GPU, 0) if permits.modest else None
        return pool.offer(kind, (permits.way, permits.grows, whose, most), rules, permits)


def _cheapest(costs: Ints, scope: Ints | None) -> Iterator[int]:
    """The nodes in the order of their costs, a few of them."""
    some = costs if scope is None else costs[scope]
    if not some.size:
        return
    count = min(MOST_NODES, some.size)
    first = int(some.argmin())
    yield from _at(first, some, scope)
    for at in np.argsort(some, kind="stable")[:count].tolist():
        if at != first:
            yield from _at(at, some, scope)


def _at(at: int, some: Ints, scope: Ints | None) -> Iterator[int]:
    if some[at] < IMPOSSIBLE:
        yield at if scope is None else int(scope[at])
