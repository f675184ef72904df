"""Whom one gang may displace: what may be lost for it, what may only move, what stays.

A search asks before it takes anything away. What was taken in the end is judged once more, as the
queues then stand (`judge.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum

from windlass.engine.draft.eviction_units import EvictionUnit
from windlass.engine.preemption.reclaim_rules import QueueClaim, ReclaimRules
from windlass.model.actions import EvictionRule
from windlass.model.jobs import Gang, GangId
from windlass.model.queues import GPU


class SearchScope(Enum):
    """How far a search may go."""

    MOVE = "move"
    TAKE = "take"
    BOTH = "both"


@dataclass(slots=True)
class VictimFilter:
    """What one gang needs, and what may be done for it."""

    rights: ReclaimRules
    leaving: Set[GangId]
    """Gangs about which this cycle has decided."""
    gang: Gang
    need: Mapping[str, int]
    lacking: Set[str]
    """Of what all nodes together had too little left when it came."""
    grows: bool
    """Does it only grow? Then it takes nothing from others but what they have grown by."""
    case: QueueClaim
    now: int
    way: SearchScope = SearchScope.MOVE
    modest: bool = False
    """Is nobody to be lost who has more than is needed?"""

    def may_go(self, unit: EvictionUnit) -> bool | None:
        """The same as `may`, but that no gang displaces members of its own."""
        return None if unit.gang.id == self.gang.id else self.may(unit)

    def may(self, unit: EvictionUnit) -> bool | None:
        """May it be lost (True), only moved (False), or not be touched (None)?"""
        if unit.gang.id in self.leaving:
            return None
        if self.way is not SearchScope.MOVE and not self._is_too_much(unit):
            rule = self._rule(unit)
            if rule is not None and self.is_unprotected(unit, rule):
                return True
        if self.way is SearchScope.TAKE or unit.is_torn or unit.gang.spared:
            return None
        if unit.gang.stops_with and self.rights.has_siblings(unit.gang):
            return None  # they would stop with it, and no place is kept for them
        return False if self.is_unprotected(unit, EvictionRule.CONSOLIDATE) else None

    def _is_too_much(self, unit: EvictionUnit) -> bool:
        """Would more be lost with it than is meant to be?"""
        if self.grows and unit.is_core:
            return True
        return self.modest and unit.charges.get(GPU, 0) > self.need.get(GPU, 0)

    def may_any(self, queue: str, since: int, priority: int) -> bool:
        """Could anything go of a queue, given its oldest and its lowest? If not, `may` says None.

        Its oldest work started then, and none of it has a lower priority than this.
        """
        if self.way is not SearchScope.MOVE and self._takes_any(queue, priority):
            return True
        if self.way is SearchScope.TAKE:
            return False
        return self.rights.protected_until(queue, since, EvictionRule.CONSOLIDATE) <= self.now

    def _takes_any(self, queue: str, priority: int) -> bool:
        if queue == self.gang.queue:
            return priority < self.gang.priority or self.rights.ranks.stops
        return self.case.against_now(queue) is not None

    def is_unprotected(self, unit: EvictionUnit, rule: EvictionRule) -> bool:
        """Has it run for long enough to go by a rule?"""
        return self.rights.protected_until(unit.gang.queue, unit.started_at, rule) <= self.now

    def _rule(self, unit: EvictionUnit) -> EvictionRule | None:
        if unit.gang.queue == self.gang.queue:
            return self.rights.preempts(self.gang, unit.gang)
        return None if unit.gang.spared else self.case.takes(unit.gang.queue, unit.charges)
