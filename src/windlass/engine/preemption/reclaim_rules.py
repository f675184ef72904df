"""Who may take from whom: the rules of reclaim and preemption, and what protects from them.

Two queues are compared where their paths from the root part. A gang may be taken from

    by guarantee   the claimant's side stays within its guarantee, the loser's side is above its
                   own; of all queues below the fork, none inside its guarantee loses anything
    by share       the claimant's side stays within its share, rounded up to a whole GPU, and will
                   have less of what it is entitled to than the loser's side had; none inside its
                   share loses anything
    by priority    both stand in the same queue, and the claimant's priority is higher; the queue
                   does not grow by it beyond what it is entitled to
    by order       the same with equal priorities, where the claimant's level is better
                   (`policies.py`)

Nobody loses what does not help: a gang goes only for something that it holds itself and of which
its side has too much. Nothing goes that is guaranteed in any dimension, unless what is borrowed of
it is just what nodes lack for GPU work within another's guarantee: memory that one queue is
promised is not kept from its GPUs by those that another has beside it. Nor are GPUs idled for it.

The loser is judged as it stands *before* the gang leaves: a gang that straddles the line counts as
borrowed whole. It cannot be taken straight back: its return would lift its queue above the line
again, and the claimant stays below its own. Under "by share" the fuller of the two sides always
ends less full, so exchanges come to an end. Ratios are compared as products of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.shares import QueueShares
from windlass.model.actions import EvictionRule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import Gang
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster
from windlass.state.node_columns import NodeTable

SWAY = (5, 4)
"""Shares that usage bends sway a little all the time: the other side must be fuller by a quarter
before anything changes hands."""

Names: TypeAlias = tuple[str, ...]
Amounts: TypeAlias = Callable[[str, str], int]
"""What a queue has, or would have, in a dimension."""


class ReclaimRules:
    """The rules in one cluster, as the queues stand in this cycle."""

    def __init__(self, cluster: Cluster, standing: QueueShares) -> None:
        self._cluster, self.standing = cluster, standing
        ways = cluster.settings.displacing
        self.consolidates = Displacing.CONSOLIDATE in ways
        self.reclaims = Displacing.RECLAIM in ways
        self._preempts = Displacing.PREEMPT in ways
        self.margin = SWAY if cluster.settings.usage_effect and cluster.epoch_usage else (1, 1)
        self.ranks = cluster.recall(OrderLevels)
        self._reach: tuple[Gang | None, int] = (None, 0)
        """The last claimant, and from which level on it may stop others."""
        self._min_run: dict[str, int] = {}
        self._forks: dict[tuple[str, Names], LcaCache] = {}
        self._losers: _Losers = {}
        self.has: Amounts = cluster.allocated
        """What a queue has as it stands."""
        self.stamps = cluster.accounts.stamps
        """Moves for a queue whenever it, or one below it, is charged."""

    def preempts(self, claimant: Gang, victim: Gang) -> EvictionRule | None:
        """By which rule the same queue puts the claimant before the victim, if it does."""
        if not self._preempts or claimant.queue != victim.queue:
            return None
        if claimant.priority != victim.priority:
            return EvictionRule.PRIORITY if claimant.priority > victim.priority else None
        if not self.ranks.stops:
            return None
        if self._reach[0] is not claimant:  # it is asked about hundreds of victims in a row
            self._reach = claimant, self.ranks.reach(claimant)
        return EvictionRule.ORDER if self._reach[1] <= self.ranks.of(victim) else None

    def has_siblings(self, gang: Gang) -> bool:
        """Do other gangs run that stop through the same owner?"""
        return bool(self._cluster.siblings(gang))

    def keeps_within(self, claimant: str, need: Mapping[str, int], lost: Amounts) -> bool:
        """Does no queue of the claimant grow, or none beyond what it is entitled to?

        Nobody is preempted so that a queue may borrow, not even part of a GPU: others would take it
        back at once.
        """
        allocated, entitled = self._cluster.allocated, self.standing.entitled
        return all(
            need[each] <= lost(queue, each) or allocated(queue, each) <= entitled[queue][each]
            for queue in self._cluster.accounts.path(claimant)
            for each in need
            if each in entitled[queue]
        )

    def case(
        self, claimant: str, need: Mapping[str, int], after: Amounts, lacking: Collection[str]
    ) -> QueueClaim:
        """What a queue that will have so much may claim; and of what nodes have too little."""
        return QueueClaim(self, claimant, need, after, lacking)

    def protected_until(self, queue: str, started_at: int | None, rule: EvictionRule) -> int:
        """The instant before which work that started then is left alone by a rule."""
        since = self._cluster.now if started_at is None else started_at
        least = self.min_run(queue)
        if rule is EvictionRule.SHARE or rule is EvictionRule.CONSOLIDATE:
            least = max(least, self._cluster.settings.dwell_s)
        return since + least

    def min_run(self, queue: str) -> int:
        """How long gangs of a queue run before they may be displaced: the nearest word counts."""
        found = self._min_run.get(queue)
        if found is None:
            path = self._cluster.accounts.path(queue)
            said = (self._cluster.queues[name].min_run_s for name in path)
            default = self._cluster.settings.min_run_s
            found = next((each for each in said if each is not None), default)
            self._min_run[queue] = found
        return found

    def forks(self, claimant: str, counted: Names) -> LcaCache:
        """Where the paths of a claimant that needs something of these dimensions part."""
        key = (claimant if self.reclaims else "", counted)
        found = self._forks.get(key)
        if found is None:
            found = self._forks[key] = LcaCache(self._cluster, key[0], self._losers, counted)
        return found


@dataclass(slots=True, eq=False)
class _Loser:
    """The side of a queue that may have to give: from where the paths part, top first."""

    queues: tuple[str, ...]
    stamp: int = -1
    """Of the last time it was looked at."""
    over_guarantee: bool = False
    over_share: Names | None = None
    """The dimensions in which all of it has more than it is entitled to; None: not asked yet."""


_Losers: TypeAlias = dict[tuple[Names, Names], _Loser]
"""By the queues of the side and the dimensions that count; claimants share them."""
_Branch: TypeAlias = tuple[Names, str, list[tuple[int, _Loser]]]
"""The claimant's side, the top of the others', and these, each with its place in a list."""


class LcaCache(dict[str, tuple[Names, _Loser]]):
    """Both sides below the point where the paths of one claimant and another queue part.

    The claimant's is empty if it can claim nothing from the other.
    """

    def __init__(self, cluster: Cluster, claimant: str, losers: _Losers, counted: Names) -> None:
        super().__init__()
        self._path, self._mine = cluster.accounts.path, cluster.accounts.path(claimant)[::-1]
        self._losers, self._counted = losers, counted
        self._asked: Names | None = None
        self._branches: list[_Branch] = []

    def __missing__(self, loser: str) -> tuple[Names, _Loser]:
        mine, theirs = self._mine, self._path(loser)[::-1]
        at = 0
        while at < min(len(mine), len(theirs)) and mine[at] == theirs[at]:
            at += 1
        gains, loses = mine[at:], theirs[at:]
        side = self._losers.setdefault((loses, self._counted), _Loser(loses))
        found = self[loser] = gains if loses else (), side
        return found

    def branches(self, losers: Names) -> list[_Branch]:
        """Queues by where their paths part from the claimant's: those of a branch stand together.

        Those from which nothing can be claimed are left out. The last answer is remembered.
        """
        if self._asked is not losers:
            some: dict[tuple[Names, str], list[tuple[int, _Loser]]] = {}
            for at, loser in enumerate(losers):
                gains, side = self[loser]
                if gains:
                    some.setdefault((gains, side.queues[0]), []).append((at, side))
            self._asked, self._branches = losers, [(*key, sides) for key, sides in some.items()]
        return self._branches


class QueueClaim:
    """One queue's claim against any other. How the claimant itself stands is worked out once."""

    __slots__ = (
        "_after",
        "_by_guarantee",
        "_by_share",
        "_counted",
        "_forks",
        "_is_single",
        "_lacking",
        "_rights",
        "_standing",
    )

    def __init__(
        self,
        rights: ReclaimRules,
        claimant: str,
        need: Mapping[str, int],
        after: Amounts,
        lacking: Collection[str],
    ) -> None:
        self._rights, self._after, self._standing = rights, after, rights.standing
        self._lacking = lacking
        entitled = self._standing.entitled[claimant]
        self._counted = tuple([dimension for dimension in need if dimension in entitled])
        self._is_single = len(self._counted) == len(entitled) == 1
        """Is there one dimension only? Then what holds for a queue holds for all it runs."""
        self._forks = rights.forks(claimant, self._counted)
        self._by_guarantee: dict[Names, bool] = {(): False}
        self._by_share: dict[Names, bool] = {(): False}
        """May the claimant's side claim anything by this rule?"""

    def against(self, loser: str, charges: Collection[str], before: Amounts) -> EvictionRule | None:
        """By which rule these dimensions may be taken from a queue that has so much before it."""
        gains, side = self._forks[loser]
        lines, loses = self._standing, side.queues
        if not gains:
            return None
        is_lent = self._is_lent(loses, charges, before)
        counted = [each for each in self._counted if each in charges]
        if self._claims_guarantee(gains):
            above = self._above(loses, before, lines.guarantees, counted)
            if above and (is_lent or any(each in self._lacking for each in above)):
                return EvictionRule.GUARANTEE
        if is_lent and self._claims_share(gains):
            above = self._above(loses, before, lines.entitled, counted)
            if above and self._fuller(gains[0], loses[0], above, before):
                return EvictionRule.SHARE
        return None

    def takes(self, loser: str, charges: Collection[str]) -> EvictionRule | None:
        """By which rule these dimensions may be taken from a queue as it stands."""
        rule = self.against_now(loser)
        if rule is None or (self._is_single and self._counted[0] in charges):
            return rule
        return self.against(loser, charges, self._rights.has)

    def against_now(self, loser: str) -> EvictionRule | None:
        """By which rule anything may be taken from a queue as it stands, if it is of the kind."""
        gains, side = self._forks[loser]
        if not gains:
            return None
        has, lines, loses = self._rights.has, self._standing, side.queues
        stamp = self._rights.stamps.get(loses[0], 0)
        if side.stamp != stamp:
            side.stamp, side.over_share = stamp, None
            side.over_guarantee = bool(self._above(loses, has, lines.guarantees, self._counted))
        if side.over_guarantee and self._claims_guarantee(gains):
            return EvictionRule.GUARANTEE
        if not self._claims_share(gains):
            return None
        if side.over_share is None:
            side.over_share = tuple(self._above(loses, has, lines.entitled, self._counted))
        fuller = side.over_share and self._fuller(gains[0], loses[0], side.over_share, has)
        return EvictionRule.SHARE if fuller else None

    def rules(self, losers: Names) -> tuple[EvictionRule | None, ...]:
        """By which rule something may be taken from each of these queues as they stand.

        It is asked at every clearing: what has not changed since is settled by branches.
        """
        found: list[EvictionRule | None] = [None] * len(losers)
        for gains, top, sides in self._forks.branches(losers):
            stamp = self._rights.stamps.get(top, 0)
            claimed = self._claims_guarantee(gains)
            for at, side in sides:
                settled = claimed and side.over_guarantee and side.stamp == stamp
                found[at] = EvictionRule.GUARANTEE if settled else self.against_now(losers[at])
        return tuple(found)

    def _claims_guarantee(self, gains: Names) -> bool:
        found = self._by_guarantee.get(gains)
        if found is None:
            found = self._by_guarantee[gains] = self._within_guarantee(gains)
        return found

    def _claims_share(self, gains: Names) -> bool:
        found = self._by_share.get(gains)
        if found is None:
            found = self._by_share[gains] = self._within_share(gains)
        return found

    def _within_guarantee(self, gains: Names) -> bool:
        """Is the side within its guarantee, and no queue of it beyond what it is entitled to?"""
        guarantee, entitled = self._standing.guarantees[gains[0]], self._standing.entitled
        for each in self._counted:
            if self._after(gains[0], each) > guarantee[each]:
                return False
            for queue in gains[1:]:
                if self._after(queue, each) > _rounded(entitled[queue][each], each):
                    return False
        return True

    def _within_share(self, gains: Names) -> bool:
        shares = self._standing.shares
        return all(
            self._after(queue, each) <= _rounded(shares[queue][each], each)
            for queue in gains
            for each in self._counted
        )

    def _is_lent(self, loses: Names, charges: Collection[str], before: Amounts) -> bool:
        """Is all of the other side above its guarantee, in all that would go?"""
        guarantees = self._standing.guarantees
        for queue in loses:
            lines = guarantees[queue]
            for each in charges:
                if each in lines and before(queue, each) <= lines[each]:
                    return False
        return True

    @staticmethod
    def _above(
        loses: Names, before: Amounts, lines: Mapping[str, Mapping[str, int]], some: Iterable[str]
    ) -> list[str]:
        """Of some dimensions those in which all of the other side is above a line."""
        found: list[str] = []
        for each in some:
            for queue in loses:  # plain loops: this is asked many times per search
                if before(queue, each) <= lines[queue][each]:
                    break
            else:
                found.append(each)
        return found

    def _fuller(self, gains: str, loses: str, dimensions: Iterable[str], before: Amounts) -> bool:
        """Had the loser's side more of what it is entitled to than the claimant's will have?

        The claimant's is judged by whatever it will have most of: else two queues could take from
        each other by turns, one for its CPUs and one for its GPUs.
        """
        mine, theirs = self._standing.entitled[gains], self._standing.entitled[loses]
        more, less = self._rights.margin
        will_have = [(self._after(gains, each) * more, mine[each]) for each in self._counted]
        return any(
            all(after * theirs[each] < before(loses, each) * less * own for after, own in will_have)
            for each in dimensions
        )


def lacking(columns: NodeTable, need: Mapping[str, int]) -> frozenset[str]:
    """The dimensions of which all nodes together have less left than GPU work needs."""
    if not need.get(GPU):
        return frozenset()
    left = {GPU: columns.free_gpu(), CPU: columns.free_cpu(), MEMORY: columns.free_memory()}
    return frozenset(each for each, amount in need.items() if amount > left.get(each, amount))


def _rounded(share: int, dimension: str) -> int:
    """A share as whole GPUs: a part of one would be of no use to whoever asks for one."""
    if dimension != GPU and not dimension.startswith(MODEL_PREFIX):
        return share
    return -(-share // WHOLE) * WHOLE
