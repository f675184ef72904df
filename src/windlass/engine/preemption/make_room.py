"""Pass two: room for gangs that found none, on places that come free or by displacing others.

Pass two works on the cluster as it will be when all terminating and evicted tasks are gone. A gang
may fit there without victims; if not, other gangs may be displaced for it. In both cases the gang
is not bound yet: its places are held until they are free, and pass one (`placement/allocate.py`) of
a later cycle binds it. The work per cycle is bounded (`Draft.steps` counts it); the next cycle
continues where this one stopped (`retry_schedule.py`).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine.draft import Draft
from windlass.engine.nodes import Topologies, bounds
from windlass.engine.placement import Placer
from windlass.engine.preemption.forced_evictions import forced_evictions
from windlass.engine.preemption.graceful_eviction import withdrawable_gangs
from windlass.engine.preemption.reclaim_memo import ReclaimRules
from windlass.engine.preemption.retry_schedule import RetrySchedule
from windlass.engine.preemption.search import SearchOutcome
from windlass.engine.preemption.strategies import Preemptor
from windlass.engine.queueing import GangOrder, Limits, Progress, QueueShares
from windlass.model.actions import Evict, EvictionRule, Hold, HoldYielded
from windlass.model.jobs import GangId, Task
from windlass.state.snapshot import FailedSearch


@dataclass(slots=True)
class PreemptionResult:
    """The decisions of one pass. The result of a pass is also an input of the pass after it."""

    repaired: frozenset[GangId] = frozenset()
    """An input of the next pass: the gangs that got tasks earlier in this cycle. The next pass
    neither evicts them by force nor searches for them."""
    grows: bool = False
    """An input of the next pass: True if it makes room for growth, that is for tasks above the
    minimum; False if it makes room for minimums."""
    evictions: list[Evict] = field(default_factory=list[Evict])
    outcomes: list[SearchOutcome] = field(default_factory=list[SearchOutcome])
    searched: dict[GangId, FailedSearch] = field(default_factory=dict[GangId, FailedSearch])
    """By gang: its last failed search for victims."""
    wake_at: int | None = None
    """The first instant at which a decision may change by time alone; None if there is none."""
    decided: set[GangId] = field(default_factory=set[GangId])
    """The gangs that lose members, and the gangs for which places are held, by this pass."""

    def may_grow(self, growing: Iterable[Progress]) -> Iterable[Progress]:
        """Return those of the gangs about which this pass has not decided."""
        return (progress for progress in growing if progress.gang.id not in self.decided)

    def for_growth(self, joined: frozenset[GangId]) -> PreemptionResult:
        """Return this result as the input of the pass for growth; `joined` gangs got tasks before
        it."""
        return replace(self, grows=True, repaired=joined)

    def then(self, later: PreemptionResult) -> PreemptionResult:
        """Return the decisions of both passes together."""
        instants = [at for at in (self.wake_at, later.wake_at) if at is not None]
        return PreemptionResult(
            evictions=self.evictions + later.evictions,
            outcomes=self.outcomes + later.outcomes,
            searched=self.searched | later.searched,
            wake_at=min(instants, default=None),
            decided=self.decided | later.decided,
        )

    def yielded_holds(self) -> tuple[HoldYielded, ...]:
        """Return the holds of borrowers that end because other gangs take their places."""
        return tuple(
            HoldYielded(gang, outcome.progress.gang.id)
            for outcome in self.outcomes
            for gang in outcome.gave_way
        )

    def failed_searches(self) -> tuple[FailedSearch, ...]:
        """Return the failed searches by gang, to be remembered for the next cycles."""
        return tuple(search for _, search in sorted(self.searched.items()))


def make_room(
    draft: Draft, limits: Limits, standing: QueueShares, order: GangOrder, earlier: PreemptionResult
) -> PreemptionResult:
    """Make room for the gangs of `order`; return the evictions and the outcome of each search.

    `standing` are the shares, entitlements and guarantees of all queues; `earlier` is the result of
    the pass before. A cycle calls this once for gangs that lack their minimum, and again, after
    gangs grew on free room, for gangs that found no room to grow. Evictions and binds on the draft
    are undone at the end; the new holds stay on the draft.
    """
    held = {hold.gang for hold in draft.holds.standing.values() if hold.firm}
    preemptor = Preemptor(draft, limits, ReclaimRules(draft.cluster, standing))
    preemptor.decided |= held | earlier.decided | earlier.repaired
    schedule = RetrySchedule(draft.cluster, limits, standing)
    with draft.provisional():
        work = _PassTwo(draft, limits, Placer(draft, limits), preemptor, schedule, earlier.grows)
        if not earlier.grows:
            work.evict_by_force(earlier.repaired, held)
        coming_free = _coming_free(draft, earlier)
        work.has_freed = bool(coming_free or work.evictions)
        due = work.due_gangs(order, earlier.repaired)
        is_undecided = any(each.gang.id not in preemptor.decided for each in order.gangs)
        if is_undecided and (due or work.has_freed):
            work.release(coming_free)  # from here on they are gone
            work.serve(order, due)
    result = PreemptionResult(
        evictions=work.evictions,
        outcomes=work.outcomes,
        searched=schedule.searched,
        wake_at=schedule.wake_at,
        decided=preemptor.decided - held - earlier.repaired,
    )
    _update_holds(draft, result)
    return result


def _coming_free(draft: Draft, earlier: PreemptionResult) -> list[Task]:
    """Return the tasks whose places come free: evicted by the pass before, or terminating.

    Gangs whose checkpoint request is about to be withdrawn stay where they are.
    """
    cluster = draft.cluster
    evicted = [cluster.tasks[eviction.task] for eviction in earlier.evictions]
    stays = withdrawable_gangs(draft)
    return evicted + [task for task in cluster.coming_free() if task.gang not in stays]


def _update_holds(draft: Draft, result: PreemptionResult) -> None:
    """Replace the holds of the gangs about which this pass has decided.

    The order matters. First end the holds that are replaced or gave way; then the reservations on
    places for which others were evicted or moved; then add the new holds, which the first step
    would end.
    """
    now = draft.cluster.now
    holds: list[Hold] = []
    for outcome in result.outcomes:
        holds.append(Hold(outcome.progress.gang.id, outcome.claims, now, firm=True))
        holds += [Hold(unit.gang.id, claims, now, firm=True) for unit, claims in outcome.moved]
    for ended in (*holds, *result.yielded_holds()):
        draft.holds.drop(ended.gang)
    paid = (outcome for outcome in result.outcomes if outcome.lost or outcome.moved)
    draft.holds.drop_reservations_at(claim for outcome in paid for claim in outcome.claims)
    draft.holds.add_all(holds)


@dataclass(slots=True, eq=False)
class _PassTwo:
    """One pass: its tools, and the decisions that it has made so far."""

    draft: Draft
    limits: Limits
    placer: Placer
    preemptor: Preemptor
    schedule: RetrySchedule
    grows: bool
    """True if the pass makes room for growth (tasks above the minimum), False if for minimums."""
    evictions: list[Evict] = field(default_factory=list[Evict])
    outcomes: list[SearchOutcome] = field(default_factory=list[SearchOutcome])
    has_freed: bool = False
    """True if some place comes free; if False, a gang that did not fit in pass one cannot fit
    here."""
    _never_fits: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])
    """By `Progress.signature`: True if such a gang would not fit even the empty cluster."""

    def evict_by_force(self, repaired: frozenset[GangId], held: set[GangId]) -> None:
        """Evict the gangs that have to go without a preemptor, and remove their tasks from the
        draft."""
        leaving = self.preemptor.decided
        for evictions in forced_evictions(self.draft.cluster, repaired, held, leaving):
            for task, rule in evictions:
                self.evictions.append(Evict(task.id, rule))
                leaving.add(task.gang)
            self.release([task for task, _ in evictions])

    def due_gangs(self, order: GangOrder, repaired: Container[GangId]) -> set[GangId]:
        """Return the gangs of the order for which a search for victims is due."""
        due: set[GangId] = set()
        for progress in order.gangs:
            gang = progress.gang
            if gang.id not in self.preemptor.decided:
                if self.schedule.is_due(gang):
                    due.add(gang.id)
            elif self.grows and gang.id in repaired:
                # the gang has just grown and has more tasks: plan again soon
                self.schedule.wake(self.draft.cluster.now + 1)
        return due

    def serve(self, order: GangOrder, due: Container[GangId]) -> None:
        """Find places for the gangs of the order: where room comes free, else by a search if one is
        due."""
        while (progress := order.next()) is not None:
            gang = progress.gang.id
            if gang in self.preemptor.decided:
                continue
            outcome = self._place_on_freed(progress)
            if outcome is not None and self.grows:
                # no hold is needed: the gang grows by itself as soon as there is room
                self.draft.unbind(len(self.draft.binds) - len(outcome.claims))
                continue
            if outcome is None and gang in due and self.schedule.has_budget():
                outcome = self._search(progress)
            if outcome is not None:
                self._keep(outcome)
                order.placed(progress)

    def release(self, tasks: Sequence[Task]) -> None:
        """Remove tasks from their nodes on the draft."""
        if tasks:
            self.draft.begin()
            self.draft.release_all(tasks)

    def _place_on_freed(self, progress: Progress) -> SearchOutcome | None:
        """Place a gang as if all terminating and evicted tasks were gone; None if it does not
        fit."""
        mark = len(self.draft.binds)
        if not self.has_freed or not self.placer.start(progress):
            return None
        return SearchOutcome(progress, self.draft.claims(mark))

    def _search(self, progress: Progress) -> SearchOutcome | None:
        """Search for victims, unless the search would fail for a known reason; None without an
        outcome."""
        gang, draft, schedule = progress.gang, self.draft, self.schedule
        began, levels = draft.steps, self.preemptor.levels
        schedule.wake(levels.improves_at(gang))
        # two searches that agree in all of this have the same result
        alike = (
            *(gang.queue, gang.priority, levels.best_preemptible_level(gang)),
            *(gang.is_firm, self.grows, progress.signature),
        )
        draft.steps += 1
        ready_at = schedule.ready_at(alike)
        outcome = None
        if not schedule.fails_again(alike) and not self._is_hopeless(progress):
            result = self.preemptor.find_room(progress, self.grows)
            outcome = result.outcome
            if outcome is None:
                ready_at = self.preemptor.protected_until()
                schedule.note_failure(gang, alike, result, ready_at)
        schedule.spend(draft.steps - began)
        if outcome is None:
            schedule.postpone(progress, ready_at)
        return outcome

    def _is_hopeless(self, progress: Progress) -> bool:
        """Return whether a limit, or the size of the cluster, rules the gang out even with
        victims."""
        need = self.limits.need(progress.counts)
        if self.limits.why_never(progress.gang, need) is not None:
            return True
        hopeless = self._never_fits.get(progress.signature)
        if hopeless is None:
            topologies = self.draft.cluster.recall(Topologies)
            reason = bounds.why_never(self.draft.index, topologies, progress)
            hopeless = self._never_fits[progress.signature] = reason is not None
        return hopeless

    def _keep(self, outcome: SearchOutcome) -> None:
        """Record an outcome that the draft has kept: its evictions, and the gangs that it decides
        about."""
        draft, preemptor, gang = self.draft, self.preemptor, outcome.progress.gang.id
        # the binds become holds: they leave the list of binds, but stay on the columns
        count = len(outcome.claims) + sum(len(claims) for _, claims in outcome.moved)
        first = len(draft.binds) - count
        if draft.neighbours.tallies:
            preemptor.promise(draft.binds[first:])
        del draft.binds[first:]
        self.outcomes.append(outcome)
        self.schedule.searched.pop(gang, None)
        self.has_freed = True
        preemptor.decided.add(gang)
        if outcome.gave_way:
            self.schedule.wake(draft.cluster.now + 1)  # its places may be free already
        for unit, rule in outcome.lost:
            preemptor.decided.add(unit.gang.id)
            self.evictions += [Evict(task.id, rule, gang) for task in unit.tasks]
        for unit, claims in outcome.moved:
            preemptor.decided.add(unit.gang.id)
            target = {claim.task: claim.node for claim in claims}
            self.evictions += [
                Evict(task.id, EvictionRule.CONSOLIDATE, gang, target[task.id])
                for task in unit.tasks
            ]
