"""A preview of preemption for one waiting gang: possible victims, and the rules that forbid others.

For people, one gang at a time; no cycle uses it. The answers come from the modules that decide
(`preemption/reclaim_rules.py`, `preemption/strategies.py`), on a draft that is undone: no rule is
written a second time here. Callers pass the cluster as the current plan leaves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.engine.draft import Draft, EvictionUnit, RunningUnits
from windlass.engine.preemption import (
    NO_WAY,
    Amounts,
    BorrowedHolds,
    Preemptor,
    QueueClaim,
    ReclaimRules,
    SearchOutcome,
    SearchResult,
    lacking,
)
from windlass.engine.queueing import Limits, Progress, QueueShares, compute_shares, gang_progress
from windlass.model.actions import EvictionRule
from windlass.model.jobs import Gang, GangId
from windlass.model.queues import GPU
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster

_ENDLESS = 1 << 60
"""More than any queue can hold."""


class Blocker(StrEnum):
    """The rule that protects the work of a queue."""

    OFF = "off"
    """The settings do not allow this kind of preemption."""
    GAINER = "gainer"
    """The preemptor's side would have more than its guarantee and its share."""
    LOSER = "loser"
    """The victim's side has no more than its entitlement, or would be the emptier side then."""
    RANK = "rank"
    """No gang in the preemptor's own queue has a lower priority."""
    FIRM = "firm"
    """No gang that the queue runs can be preempted."""
    PROTECTED = "protected"
    """The gangs that the queue runs have not run for long enough."""


@dataclass(frozen=True, slots=True)
class QueueComparison:
    """Allocation, guarantee and share (milli-GPU) of a queue just below the common ancestor."""

    queue: str
    has: int
    guarantee: int
    share: int


@dataclass(frozen=True, slots=True)
class QueueSide:
    """One queue with running work, and what the preemptor may take of it (milli-GPU)."""

    queue: str
    has: int
    may_lose: int
    rule: EvictionRule | None = None
    """The rule that allows it; None if nothing may be taken."""
    bar: Blocker | None = None
    """The reason that nothing may be taken; None if something may."""
    until: int | None = None
    """The earliest end of a protection; None if nothing is protected by time."""
    gainer: QueueComparison | None = None
    loser: QueueComparison | None = None
    """The two compared queues, `gainer` as it would be with the preemptor placed."""


@dataclass(frozen=True, slots=True)
class PreviewVictim:
    """One gang that would be evicted, with the rule and the number of its tasks.

    With 0 tasks, only places that are held for it would be taken.
    """

    gang: GangId
    rule: EvictionRule
    tasks: int


@dataclass(frozen=True, slots=True)
class PreemptionPreview:
    """The preemption that would make room for a gang; amounts in milli-GPU."""

    need: int
    free: int
    """Free and terminating capacity of the cluster, also where the gang could not use it."""
    may_take: int
    """The most that may be taken from others."""
    own: QueueComparison
    sides: tuple[QueueSide, ...]
    settles: bool = False
    """True if tasks terminate or places are held: the former count as free, the latter as taken."""
    full: str = ""
    """The queue that is at its limit, if any: only work of it and of queues below it would help."""
    lent: bool = True
    """True if its queue may use free capacity; False if other queues keep it for themselves."""
    ready_at: int | None = None
    """The earliest time at which the gang may preempt; None: never."""
    too_dear: bool = False
    """True if others could be moved, but at more GPU time than its wait has cost so far."""
    patient_until: int | None = None
    """The time until which it waits for a cheaper way: others would lose far more than it needs."""
    ways: tuple[PreviewVictim, ...] = ()
    """The victims as soon as the gang may preempt, or as soon as the search reaches it."""


def preview_preemption(cluster: Cluster, gang_id: GangId) -> PreemptionPreview | None:
    """Return how preemption would make room for a waiting gang; None if it lacks other things."""
    limits = Limits(cluster)
    standing = compute_shares(cluster, limits)
    waiting = gang_progress(cluster, gang_id)
    need = limits.need(waiting.counts)
    if waiting.short or not need.get(GPU) or not cluster.is_leaf(waiting.gang.queue):
        return None
    draft = Draft(cluster)
    try:
        with draft.attempt(), draft.holds.lifted(waiting.gang):
            settles = _release_terminating(draft)
            reason = limits.why_not_now(waiting.gang, need)
            if reason is not None and reason.why not in (ReasonCode.AT_LIMIT, ReasonCode.NOT_LENT):
                return None
            lent = reason is None or reason.why is not ReasonCode.NOT_LENT
            full = "" if reason is None or not lent else str(reason.values["queue"])
            answer = _PreviewQuestion(draft, limits, standing, waiting, full).answer()
            return replace(answer, settles=settles or bool(cluster.holds), lent=lent)
    finally:
        draft.close()


def _release_terminating(draft: Draft) -> bool:
    """Release tasks that terminate and are not stuck, as `make_room` does; return if there are."""
    terminating = draft.cluster.coming_free()
    for task in terminating:
        draft.release(task)
    return bool(terminating)


class _PreviewQuestion:
    """One preview: a gang, the shares of the queues, and a draft to search on."""

    def __init__(
        self, draft: Draft, limits: Limits, standing: QueueShares, waiting: Progress, full: str
    ) -> None:
        self._draft, self._limits, self._standing = draft, limits, standing
        self._cluster, self._progress, self._full = draft.cluster, waiting, full
        self._gang: Gang = waiting.gang
        self._need = limits.need(waiting.counts)
        self._rights = ReclaimRules(draft.cluster, standing)
        self._lacking = lacking(draft.columns, self._need)
        self._held = self._yielded_holds()
        """The milli-GPUs, per queue, that are only held for borrowers and may be taken."""

    def answer(self) -> PreemptionPreview:
        """Return the preview; the draft is left as it was."""
        gang, settings = self._gang, self._cluster.settings
        units = self._candidates()
        preemptor = Preemptor(self._draft, self._limits, self._rights)
        result = self._search(preemptor) if settings.displacing else NO_WAY
        wait = gang.displaces_after_s
        return PreemptionPreview(
            need=self._need[GPU],
            free=self._draft.columns.free_gpu(),
            may_take=sum(
                (unit.charges.get(GPU, 0) for unit, _ in self._takes(units)),
                sum(self._held.values()),
            ),
            own=self._comparison(gang.queue),
            sides=tuple(self._sides(units)),
            full=self._full,
            ready_at=None if wait is None else gang.created_at + wait,
            too_dear=result.too_costly,
            patient_until=result.wait_until,
            ways=_ways(result.outcome),
        )

    def _candidates(self) -> list[EvictionUnit]:
        """Return the eviction units that hold GPUs where it helps, youngest gang first."""
        held = {hold.gang for hold in self._draft.holds.standing.values() if hold.firm}
        path = self._cluster.accounts.path
        units = self._cluster.recall(RunningUnits).current()
        candidates = [
            unit
            for unit in units
            if unit.charges.get(GPU, 0)
            and unit.gang.id not in held
            and (not self._full or self._full in path(unit.gang.queue))
        ]
        return sorted(
            candidates, key=lambda unit: (-unit.gang.created_at, unit.gang.id, unit.is_core)
        )

    def _search(self, preemptor: Preemptor) -> SearchResult:
        """Return the result of the search for victims, as if it were the gang's turn."""
        preemptor.decided |= {hold.gang for hold in self._cluster.holds.values() if hold.firm}
        with self._draft.attempt():
            return preemptor.find_room(self._progress, grows=False)

    def _sides(self, units: Sequence[EvictionUnit]) -> Iterator[QueueSide]:
        """Yield the queues with running work, by name."""
        paths = self._cluster.accounts.path
        for name in sorted(self._cluster.queues):
            if not self._cluster.is_leaf(name) or not self._cluster.allocated(name, GPU):
                continue
            if self._full and self._full not in paths(name):
                continue
            in_queue = [unit for unit in units if unit.gang.queue == name]
            own = name == self._gang.queue
            yield self._own_queue(in_queue) if own else self._other_queue(name, in_queue)

    def _own_queue(self, units: Sequence[EvictionUnit]) -> QueueSide:
        """Return what may be preempted in the gang's own queue, by priority or order."""
        name = self._gang.queue
        has = self._cluster.allocated(name, GPU)
        if Displacing.PREEMPT not in self._cluster.settings.displacing:
            return QueueSide(name, has, 0, bar=Blocker.OFF)
        lower = [unit for unit in units if self._rights.preempts(self._gang, unit.gang)]
        if not lower:
            return QueueSide(name, has, 0, bar=Blocker.RANK)
        rule = self._rights.preempts(self._gang, lower[0].gang) or EvictionRule.PRIORITY
        return self._side(name, lower, rule)

    def _other_queue(self, name: str, units: Sequence[EvictionUnit]) -> QueueSide:
        """Return what may be reclaimed from another queue."""
        has = self._cluster.allocated(name, GPU)
        gainer, loser = self._compare(name)
        if Displacing.RECLAIM not in self._cluster.settings.displacing:
            return QueueSide(name, has, 0, bar=Blocker.OFF)
        rule = self._rule(name, (GPU,), self._cluster.allocated)
        if rule is None:
            # If not even an endlessly full queue would yield, the preemptor's side is the reason.
            bar = Blocker.GAINER if self._rule(name, (GPU,), _endless) is None else Blocker.LOSER
            return QueueSide(name, has, 0, bar=bar, gainer=gainer, loser=loser)
        return self._side(
            name, [unit for unit in units if not unit.gang.spared], rule, gainer, loser
        )

    def _side(
        self,
        name: str,
        units: Sequence[EvictionUnit],
        rule: EvictionRule,
        gainer: QueueComparison | None = None,
        loser: QueueComparison | None = None,
    ) -> QueueSide:
        has = self._cluster.allocated(name, GPU)
        taken = sum(unit.charges.get(GPU, 0) for unit, _ in self._takes(units))
        taken += self._held.get(name, 0)
        now = self._cluster.now
        ends = (self._rights.protected_until(name, unit.started_at, rule) for unit in units)
        until = min((at for at in ends if at > now), default=None)
        bar = None if taken else Blocker.PROTECTED if until is not None else Blocker.FIRM
        return QueueSide(name, has, taken, rule, bar, until, gainer, loser)

    def _takes(self, units: Iterable[EvictionUnit]) -> Iterator[tuple[EvictionUnit, EvictionRule]]:
        """Yield the units that may be evicted one by one, as their queues stand by then."""
        lost: dict[tuple[str, str], int] = {}

        def before(queue: str, dimension: str) -> int:
            return self._cluster.allocated(queue, dimension) - lost.get((queue, dimension), 0)

        for unit in units:
            queue = unit.gang.queue
            if queue == self._gang.queue:
                rule = self._rights.preempts(self._gang, unit.gang)
            else:
                rule = None if unit.gang.spared else self._rule(queue, unit.charges, before)
            if rule is None or self._is_protected(unit, rule):
                continue
            for name in self._cluster.accounts.path(queue):
                for dimension, amount in unit.charges.items():
                    lost[name, dimension] = lost.get((name, dimension), 0) + amount
            yield unit, rule

    def _is_protected(self, unit: EvictionUnit, rule: EvictionRule) -> bool:
        until = self._rights.protected_until(unit.gang.queue, unit.started_at, rule)
        return until > self._cluster.now

    def _yielded_holds(self) -> dict[str, int]:
        """Return the milli-GPUs per queue that are held for borrowers and may be taken."""
        yielded: dict[str, int] = {}
        borrowers, case = BorrowedHolds(self._draft), self._case()
        path = self._cluster.accounts.path
        with self._draft.attempt():
            for borrower in borrowers.candidates(case):
                queue = borrower.gang.queue
                if self._full in ("", *path(queue)) and borrowers.give_up([borrower], case):
                    yielded[queue] = yielded.get(queue, 0) + borrower.gpu
        return yielded

    def _case(self) -> QueueClaim:
        return self._rights.claim_of(self._gang.queue, self._need, self._after, self._lacking)

    def _rule(self, loser: str, charges: Collection[str], before: Amounts) -> EvictionRule | None:
        return self._case().rule_for(loser, charges, before)

    def _after(self, queue: str, dimension: str) -> int:
        return self._cluster.allocated(queue, dimension) + self._need.get(dimension, 0)

    def _compare(self, loser: str) -> tuple[QueueComparison, QueueComparison]:
        """Return the queues below the lowest common ancestor by which the two sides are judged."""
        own_path = self._cluster.accounts.path(self._gang.queue)
        other_path = self._cluster.accounts.path(loser)
        gains = [name for name in own_path if name not in other_path]
        loses = [name for name in other_path if name not in own_path]
        return self._tightest(gains, self._need[GPU]), self._tightest(loses, 0)

    def _tightest(self, names: Sequence[str], more: int) -> QueueComparison:
        """Return the queue of a side that decides: the fullest gainer, or the emptiest loser."""
        queues = [self._comparison(name, more) for name in names]
        return max(queues, key=_excess) if more else min(queues, key=_excess)

    def _comparison(self, queue: str, more: int = 0) -> QueueComparison:
        has = self._cluster.allocated(queue, GPU) + more
        guarantees, shared = self._standing.guarantees, self._standing.shares
        return QueueComparison(queue, has, guarantees[queue].get(GPU, 0), shared[queue].get(GPU, 0))


def _endless(queue: str, dimension: str) -> int:
    """Return an amount that no queue can hold, as if the other side were endlessly full."""
    del queue, dimension
    return _ENDLESS


def _excess(queue: QueueComparison) -> int:
    return queue.has - max(queue.guarantee, queue.share)


def _ways(outcome: SearchOutcome | None) -> tuple[PreviewVictim, ...]:
    if outcome is None:
        return ()
    lost = [PreviewVictim(unit.gang.id, rule, len(unit.tasks)) for unit, rule in outcome.lost]
    moved = (unit for unit, _ in outcome.moved)
    held = (PreviewVictim(gang, EvictionRule.GUARANTEE, 0) for gang in outcome.gave_way)
    return (
        *lost,
        *held,
        *(PreviewVictim(unit.gang.id, EvictionRule.CONSOLIDATE, len(unit.tasks)) for unit in moved),
    )
