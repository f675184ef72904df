"""What a waiting gang would have to displace, and why it may not: sums, and the rules behind them.

For people, one gang at a time; no cycle uses it. The answers come from `rights.py` and
`displace.py`, which decide, on a draft that is undone: rules are asked, never repeated here.
Whoever asks shows the cluster as its plan leaves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import EvictionUnit, Units
from windlass.engine.preemption.reclaim_memo import QueueClaim, ReclaimRules
from windlass.engine.preemption.reclaim_rules import Amounts, lacking
from windlass.engine.preemption.search import SearchOutcome
from windlass.engine.preemption.strategies import Preemptor
from windlass.engine.preemption.yield_holds import Borrowers
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import Progress, progress
from windlass.engine.queueing.shares import QueueShares, shares
from windlass.model.actions import EvictionRule
from windlass.model.jobs import Gang, GangId
from windlass.model.queues import GPU
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster

_ENDLESS = 1 << 60


class Blocker(StrEnum):
    """What keeps the work of a queue in its place."""

    OFF = "off"
    """The settings do not allow this way of displacing."""
    GAINER = "gainer"
    """The gang's own side would have more than its guarantee and its share."""
    LOSER = "loser"
    """The other side has no more than it is entitled to, or would be the emptier one then."""
    RANK = "rank"
    """Nothing in the gang's own queue has a lower priority."""
    FIRM = "firm"
    """Nothing of what it runs can be preempted."""
    PROTECTED = "protected"
    """What it runs has not run for long enough."""


@dataclass(frozen=True, slots=True)
class QueueComparison:
    """One queue where the two sides are compared; GPUs in thousandths."""

    queue: str
    has: int
    guarantee: int
    share: int


@dataclass(frozen=True, slots=True)
class QueueSide:
    """One queue with running work, as the gang's queue may treat it; GPUs in thousandths."""

    queue: str
    has: int
    may_lose: int
    rule: EvictionRule | None = None
    """By which rule it may lose that."""
    bar: Blocker | None = None
    """Why it may lose nothing."""
    until: int | None = None
    """When the first of what is protected is so no longer."""
    gainer: QueueComparison | None = None
    loser: QueueComparison | None = None
    """The two queues that were compared, the gainer as it would be then."""


@dataclass(frozen=True, slots=True)
class PreviewVictim:
    """One gang that would be displaced, by which rule, and how many of its tasks.

    None of its tasks: only places that are held for it would be taken.
    """

    gang: GangId
    rule: EvictionRule
    tasks: int


@dataclass(frozen=True, slots=True)
class PreemptionPreview:
    """What it would take to make room for a gang; GPUs in thousandths."""

    need: int
    free: int
    """What nobody has, and what is on its way out; not only where the gang could use it."""
    may_take: int
    """What others may be made to give up, at most."""
    own: QueueComparison
    sides: tuple[QueueSide, ...]
    settles: bool = False
    """Is something on its way out or held? The one counts as gone, the other as had."""
    full: str = ""
    """The queue at its limit, if one is: only work of that queue and below it could make way."""
    lent: bool = True
    """May its queue use what is free? Else others guard it for themselves."""
    ready_at: int | None = None
    """Before this nobody is displaced for it; None: never."""
    too_dear: bool = False
    """Others could move, but that costs more GPU time than its wait has so far."""
    patient_until: int | None = None
    """Until then it waits for a gentler way: others would lose far more than it needs."""
    ways: tuple[PreviewVictim, ...] = ()
    """Whom it would displace as soon as it may, or as soon as the search gets there."""


def would(cluster: Cluster, gang_id: GangId) -> PreemptionPreview | None:
    """What making room for a waiting gang would take; None where other things than room lack."""
    limits = Limits(cluster)
    standing = shares(cluster, limits)
    found = progress(cluster, gang_id)
    need = limits.need(found.counts)
    if found.short or not need.get(GPU) or not cluster.is_leaf(found.gang.queue):
        return None
    draft = Draft(cluster)
    try:
        with draft.attempt(), draft.holds.lifted(found.gang):
            settles = _let_go(draft)
            reason = limits.now(found.gang, need)
            if reason is not None and reason.why not in (ReasonCode.AT_LIMIT, ReasonCode.NOT_LENT):
                return None
            lent = reason is None or reason.why is not ReasonCode.NOT_LENT
            full = "" if reason is None or not lent else str(reason.values["queue"])
            answer = _PreviewQuestion(draft, limits, standing, found, full).answer()
            return replace(answer, settles=settles or bool(cluster.holds), lent=lent)
    finally:
        draft.close()


def _let_go(draft: Draft) -> bool:
    """As pass two does: what is on its way out, and not stuck, is as good as gone."""
    some = draft.cluster.coming_free()
    for task in some:
        draft.release(task)
    return bool(some)


class _PreviewQuestion:
    """One question: a gang, the queues as they stand, and a draft to look at them."""

    def __init__(
        self, draft: Draft, limits: Limits, standing: QueueShares, asked: Progress, full: str
    ) -> None:
        self._draft, self._limits, self._standing = draft, limits, standing
        self._cluster, self._progress, self._full = draft.cluster, asked, full
        self._gang: Gang = asked.gang
        self._need = limits.need(asked.counts)
        self._rights = ReclaimRules(draft.cluster, standing)
        self._lacking = lacking(draft.columns, self._need)
        self._held = self._given_up()
        """GPUs that are only held for borrowers, and may be taken, per queue."""

    def answer(self) -> PreemptionPreview:
        gang, settings = self._gang, self._cluster.settings
        units = self._displaceable()
        displacer = Preemptor(self._draft, self._limits, self._rights)
        outcome = self._searched(displacer) if settings.displacing else None
        wait = gang.displaces_after_s
        return PreemptionPreview(
            need=self._need[GPU],
            free=self._draft.columns.free_gpu(),
            may_take=sum(
                (unit.charges.get(GPU, 0) for unit, _ in self._takes(units)),
                sum(self._held.values()),
            ),
            own=self._line(gang.queue),
            sides=tuple(self._sides(units)),
            full=self._full,
            ready_at=None if wait is None else gang.created_at + wait,
            too_dear=displacer.too_dear,
            patient_until=displacer.patient_until,
            ways=_ways(outcome),
        )

    def _displaceable(self) -> list[EvictionUnit]:
        """The units that would make way where it counts, the youngest first."""
        held = {hold.gang for hold in self._draft.holds.standing.values() if hold.firm}
        path = self._cluster.accounts.path
        units = self._cluster.recall(Units).now()
        some = [
            unit
            for unit in units
            if unit.charges.get(GPU, 0)
            and unit.gang.id not in held
            and (not self._full or self._full in path(unit.gang.queue))
        ]
        return sorted(some, key=lambda each: (-each.gang.created_at, each.gang.id, each.is_core))

    def _searched(self, displacer: Preemptor) -> SearchOutcome | None:
        """What the search itself says, as if it were the gang's turn."""
        displacer.leaving |= {hold.gang for hold in self._cluster.holds.values() if hold.firm}
        with self._draft.attempt():
            return displacer.search(self._progress, grows=False)

    def _sides(self, units: Sequence[EvictionUnit]) -> Iterator[QueueSide]:
        paths = self._cluster.accounts.path
        for name in sorted(self._cluster.queues):
            if not self._cluster.is_leaf(name) or not self._cluster.allocated(name, GPU):
                continue
            if self._full and self._full not in paths(name):
                continue
            theirs = [unit for unit in units if unit.gang.queue == name]
            yield self._own(theirs) if name == self._gang.queue else self._other(name, theirs)

    def _own(self, units: Sequence[EvictionUnit]) -> QueueSide:
        name = self._gang.queue
        has = self._cluster.allocated(name, GPU)
        if Displacing.PREEMPT not in self._cluster.settings.displacing:
            return QueueSide(name, has, 0, bar=Blocker.OFF)
        lower = [unit for unit in units if self._rights.preempts(self._gang, unit.gang)]
        if not lower:
            return QueueSide(name, has, 0, bar=Blocker.RANK)
        rule = self._rights.preempts(self._gang, lower[0].gang) or EvictionRule.PRIORITY
        return self._side(name, lower, rule)

    def _other(self, name: str, units: Sequence[EvictionUnit]) -> QueueSide:
        has = self._cluster.allocated(name, GPU)
        gainer, loser = self._compared(name)
        if Displacing.RECLAIM not in self._cluster.settings.displacing:
            return QueueSide(name, has, 0, bar=Blocker.OFF)
        rule = self._rule(name, (GPU,), self._cluster.allocated)
        if rule is None:
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
        """The units that may be lost one after the other, each as its queue stands by then."""
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

    def _given_up(self) -> dict[str, int]:
        """What borrowers would lose that is held for them, where that makes way."""
        found: dict[str, int] = {}
        borrowers, case = Borrowers(self._draft), self._case()
        path = self._cluster.accounts.path
        with self._draft.attempt():
            for each in borrowers.before(case):
                queue = each.gang.queue
                if self._full in ("", *path(queue)) and borrowers.give_up([each], case):
                    found[queue] = found.get(queue, 0) + each.gpu
        return found

    def _case(self) -> QueueClaim:
        return self._rights.case(self._gang.queue, self._need, self._after, self._lacking)

    def _rule(self, loser: str, charges: Collection[str], before: Amounts) -> EvictionRule | None:
        return self._case().against(loser, charges, before)

    def _after(self, queue: str, dimension: str) -> int:
        return self._cluster.allocated(queue, dimension) + self._need.get(dimension, 0)

    def _compared(self, loser: str) -> tuple[QueueComparison, QueueComparison]:
        """The two queues below the point where the paths part."""
        mine = self._cluster.accounts.path(self._gang.queue)
        theirs = self._cluster.accounts.path(loser)
        gains = [name for name in mine if name not in theirs]
        loses = [name for name in theirs if name not in mine]
        return self._tightest(gains, self._need[GPU]), self._tightest(loses, 0)

    def _tightest(self, names: Sequence[str], more: int) -> QueueComparison:
        """Of a side, the queue that is fullest: the one by which it is judged."""
        lines = [self._line(name, more) for name in names]
        return max(lines, key=_excess) if more else min(lines, key=_excess)

    def _line(self, queue: str, more: int = 0) -> QueueComparison:
        has = self._cluster.allocated(queue, GPU) + more
        guarantees, shared = self._standing.guarantees, self._standing.shares
        return QueueComparison(queue, has, guarantees[queue].get(GPU, 0), shared[queue].get(GPU, 0))


def _endless(queue: str, dimension: str) -> int:
    """As if the other side had more than anybody ever has."""
    del queue, dimension
    return _ENDLESS


def _excess(line: QueueComparison) -> int:
    return line.has - max(line.guarantee, line.share)


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
