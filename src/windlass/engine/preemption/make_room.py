"""Pass two: room for gangs that found none, on what comes free and by displacing others.

It looks at the cluster as it will be once everything on its way out is gone. There a gang may fit
as it is; else others may be displaced for it. Either way it is not bound yet: its places are held
until they are free, and pass one of a later cycle binds it. The work per cycle is bounded in
steps; the next cycle goes on where this one stopped.
"""

from __future__ import annotations

from collections.abc import Hashable

from windlass.engine.draft.draft import Draft
from windlass.engine.nodes import bounds
from windlass.engine.nodes.topology import Topologies
from windlass.engine.placement.place import Placer
from windlass.engine.preemption.forced_evictions import leaving
from windlass.engine.preemption.graceful_eviction import needless
from windlass.engine.preemption.overrun import overrun
from windlass.engine.preemption.reclaim_rules import ReclaimRules
from windlass.engine.preemption.result import PreemptionResult
from windlass.engine.preemption.search import SearchOutcome
from windlass.engine.preemption.stale import stale
from windlass.engine.preemption.strategies import Preemptor
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.order import GangOrder
from windlass.engine.queueing.progress import Progress
from windlass.engine.queueing.shares import QueueShares
from windlass.model.actions import Evict, EvictionRule, Hold
from windlass.model.jobs import Gang, Task
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster
from windlass.state.snapshot import FailedSearch

FIRST_TRY_S = 60


class FailedSearches:
    """The searches that failed; an equal one is made again only after something changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[Hashable, int | None] = {}
        self._rests_on: object = None

    def as_things_stand(self, standing: QueueShares) -> dict[Hashable, int | None]:
        """The failures that would be failures again, and until when."""
        cluster = self._cluster
        rests_on = (cluster.running_version, standing.shares, standing.entitled, cluster.holds)
        if rests_on != self._rests_on:
            self._known, self._rests_on = {}, rests_on
        for alike, until in list(self._known.items()):
            if until is not None and until <= cluster.now:
                del self._known[alike]
        return self._known


def pass_two(
    draft: Draft, limits: Limits, standing: QueueShares, line: GangOrder, earlier: PreemptionResult
) -> PreemptionResult:
    """Make room for the gangs of a line, in its order; `earlier` is what was decided before.

    It runs twice: for those that lack their minimum, and, after all that can have grown, for those
    that would grow and could not.
    """
    with draft.aside():
        second = _Second(draft, limits, standing, earlier)
        second.run(line)
        found = second.found()
    holds = [hold for each in found.outcomes for hold in _holds(each, draft.cluster.now)]
    for each in (*(hold.gang for hold in holds), *(each.gang for each in found.gave_way())):
        draft.holds.drop(each)
    paid = (each for each in found.outcomes if each.lost or each.moved)
    draft.holds.give_way(claim for each in paid for claim in each.claims)
    draft.holds.add_all(holds)
    return found


class _Second:
    def __init__(
        self, draft: Draft, limits: Limits, standing: QueueShares, earlier: PreemptionResult
    ) -> None:
        cluster = draft.cluster
        self._draft, self._limits, self._standing = draft, limits, standing
        self._placer = Placer(draft, limits)
        self._displacer = Preemptor(draft, limits, ReclaimRules(cluster, standing))
        self._topologies = cluster.recall(Topologies)
        self._failures = cluster.recall(FailedSearches).as_things_stand(standing)
        self._found, self._grows = PreemptionResult(), earlier.grows
        self._left = cluster.settings.search_steps
        self._before = {each.gang: each for each in cluster.searched}
        self._until: int | None = None
        self._ready_at: int | None = None
        """When something may go that kept the last search from its end."""
        self._never: dict[Hashable, bool] = {}
        holds = draft.holds.standing.values()
        self._repaired = earlier.repaired
        self._held_before = {hold.gang for hold in holds if hold.firm}
        self._displacer.leaving |= self._held_before | earlier.decided | earlier.repaired
        if not earlier.grows:
            self._give_back(list(leaving(cluster, earlier.repaired)))
            late = overrun(cluster, earlier.repaired | self._displacer.leaving)
            self._give_back([(task, EvictionRule.OVERRUN) for task in late])
            # for whom others already make room is about to be repaired
            others = earlier.repaired | self._held_before | self._displacer.leaving
            self._give_back([(task, EvictionRule.STALE) for task in stale(cluster, others)])
        self._leave = [cluster.tasks[each.task] for each in earlier.evictions]
        stays = needless(draft)
        self._leave += [task for task in cluster.coming_free() if task.gang not in stays]
        self._frees = bool(self._leave or self._found.evictions)
        """Is anything on its way out?"""

    def run(self, line: GangOrder) -> None:
        """Seek room for the gangs of a line."""
        due = {each.gang.id for each in line.gangs if self._is_due(each.gang)}
        if not due and not self._frees:
            return
        if all(each.gang.id in self._displacer.leaving for each in line.gangs):
            return
        self._release(self._leave)  # from here on they are gone
        while (progress := line.next()) is not None:
            gang = progress.gang.id
            if gang in self._displacer.leaving:
                continue
            outcome = self._later(progress)
            if outcome is not None and self._grows:
                self._forget(outcome)  # it grows by itself as soon as there is room
                continue
            if outcome is None and gang in due and self._has_budget():
                began = self._draft.steps
                outcome = self._search(progress)
                self._left -= self._draft.steps - began
                if outcome is None:
                    self._found.searched[gang] = self._in_vain(progress)
            if outcome is not None:
                self._keep(outcome)
                line.placed(progress)

    def found(self) -> PreemptionResult:
        """What was decided for all lines."""
        found = self._found
        found.wake_at = self._until
        found.decided = self._displacer.leaving - self._held_before - self._repaired
        return found

    def _is_due(self, gang: Gang) -> bool:
        """Is it time to search for the gang?"""
        now = self._draft.cluster.now
        if gang.id in self._displacer.leaving:
            if self._grows and gang.id in self._repaired:
                self._again(now + 1)  # it has just grown, and would still grow
            return False
        if gang.displaces_after_s is None or not self._draft.cluster.settings.displacing:
            return False
        if self._draft.cluster.gains.has_lost(gang.id):
            return False
        ready = gang.created_at + gang.displaces_after_s
        if ready > now:
            self._again(ready)
            return False
        before = self._before.get(gang.id)
        again = now if before is None else self._searched_again_at(gang, before)
        if before is not None and again > now:
            self._found.searched[gang.id] = before
            self._again(again)
        return again <= now

    def _searched_again_at(self, gang: Gang, before: FailedSearch) -> int:
        """The longer a gang has waited, the later; but what it is promised comes when it can."""
        settings, at = self._draft.cluster.settings, before.at
        least, epoch = settings.search_again_s, settings.epoch_s
        again = at + min(max(least, (at - gang.created_at) // 4), 10 * least)
        if least:
            again = -(-again // epoch) * epoch  # with all others that are due about then
        return again if before.ready_at is None else min(again, before.ready_at)

    def _in_vain(self, progress: Progress) -> FailedSearch:
        """A search that failed; within a guarantee it is made again once something may go."""
        gang, cluster = progress.gang, self._draft.cluster
        after = cluster.allocated(gang.queue, GPU) + self._limits.need(progress.counts).get(GPU, 0)
        is_guaranteed = after <= self._standing.guarantees[gang.queue].get(GPU, 0)
        return FailedSearch(gang.id, cluster.now, self._ready_at if is_guaranteed else None)

    def _has_budget(self) -> bool:
        """May this cycle search on? Else the next one will."""
        if self._left <= 0:
            self._again(self._draft.cluster.now + 1)
        return self._left > 0

    def _again(self, at: int | None) -> None:
        """Time alone may change an answer then."""
        if at is not None:
            self._until = at if self._until is None else min(self._until, at)

    def _give_back(self, tasks: list[tuple[Task, EvictionRule]]) -> None:
        for task, rule in tasks:
            self._found.evictions.append(Evict(task.id, rule))
            self._displacer.leaving.add(task.gang)
        self._release([task for task, _ in tasks])

    def _release(self, tasks: list[Task]) -> None:
        if tasks:
            self._draft.begin()
            self._draft.release_all(tasks)

    def _later(self, progress: Progress) -> SearchOutcome | None:
        """Does the gang fit once everything on its way out is gone?"""
        mark = len(self._draft.binds)
        if not self._frees or not self._placer.start(progress):
            return None
        return SearchOutcome(progress, self._draft.claims(mark))

    def _forget(self, outcome: SearchOutcome) -> None:
        self._draft.unbind(len(self._draft.binds) - len(outcome.claims))

    def _search(self, progress: Progress) -> SearchOutcome | None:
        gang, cluster = progress.gang, self._draft.cluster
        reach = self._displacer.ranks.reach(gang)
        self._again(self._displacer.ranks.better_at(gang))
        alike = (gang.queue, gang.priority, reach, gang.is_firm, self._grows, progress.signature)
        self._draft.steps += 1
        self._ready_at = self._failures.get(alike)
        if alike in self._failures:
            self._again(self._ready_at)
            return None
        if self._hopeless(progress):
            return None
        outcome = self._displacer.search(progress, self._grows)
        if outcome is None:
            self._ready_at = until = self._displacer.protected_until()
            self._again(until)
            self._again(self._displacer.patient_until)
            if self._displacer.too_dear:
                self._again(_next_try(gang.created_at, cluster.now))
            elif self._displacer.patient_until is None:
                self._failures[alike] = until
        return outcome

    def _hopeless(self, progress: Progress) -> bool:
        need = self._limits.need(progress.counts)
        if self._limits.never(progress.gang, need) is not None:
            return True
        known = self._never.get(progress.signature)
        if known is None:
            reason = bounds.never(self._draft.index, self._topologies, progress)
            known = self._never[progress.signature] = reason is not None
        return known

    def _keep(self, outcome: SearchOutcome) -> None:
        draft, gainer = self._draft, outcome.progress.gang.id
        claimed = len(outcome.claims) + sum(len(claims) for _, claims in outcome.moved)
        if draft.neighbours.tallies:
            self._displacer.promise(draft.binds[len(draft.binds) - claimed :])
        del draft.binds[len(draft.binds) - claimed :]
        self._found.outcomes.append(outcome)
        self._found.searched.pop(gainer, None)
        self._frees = True
        self._displacer.leaving.add(gainer)
        if outcome.gave_way:
            self._again(draft.cluster.now + 1)  # its places may be free already
        for unit, _ in (*outcome.lost, *outcome.moved):
            self._displacer.leaving.add(unit.gang.id)
        for unit, rule in outcome.lost:
            self._found.evictions += [Evict(task.id, rule, gainer) for task in unit.tasks]
        for unit, claims in outcome.moved:
            goes = {claim.task: claim.node for claim in claims}
            self._found.evictions += [
                Evict(task.id, EvictionRule.CONSOLIDATE, gainer, goes[task.id])
                for task in unit.tasks
            ]


def _next_try(created_at: int, now: int) -> int:
    """When to ask again whether a move is worth its harm: each time the wait has doubled."""
    waited = FIRST_TRY_S
    while created_at + waited <= now:
        waited *= 2
    return created_at + waited


def _holds(outcome: SearchOutcome, now: int) -> list[Hold]:
    """The places of the gang that gains, and of those that move."""
    holds = [Hold(outcome.progress.gang.id, outcome.claims, now, firm=True)]
    return holds + [Hold(unit.gang.id, claims, now, firm=True) for unit, claims in outcome.moved]
