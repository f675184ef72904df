"""The reclaim rules with caches: the same answers as `reclaim_rules.py`, computed once.

A search asks about the same queues hundreds of times. Three things are remembered here:

    for a cycle (`ReclaimRules`)    the minimum run time of each queue, and both sides of each pair
                                    of queues below their lowest common ancestor (`LcaCache`)
    for a victim's side             whether it is above its lines; forgotten whenever the stamp of
    (`_VictimSide`)                 its top queue changes, as with every charge to a queue below
    for a claim (`QueueClaim`)      whether the claimant's own side stays within its lines; a claim
                                    is therefore made anew for every search

The conditions of the rules are not written here, but `QueueClaim.rule_for` and `widest_rule` repeat
the order in which `reclaim_rules.py` tries them, and `protected_until` adds the protection by time.
`tests/laws/test_reclaim_rules_memo.py` checks that both modules give equal answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine.preemption.reclaim_rules import (
    HYSTERESIS,
    Amounts,
    ClaimTerms,
    Dimensions,
    QueueNames,
    above,
    is_fuller,
    keeps_entitlements,
    loses_by_guarantee,
    loses_by_share,
    min_run_s,
    preemption_rule,
    sides,
    stays_within_guarantee,
    stays_within_share,
)
from windlass.engine.queueing import OrderLevels, QueueShares
from windlass.model.actions import EvictionRule
from windlass.model.jobs import Gang
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster

# Bound once: a search asks very often, and access to the member of an enum is slow.
_GUARANTEE, _SHARE = EvictionRule.GUARANTEE, EvictionRule.SHARE


class ReclaimRules:
    """The rules in one cluster, for one cycle: shares and settings do not change meanwhile.

    `standing` are the shares, entitlements and guarantees of all queues in this cycle.
    """

    def __init__(self, cluster: Cluster, standing: QueueShares) -> None:
        self._cluster, self.standing = cluster, standing
        modes = cluster.settings.displacing
        self.consolidates = Displacing.CONSOLIDATE in modes
        self._reclaims = Displacing.RECLAIM in modes
        self._preempts = Displacing.PREEMPT in modes
        self.margin = (
            HYSTERESIS if cluster.settings.usage_effect and cluster.epoch_usage else (1, 1)
        )
        self.levels = cluster.recall(OrderLevels)
        """The order levels of all gangs, by which a gang may preempt others of its queue."""
        self._last_reach: tuple[Gang | None, int] = (None, 0)
        """The last claimant, and the best level of the gangs that it may preempt by order."""
        self._min_run: dict[str, int] = {}
        self._lca_caches: dict[tuple[str, Dimensions], LcaCache] = {}
        self._victim_sides: dict[tuple[QueueNames, Dimensions], _VictimSide] = {}
        """By the queues of a side and the dimensions that the claimant needs; all claimants share
        them."""
        self.has: Amounts = cluster.allocated
        """The amounts that queues have now."""
        self.stamps = cluster.accounts.stamps
        """A number per queue that changes whenever the queue, or one below it, is charged."""

    def preempts(self, claimant: Gang, victim: Gang) -> EvictionRule | None:
        """Return the rule by which the claimant may evict a gang of its own queue, or None."""
        if not self._preempts:
            return None
        return preemption_rule(claimant, victim, self.levels, self._reach)

    def has_siblings(self, gang: Gang) -> bool:
        """Return whether other running gangs would stop with this gang, through the same owner."""
        return bool(self._cluster.siblings(gang))

    def keeps_entitlements(self, claimant: str, need: Mapping[str, int], lost: Amounts) -> bool:
        """Return whether a preemption inside a queue lets no queue borrow more than before."""
        return keeps_entitlements(self._cluster, self.standing, claimant, need, lost)

    def claim_of(
        self, claimant: str, need: Mapping[str, int], after: Amounts, lacking: Collection[str]
    ) -> QueueClaim:
        """Return the claim of the queue `claimant`, which needs the amounts `need` for a gang.

        `after` returns the amounts of its queues with the gang placed; `lacking` are the dimensions
        of which all nodes together have too little free.
        """
        entitled = self.standing.entitled[claimant]
        dimensions = tuple([dimension for dimension in need if dimension in entitled])
        terms = ClaimTerms(self.standing, dimensions, after, lacking, self.margin)
        is_single = len(dimensions) == len(entitled) == 1
        return QueueClaim(self, terms, self._lca_cache(claimant, dimensions), is_single)

    def protected_until(self, queue: str, started_at: int | None, rule: EvictionRule) -> int:
        """Return the instant until which work of a queue is protected from a rule.

        Work that has not started (`started_at` is None) counts as started now.
        """
        since = self._cluster.now if started_at is None else started_at
        least = self.min_run(queue)
        if rule is EvictionRule.SHARE or rule is EvictionRule.CONSOLIDATE:
            least = max(least, self._cluster.settings.dwell_s)
        return since + least

    def min_run(self, queue: str) -> int:
        """Return how long gangs of a queue run before they may be displaced, in seconds."""
        least = self._min_run.get(queue)
        if least is None:
            least = self._min_run[queue] = min_run_s(self._cluster, queue)
        return least

    def _reach(self, claimant: Gang) -> int:
        if self._last_reach[0] is not claimant:  # asked about hundreds of victims in a row
            self._last_reach = claimant, self.levels.best_preemptible_level(claimant)
        return self._last_reach[1]

    def _lca_cache(self, claimant: str, dimensions: Dimensions) -> LcaCache:
        # without reclaim every claimant is like one without a path: it can claim nothing
        key = (claimant if self._reclaims else "", dimensions)
        cache = self._lca_caches.get(key)
        if cache is None:
            cache = LcaCache(self._cluster, key[0], self._victim_sides, dimensions)
            self._lca_caches[key] = cache
        return cache


@dataclass(slots=True, eq=False)
class _VictimSide:
    """The side of a victim (its queues, the top first), with cached comparisons to its lines."""

    queues: QueueNames
    stamp: int = -1
    """The stamp of the top queue for which the two fields below hold."""
    over_guarantee: bool = False
    """True if all its queues are above their guarantees in one dimension that the claimant
    needs."""
    over_share: Dimensions | None = None
    """The dimensions in which all its queues are above their entitlements; None: not computed
    yet."""


_Branch: TypeAlias = tuple[QueueNames, str, list[tuple[int, _VictimSide]]]
"""The claimant's side, the top queue of the other branch, and for each queue of that branch its
index in the list of victim queues with its side."""


class LcaCache(dict[str, tuple[QueueNames, _VictimSide]]):
    """Both sides below the lowest common ancestor of one claimant and every other queue."""

    def __init__(
        self,
        cluster: Cluster,
        claimant: str,
        victim_sides: dict[tuple[QueueNames, Dimensions], _VictimSide],
        dimensions: Dimensions,
    ) -> None:
        super().__init__()
        self._path, self._claimant_path = cluster.accounts.path, cluster.accounts.path(claimant)
        self._victim_sides, self._dimensions = victim_sides, dimensions
        self._last_queues: QueueNames | None = None
        """The queues for which `_branches` was worked out; compared by identity."""
        self._branches: list[_Branch] = []

    def __missing__(self, queue: str) -> tuple[QueueNames, _VictimSide]:
        gains, loses = sides(self._claimant_path, self._path(queue))
        side = self._victim_sides.setdefault((loses, self._dimensions), _VictimSide(loses))
        pair = self[queue] = gains, side
        return pair

    def branches(self, queues: QueueNames) -> list[_Branch]:
        """Return the queues grouped by where they branch off from the claimant's path.

        Queues from which nothing can be claimed are left out. The last answer is remembered.
        """
        if self._last_queues is not queues:
            grouped: dict[tuple[QueueNames, str], list[tuple[int, _VictimSide]]] = {}
            for index, queue in enumerate(queues):
                gains, side = self[queue]
                if gains:
                    grouped.setdefault((gains, side.queues[0]), []).append((index, side))
            self._last_queues = queues
            self._branches = [(*key, indexed) for key, indexed in grouped.items()]
        return self._branches


class QueueClaim:
    """The claim of one queue against any other; the claimant's own side is judged only once.

    As in `reclaim_rules.py`, `gains` is the claimant's side and `loses` the victim's side.
    """

    __slots__ = ("_is_single", "_lca", "_rules", "_terms", "_within_guarantee", "_within_share")

    def __init__(
        self, rules: ReclaimRules, terms: ClaimTerms, lca: LcaCache, is_single: bool
    ) -> None:
        self._rules, self._terms, self._lca = rules, terms, lca
        self._is_single = is_single
        """True if there is one dimension only: a rule then holds for a queue and all its gangs."""
        self._within_guarantee: dict[QueueNames, bool] = {(): False}
        self._within_share: dict[QueueNames, bool] = {(): False}
        """By the claimant's side: True if it stays within its lines; filled on demand."""

    def rule_for(
        self, queue: str, charges: Collection[str], before: Amounts
    ) -> EvictionRule | None:
        """Return the result of `reclaim_rule` for a victim of a queue, with the amounts `before` it
        leaves."""
        gains, side = self._lca[queue]
        terms, loses = self._terms, side.queues
        if self._may_claim_guarantee(gains) and loses_by_guarantee(terms, loses, charges, before):
            return _GUARANTEE
        if self._may_claim_share(gains) and loses_by_share(terms, gains, loses, charges, before):
            return _SHARE
        return None

    def rule_now(self, queue: str, charges: Collection[str]) -> EvictionRule | None:
        """Return the result of `reclaim_rule` for a victim of a queue, with the amounts of now."""
        rule = self.widest_rule(queue)
        if rule is None or (self._is_single and self._terms.dimensions[0] in charges):
            return rule
        return self.rule_for(queue, charges, self._rules.has)

    def widest_rule(self, queue: str) -> EvictionRule | None:
        """Return the result of `reclaim_rules.widest_rule` for a queue, with the amounts of now."""
        gains, side = self._lca[queue]
        if not gains:
            return None
        has, terms, loses = self._rules.has, self._terms, side.queues
        stamp = self._rules.stamps.get(loses[0], 0)
        if side.stamp != stamp:
            guarantees = terms.standing.guarantees
            side.stamp, side.over_share = stamp, None
            side.over_guarantee = bool(above(guarantees, loses, has, terms.dimensions))
        if side.over_guarantee and self._may_claim_guarantee(gains):
            return _GUARANTEE
        if not self._may_claim_share(gains):
            return None
        if side.over_share is None:
            side.over_share = tuple(above(terms.standing.entitled, loses, has, terms.dimensions))
        fuller = side.over_share and is_fuller(terms, gains[0], loses[0], side.over_share, has)
        return _SHARE if fuller else None

    def widest_rules(self, queues: QueueNames) -> tuple[EvictionRule | None, ...]:
        """Return `widest_rule` of each of the queues, in their order; None if nothing can be
        claimed.

        Every clearing of a node calls this. A branch whose stamp has not changed is answered
        without a look at its queues.
        """
        rules: list[EvictionRule | None] = [None] * len(queues)
        for gains, top, indexed in self._lca.branches(queues):
            stamp = self._rules.stamps.get(top, 0)
            claimed = self._may_claim_guarantee(gains)
            for index, side in indexed:
                settled = claimed and side.over_guarantee and side.stamp == stamp
                rules[index] = _GUARANTEE if settled else self.widest_rule(queues[index])
        return tuple(rules)

    def _may_claim_guarantee(self, gains: QueueNames) -> bool:
        answer = self._within_guarantee.get(gains)
        if answer is None:
            answer = self._within_guarantee[gains] = stays_within_guarantee(self._terms, gains)
        return answer

    def _may_claim_share(self, gains: QueueNames) -> bool:
        answer = self._within_share.get(gains)
        if answer is None:
            answer = self._within_share[gains] = stays_within_share(self._terms, gains)
        return answer
