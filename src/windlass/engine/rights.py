"""Who may take from whom: the rules of reclaim and preemption, and what protects from them.

Two queues are compared where their paths from the root part. A gang may be taken from

    by guarantee   the claimant's side stays within its guarantee, the loser's side is above its
                   own; of all queues below the fork, none inside its guarantee loses anything
    by share       the claimant's side stays within its share, rounded up to a whole GPU, and will
                   have less of what it is entitled to than the loser's side had; none inside its
                   share loses anything
    by priority    both stand in the same queue, and the claimant's priority is higher; the queue
                   does not grow by it beyond what it is entitled to

The loser is judged as it stands *before* the gang leaves: a gang that straddles the line counts as
borrowed whole. It cannot be taken straight back: its return would lift its queue above the line
again, and the claimant stays below its own. Under "by share" the fuller of the two sides always
ends less full, so exchanges come to an end. Ratios are compared as products of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from windlass.engine.shares import Standing
from windlass.model.actions import Rule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import Gang
from windlass.model.queues import GPU, MODEL_PREFIX
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster

SWAY = (5, 4)
"""Shares that usage bends sway a little all the time: the other side must be fuller by a quarter
before anything changes hands."""

Amounts: TypeAlias = Callable[[str, str], int]
"""What a queue has, or would have, in a dimension."""


class Rights:
    """The rules in one cluster, as the queues stand in this cycle."""

    def __init__(self, cluster: Cluster, standing: Standing) -> None:
        self._cluster, self.standing = cluster, standing
        ways = cluster.settings.displacing
        self.consolidates = Displacing.CONSOLIDATE in ways
        self.reclaims = Displacing.RECLAIM in ways
        self._preempts = Displacing.PREEMPT in ways
        self.margin = SWAY if cluster.settings.usage_effect and cluster.epoch_usage else (1, 1)
        self._min_run: dict[str, int] = {}
        self._forks: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def preempts(self, claimant: Gang, victim: Gang) -> bool:
        """Does the same queue put the claimant before the victim?"""
        return (
            self._preempts
            and claimant.queue == victim.queue
            and claimant.priority > victim.priority
        )

    def keeps_within(self, claimant: str, need: Mapping[str, int], lost: Amounts) -> bool:
        """Does no queue of the claimant grow, or none beyond what it is entitled to?

        Nobody is preempted so that a queue may borrow: others would take it back at once.
        """
        allocated, entitled = self._cluster.allocated, self.standing.entitled
        return all(
            need[each] <= lost(queue, each)
            or allocated(queue, each) <= _rounded(entitled[queue][each], each)
            for queue in self._cluster.accounts.path(claimant)
            for each in need
            if each in entitled[queue]
        )

    def case(self, claimant: str, need: Mapping[str, int], after: Amounts) -> Case:
        """What a queue that will have so much may claim from others."""
        return Case(self, claimant, need, after)

    def protected_until(self, queue: str, started_at: int | None, rule: Rule) -> int:
        """The instant before which work that started then is left alone by a rule."""
        since = self._cluster.now if started_at is None else started_at
        least = self.min_run(queue)
        if rule in {Rule.SHARE, Rule.CONSOLIDATE}:
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

    def fork(self, claimant: str, loser: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both paths below the point where they part, top first."""
        key = (claimant, loser)
        if key not in self._forks:
            one = self._cluster.accounts.path(claimant)[::-1]
            other = self._cluster.accounts.path(loser)[::-1]
            at = 0
            while at < min(len(one), len(other)) and one[at] == other[at]:
                at += 1
            self._forks[key] = one[at:], other[at:]
        return self._forks[key]


class Case:
    """One queue's claim against any other. How the claimant itself stands is worked out once."""

    __slots__ = ("_after", "_claimant", "_counted", "_known", "_rights", "_sides", "_standing")

    def __init__(
        self, rights: Rights, claimant: str, need: Mapping[str, int], after: Amounts
    ) -> None:
        self._rights, self._claimant, self._after = rights, claimant, after
        self._standing = rights.standing
        entitled = self._standing.entitled[claimant]
        self._counted = [dimension for dimension in need if dimension in entitled]
        self._known: dict[tuple[str, ...], tuple[bool, bool]] = {}
        self._sides: dict[str, tuple[bool, bool, str, tuple[str, ...]]] = {}

    def against(self, loser: str, before: Amounts) -> Rule | None:
        """By which rule something may be taken from a queue that has so much before it."""
        found = self._sides.get(loser)
        if found is None:
            found = self._sides[loser] = self._side(loser)
        by_guarantee, by_share, gains, loses = found
        if by_guarantee and self._above(loses, before, self._standing.guarantees):
            return Rule.GUARANTEE
        if by_share and self._above(loses, before, self._standing.entitled, gains):
            return Rule.SHARE
        return None

    def _side(self, loser: str) -> tuple[bool, bool, str, tuple[str, ...]]:
        """What the claimant's side is entitled to claim, by which rule, and the other side."""
        if not self._rights.reclaims or loser == self._claimant:
            return False, False, "", ()
        gains, loses = self._rights.fork(self._claimant, loser)
        if not gains or not loses:
            return False, False, "", ()
        known = self._known.get(gains)
        if known is None:
            known = self._known[gains] = (
                self._within_guarantee(gains),
                self._within_share(gains),
            )
        return known[0], known[1], gains[0], loses

    def _within_guarantee(self, gains: tuple[str, ...]) -> bool:
        """Is the side within its guarantee, and no queue of it beyond what it is entitled to?"""
        guarantees, entitled = self._standing.guarantees, self._standing.entitled
        return all(
            self._after(gains[0], each) <= guarantees[gains[0]][each]
            and all(self._after(q, each) <= _rounded(entitled[q][each], each) for q in gains[1:])
            for each in self._counted
        )

    def _within_share(self, gains: tuple[str, ...]) -> bool:
        shares = self._standing.shares
        return all(
            self._after(queue, each) <= _rounded(shares[queue][each], each)
            for queue in gains
            for each in self._counted
        )

    def _above(
        self,
        loses: tuple[str, ...],
        before: Amounts,
        lines: Mapping[str, Mapping[str, int]],
        fuller_than: str = "",
    ) -> bool:
        """Is the other side above its lines in something that the claimant needs, and (where asked)
        fuller than the claimant will be?"""
        for each in self._counted:
            for queue in loses:  # plain loops: this is asked many times per search
                if before(queue, each) <= lines[queue][each]:
                    break
            else:
                if not fuller_than or self._fuller(fuller_than, loses[0], each, before):
                    return True
        return False

    def _fuller(self, gains: str, loses: str, dimension: str, before: Amounts) -> bool:
        """Had the loser's side more of what it is entitled to than the claimant's will have?

        The claimant's is judged by whatever it will have most of: else two queues could take from
        each other by turns, one for its CPUs and one for its GPUs.
        """
        mine, theirs = self._standing.entitled[gains], self._standing.entitled[loses]
        more, less = self._rights.margin
        had = before(loses, dimension) * less
        return all(
            self._after(gains, each) * theirs[dimension] * more < had * mine[each]
            for each in self._counted
        )


def _rounded(share: int, dimension: str) -> int:
    """A share as whole GPUs: a part of one would be of no use to whoever asks for one."""
    if dimension != GPU and not dimension.startswith(MODEL_PREFIX):
        return share
    return -(-share // WHOLE) * WHOLE
