"""The victims of one gang: which units may be evicted for it, which may only move, which stay.

A search asks twice. Before it takes a unit away, `VictimFilter.fate` says what may happen to it.
Once it has made room, `validate_victims` judges all victims together, as the queues then stand:
the outcome counts, not the way to it. `is_too_costly` and `waits_until` then ask whether the
outcome is worth what it costs others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum

from windlass.engine.draft import RESTART_S, EvictionUnit
from windlass.engine.preemption.reclaim_memo import QueueClaim, ReclaimRules
from windlass.model.actions import EvictionRule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import Gang, GangId
from windlass.model.queues import GPU
from windlass.model.settings import Victims
from windlass.state.cluster import Cluster

MOST_MOVES = 32
"""The most units that may be moved for one gang."""
FAR_MORE = 2
"""If victims hold this many times the GPUs that a gang needs, the gang waits for a gentler way."""
MOST_PATIENCE = 10
"""A gang that reclaims by share waits at most this many times `Settings.patience_s`."""

WITHIN_QUEUE = (EvictionRule.PRIORITY, EvictionRule.ORDER)


class VictimFate(Enum):
    """The worst that may happen to a unit for the sake of one gang."""

    EVICT = "evict"
    """The unit may be evicted; if another place for it is found, it is moved instead."""
    MOVE = "move"
    """The unit may leave its place only if another place is held for it."""
    KEEP = "keep"
    """The unit stays untouched."""


class SearchScope(Enum):
    """The scope of an attempt: what may happen to its victims."""

    MOVE = "move"
    """All victims must move to other places; none is lost."""
    TAKE = "take"
    """Victims are only units that may be evicted by a rule."""
    BOTH = "both"
    """Victims are units that may be evicted by a rule, and units that may only move."""


# Bound once: the filter is asked for every unit, and access to the member of an enum is slow.
_EVICT, _MOVE, _KEEP = VictimFate.EVICT, VictimFate.MOVE, VictimFate.KEEP
_ONLY_MOVES, _ONLY_EVICTS = SearchScope.MOVE, SearchScope.TAKE


@dataclass(frozen=True, slots=True, eq=False)
class RoomRequest:
    """A gang that needs room, as one search sees it."""

    gang: Gang
    need: Mapping[str, int]
    """The amounts that the tasks of the gang need, per dimension."""
    lacking: Set[str]
    """The dimensions of which all nodes together had too little free when the search began."""
    grows: bool
    """True if the gang has its minimum and needs room only for elastic tasks; it may then take only
    elastic tasks of others."""
    claim: QueueClaim
    """The claim of the gang's queue, with the gang placed and before any eviction."""


@dataclass(frozen=True, slots=True, eq=False)
class VictimFilter:
    """The filter of one attempt: it says which units may be evicted or moved for the gang.

    Variables that hold it are called `permits`. It is made anew for every attempt.
    """

    rules: ReclaimRules
    decided: Set[GangId]
    """Gangs about which this cycle has decided; the set grows between attempts, not in one."""
    request: RoomRequest
    now: int
    scope: SearchScope
    modest: bool = False
    """True if no unit may be evicted that has more GPUs than the gang needs."""

    def fate(self, unit: EvictionUnit) -> VictimFate:
        """Return the fate of a unit; a gang never displaces members of its own."""
        if unit.gang.id == self.request.gang.id:
            return _KEEP
        return self.fate_for_equals(unit)

    def fate_for_equals(self, unit: EvictionUnit) -> VictimFate:
        """Return the fate of a unit for any gang that equals this one in queue, rank and need.

        Such gangs share offers (`VictimOffer`). The result is that of `fate`, except that it does
        not check whether the unit belongs to the gang that asks.
        """
        gang, scope = unit.gang, self.scope
        if gang.id in self.decided:
            return _KEEP
        if scope is not _ONLY_MOVES and not self._is_too_much(unit):
            rule = self._rule(unit)
            if rule is not None and self.is_unprotected(unit, rule):
                return _EVICT
        if scope is _ONLY_EVICTS or unit.is_torn or gang.spared:
            return _KEEP
        if gang.stops_with and self.rules.has_siblings(gang):
            return _KEEP  # its siblings would stop with it, and no place is kept for them
        if self.is_unprotected(unit, EvictionRule.CONSOLIDATE):
            return _MOVE
        return _KEEP

    def could_touch(self, queue: str, oldest_start: int, lowest_priority: int) -> bool:
        """Return whether some unit of a queue may have a fate other than KEEP.

        A quick filter: it needs only when the oldest work of the queue started, and its lowest
        priority. If it returns False, `fate` is KEEP for all units of the queue.
        """
        if self.scope is not _ONLY_MOVES and self._could_evict(queue, lowest_priority):
            return True
        if self.scope is _ONLY_EVICTS:
            return False
        until = self.rules.protected_until(queue, oldest_start, EvictionRule.CONSOLIDATE)
        return until <= self.now

    def is_unprotected(self, unit: EvictionUnit, rule: EvictionRule) -> bool:
        """Return whether a unit has run for so long that the rule may displace it."""
        return self.rules.protected_until(unit.gang.queue, unit.started_at, rule) <= self.now

    def _is_too_much(self, unit: EvictionUnit) -> bool:
        """Return whether evicting the unit is more than this attempt may do.

        That is so if growth would stop a gang, or if the attempt is modest and the unit has more
        GPUs than are needed.
        """
        request = self.request
        if request.grows and unit.is_core:
            return True
        return self.modest and unit.charges.get(GPU, 0) > request.need.get(GPU, 0)

    def _could_evict(self, queue: str, lowest_priority: int) -> bool:
        gang = self.request.gang
        if queue == gang.queue:
            return lowest_priority < gang.priority or self.rules.levels.preempts_by_order
        return self.request.claim.widest_rule(queue) is not None

    def _rule(self, unit: EvictionUnit) -> EvictionRule | None:
        """Return the rule by which a unit may be evicted as the queues stand now, or None."""
        gang = self.request.gang
        if unit.gang.queue == gang.queue:
            return self.rules.preempts(gang, unit.gang)
        if unit.gang.spared:
            return None
        return self.request.claim.rule_now(unit.gang.queue, unit.charges)


EvictionRules = Sequence[tuple[EvictionUnit, EvictionRule]]
"""The units that are evicted and do not move, each with the rule that allows it."""


def validate_victims(
    cluster: Cluster,
    permits: VictimFilter,
    evicted: Sequence[EvictionUnit],
    moved: Set[EvictionUnit],
) -> EvictionRules | None:
    """Return the evicted units that do not move, each with its rule; None if one has no rule.

    On the draft the preemptor is placed, and all `evicted` units have left in this order. Each unit
    is judged by the amounts of its queues just before it left. These are computed backwards: the
    charges of the units are added again one by one, the last unit first.
    """
    rules, request = permits.rules, permits.request
    gang = request.gang
    put_back: dict[tuple[str, str], int] = {}

    def before(queue: str, dimension: str) -> int:
        return cluster.allocated(queue, dimension) + put_back.get((queue, dimension), 0)

    claim = rules.claim_of(gang.queue, request.need, cluster.allocated, request.lacking)
    lost: list[tuple[EvictionUnit, EvictionRule]] = []
    for unit in reversed(evicted):
        if unit in moved:
            continue
        for queue in cluster.accounts.path(unit.gang.queue):
            for dimension, amount in unit.charges.items():
                key = (queue, dimension)
                put_back[key] = put_back.get(key, 0) + amount
        rule = rules.preempts(gang, unit.gang)
        if rule is None and not unit.gang.spared:
            rule = claim.rule_for(unit.gang.queue, unit.charges, before)
        if rule is None or not permits.is_unprotected(unit, rule):
            return None
        if request.grows and unit.is_core:
            return None
        lost.append((unit, rule))
    if any(rule in WITHIN_QUEUE for _, rule in lost) and not rules.keeps_entitlements(
        gang.queue, request.need, lambda queue, dimension: put_back.get((queue, dimension), 0)
    ):
        return None
    return lost[::-1]


def is_too_costly(cluster: Cluster, request: RoomRequest, moved: Iterable[EvictionUnit]) -> bool:
    """Return whether the moves cost more GPU time than the gang has lost by waiting.

    Nobody knows how long the gang would still wait. If it moves others when both costs are equal,
    it pays at most twice the cost of the best choice.
    """
    if cluster.settings.victims is not Victims.LEAST_HARM:
        return False
    gpu_milli, waited_s = request.need.get(GPU, WHOLE), cluster.now - request.gang.created_at
    redone = sum(unit.harm - RESTART_S * unit.charges.get(GPU, 0) for unit in moved)
    return redone > gpu_milli * waited_s


def waits_until(cluster: Cluster, request: RoomRequest, lost: EvictionRules) -> int | None:
    """Return the instant until which a gang waits for a gentler way; None if it need not wait.

    It waits if all victims are in other queues, hold at least `FAR_MORE` times what it needs, and
    would lose more GPU time than its wait costs: often some work ends meanwhile. A gang that
    reclaims by share, which breaks no guarantee, waits until its wait has cost as much as the loss,
    but at most `MOST_PATIENCE` times the patience.
    """
    settings = cluster.settings
    reclaimed = [unit for unit, rule in lost if rule not in WITHIN_QUEUE]
    if settings.victims is not Victims.LEAST_HARM or len(reclaimed) < len(lost):
        return None
    need = max(request.need.get(GPU, 0), 1)
    is_far_more = sum(unit.charges.get(GPU, 0) for unit in reclaimed) >= FAR_MORE * need
    patience_s, harmed = settings.patience_s, sum(unit.harm for unit in reclaimed)
    is_costly = harmed > need * patience_s
    if all(rule is EvictionRule.SHARE for _, rule in lost):
        patience_s = max(patience_s, min(harmed // need, MOST_PATIENCE * patience_s))
    until = request.gang.created_at + patience_s
    return until if is_far_more and is_costly and cluster.now < until else None
