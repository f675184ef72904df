"""All that one cycle could displace; laid out only when sums do not settle the question."""

from __future__ import annotations

from collections.abc import Set

from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import EvictionUnit, Units
from windlass.engine.preemption.emptied import Emptied
from windlass.engine.preemption.reclaim_rules import ReclaimRules
from windlass.engine.preemption.victim_index import VictimIndex
from windlass.model.jobs import GangId, Shape
from windlass.state.node_columns import Ints

_NEVER = 1 << 62


class Displaceable:
    """The pools of a cycle, and what they say of nodes and of time."""

    def __init__(self, draft: Draft, rights: ReclaimRules, leaving: Set[GangId]) -> None:
        self._draft, self._rights, self._leaving = draft, rights, leaving
        self._units: list[EvictionUnit] = []
        self._pools: dict[int | None, VictimIndex] = {}
        """By how much of a hurry those are in for whom they are."""
        self._emptied: Emptied | None = None
        self._protected_until: int | None = None
        """When the first unit that is protected now is so no longer, once somebody asked."""

    def pool(self, hurry_s: int | None) -> VictimIndex:
        """What can be displaced for somebody in such a hurry."""
        if not self._pools:
            self._units = self._draft.cluster.recall(Units).now()
            self._protected_until = None
        if hurry_s not in self._pools:
            self._pools[hurry_s] = VictimIndex(
                self._draft, self._leaving, self._units, hurry_s, self._rights.min_run
            )
        return self._pools[hurry_s]

    def room(self, shape: Shape, hurry_s: int | None) -> Ints:
        """How many tasks would fit each node without anything that can be displaced."""
        if self._emptied is None:
            self._emptied = Emptied(self.pool(hurry_s))
        return self._emptied.room(shape)

    def protected_until(self) -> int | None:
        """The next instant at which something that is protected now is so no longer."""
        if self._protected_until is None:
            ranks = self._rights.ranks
            by_order = ranks.next_change(self._rights.min_run) if ranks.stops else None
            self._protected_until = min(self._next_unprotected(), by_order or _NEVER)
        return self._protected_until if self._protected_until < _NEVER else None

    def _next_unprotected(self) -> int:
        """When the first that is protected now is so no longer."""
        now, rights, soonest = self._draft.cluster.now, self._rights, _NEVER
        longer = self._draft.cluster.settings.dwell_s
        for unit in self._units:
            since = now if unit.started_at is None else unit.started_at
            least = rights.min_run(unit.gang.queue)
            for at in (since + least, since + max(least, longer)):
                if now < at < soonest:
                    soonest = at
        return soonest
