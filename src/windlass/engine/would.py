"""What a waiting gang would have to displace, and why it may not: sums, and the rules behind them.

For people, one gang at a time; no cycle uses it. The answers come from `rights.py` and
`displace.py`, which decide, on a draft that is undone: rules are asked, never repeated here.
Whoever asks shows the cluster as its plan leaves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.engine.displace import Displacer
from windlass.engine.draft import Draft
from windlass.engine.give_way import Borrowers
from windlass.engine.limits import Limits
from windlass.engine.progress import Progress, progress
from windlass.engine.rights import Amounts, Case, Rights, lacking
from windlass.engine.search import Outcome
from windlass.engine.shares import Standing, shares
from windlass.engine.units import Unit, Units
from windlass.model.actions import Rule
from windlass.model.jobs import Gang, GangId
from windlass.model.queues import GPU
from windlass.model.reasons import Why
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster

_ENDLESS = 1 << 60


class Bar(StrEnum):
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
class Line:
    """One queue where the two sides are compared; GPUs in thousandths."""

    queue: str
    has: int
    guarantee: int
    share: int


@dataclass(frozen=True, slots=True)
class Side:
    """One queue with running work, as the gang's queue may treat it; GPUs in thousandths."""

    queue: str
    has: int
    may_lose: int
    rule: Rule | None = None
    """By which rule it may lose that."""
    bar: Bar | None = None
    """Why it may lose nothing."""
    until: int | None = None
    """When the first of what is protected is so no longer."""
    gainer: Line | None = None
    loser: Line | None = None
    """The two queues that were compared, the gainer as it would be then."""


@dataclass(frozen=True, slots=True)
class Way:
    """One gang that would be displaced, by which rule, and how many of its tasks.

    None of its tasks: only places that are held for it would be taken.
    """

    gang: GangId
    rule: Rule
    tasks: int


@dataclass(frozen=True, slots=True)
class Would:
    """What it would take to make room for a gang; GPUs in thousandths."""

    need: int
    free: int
    """What nobody has, and what is on its way out; not only where the gang could use it."""
    may_take: int
    """What others may be made to give up, at most."""
    own: Line
    sides: tuple[Side, ...]
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
    ways: tuple[Way, ...] = ()
    """Whom it would displace as soon as it may, or as soon as the search gets there."""


def would(cluster: Cluster, gang_id: GangId) -> Would | None:
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
            if reason is not None and reason.why not in (Why.AT_LIMIT, Why.NOT_LENT):
                return None
            lent = reason is None or reason.why is not Why.NOT_LENT
            full = "" if reason is None or not lent else str(reason.values["queue"])
            answer = _Asked(draft, limits, standing, found, full).answer()
            return replace(answer, settles=settles or bool(cluster.holds), lent=lent)
    finally:
        draft.close()


def _let_go(draft: Draft) -> bool:
    """As pass two does: what is on its way out, and not stuck, is as good as gone."""
    some = draft.cluster.coming_free()
    for task in some:
        draft.release(task)
    return bool(some)


class _Asked:
    """One question: a gang, the queues as they stand, and a draft to look at them."""

    def __init__(
        self, draft: Draft, limits: Limits, standing: Standing, asked: Progress, full: str
    ) -> None:
        self._draft, self._limits, self._standing = draft, limits, standing
        self._cluster, self._progress, self._full = draft.cluster, asked, full
        self._gang: Gang = asked.gang
        self._need = limits.need(asked.counts)
        self._rights = Rights(draft.cluster, standing)
        self._lacking = lacking(draft.columns, self._need)
        self._held = self._given_up()
        """GPUs that are only held for borrowers, and may be taken, per queue."""

    def answer(self) -> Would:
        gang, settings = self._gang, self._cluster.settings
        units = self._displaceable()
        displacer = Displacer(self._draft, self._limits, self._rights)
        outcome = self._searched(displacer) if settings.displacing else None
        wait = gang.displaces_after_s
        return Would(
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

    def _displaceable(self) -> list[Unit]:
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

    def _searched(self, displacer: Displacer) -> Outcome | None:
        """What the search itself says, as if it were the gang's turn."""
        displacer.leaving |= {hold.gang for hold in self._cluster.holds.values() if hold.firm}
        with self._draft.attempt():
            return displacer.search(self._progress, grows=False)

    def _sides(self, units: Sequence[Unit]) -> Iterator[Side]:
        paths = self._cluster.accounts.path
        for name in sorted(self._cluster.queues):
            if not self._cluster.is_leaf(name) or not self._cluster.allocated(name, GPU):
                continue
            if self._full and self._full not in paths(name):
                continue
            theirs = [unit for unit in units if unit.gang.queue == name]
            yield self._own(theirs) if name == self._gang.queue else self._other(name, theirs)

    def _own(self, units: Sequence[Unit]) -> Side:
        name = self._gang.queue
        has = self._cluster.allocated(name, GPU)
        if Displacing.PREEMPT not in self._cluster.settings.displacing:
            return Side(name, has, 0, bar=Bar.OFF)
        lower = [unit for unit in units if self._rights.preempts(self._gang, unit.gang)]
        if not lower:
            return Side(name, has, 0, bar=Bar.RANK)
        rule = self._rights.preempts(self._gang, lower[0].gang) or Rule.PRIORITY
        return self._side(name, lower, rule)

    def _other(self, name: str, units: Sequence[Unit]) -> Side:
        has = self._cluster.allocated(name, GPU)
        gainer, loser = self._compared(name)
        if Displacing.RECLAIM not in self._cluster.settings.displacing:
            return Side(name, has, 0, bar=Bar.OFF)
        rule = self._rule(name, (GPU,), self._cluster.allocated)
        if rule is None:
            bar = Bar.GAINER if self._rule(name, (GPU,), _endless) is None else Bar.LOSER
            return Side(name, has, 0, bar=bar, gainer=gainer, loser=loser)
        return self._side(
            name, [unit for unit in units if not unit.gang.spared], rule, gainer, loser
        )

    def _side(
        self,
        name: str,
        units: Sequence[Unit],
        rule: Rule,
        gainer: Line | None = None,
        loser: Line | None = None,
    ) -> Side:
        has = self._cluster.allocated(name, GPU)
        taken = sum(unit.charges.get(GPU, 0) for unit, _ in self._takes(units))
        taken += self._held.get(name, 0)
        now = self._cluster.now
        ends = (self._rights.protected_until(name, unit.started_at, rule) for unit in units)
        until = min((at for at in ends if at > now), default=None)
        bar = None if taken else Bar.PROTECTED if until is not None else Bar.FIRM
        return Side(name, has, taken, rule, bar, until, gainer, loser)

    def _takes(self, units: Iterable[Unit]) -> Iterator[tuple[Unit, Rule]]:
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

    def _is_protected(self, unit: Unit, rule: Rule) -> bool:
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

    def _case(self) -> Case:
        return self._rights.case(self._gang.queue, self._need, self._after, self._lacking)

    def _rule(self, loser: str, charges: Collection[str], before: Amounts) -> Rule | None:
        return self._case().against(loser, charges, before)

    def _after(self, queue: str, dimension: str) -> int:
        return self._cluster.allocated(queue, dimension) + self._need.get(dimension, 0)

    def _compared(self, loser: str) -> tuple[Line, Line]:
        """The two queues below the point where the paths part."""
        mine = self._cluster.accounts.path(self._gang.queue)
        theirs = self._cluster.accounts.path(loser)
        gains = [name for name in mine if name not in theirs]
        loses = [name for name in theirs if name not in mine]
        return self._tightest(gains, self._need[GPU]), self._tightest(loses, 0)

    def _tightest(self, names: Sequence[str], more: int) -> Line:
        """Of a side, the queue that is fullest: the one by which it is judged."""
        lines = [self._line(name, more) for name in names]
        return max(lines, key=_excess) if more else min(lines, key=_excess)

    def _line(self, queue: str, more: int = 0) -> Line:
        has = self._cluster.allocated(queue, GPU) + more
        guarantees, shared = self._standing.guarantees, self._standing.shares
        return Line(queue, has, guarantees[queue].get(GPU, 0), shared[queue].get(GPU, 0))


def _endless(queue: str, dimension: str) -> int:
    """As if the other side had more than anybody ever has."""
    del queue, dimension
    return _ENDLESS


def _excess(line: Line) -> int:
    return line.has - max(line.guarantee, line.share)


def _ways(outcome: Outcome | None) -> tuple[Way, ...]:
    if outcome is None:
        return ()
    lost = [Way(unit.gang.id, rule, len(unit.tasks)) for unit, rule in outcome.lost]
    moved = (unit for unit, _ in outcome.moved)
    held = (Way(gang, Rule.GUARANTEE, 0) for gang in outcome.gave_way)
    return (*lost, *held, *(Way(unit.gang.id, Rule.CONSOLIDATE, len(unit.tasks)) for unit in moved))
