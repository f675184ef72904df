"""Making room for one gang, by the gentlest way there is: only moves; only what may be lost; both.

Sums rule ways out before anything is tried. Each of the others is one attempt (`search.py`), kept
or undone as a whole. What is guaranteed may also have the places that are held for borrowers
(`give_way.py`): before all else where nothing is lost by it, and after all else where it helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from windlass.engine.draft.draft import Draft
from windlass.engine.placement.place import Placer
from windlass.engine.preemption.displaceable import Displaceable
from windlass.engine.preemption.reclaim_rules import ReclaimRules, lacking
from windlass.engine.preemption.search import Search, SearchOutcome
from windlass.engine.preemption.soon import NEVER, room_at
from windlass.engine.preemption.victim_filter import SearchScope, VictimFilter
from windlass.engine.preemption.yield_holds import Borrowed, Borrowers
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.progress import Progress
from windlass.model.actions import Bind
from windlass.model.jobs import GangId, Task
from windlass.model.queues import GPU

MOST_HOLDS = 8
"""So many holds of borrowers are looked at for one gang: each costs a search."""
_NOTHING: dict[str, int] = {}


class Preemptor:
    """Searches on a draft; keeps nothing between searches but what can be displaced."""

    def __init__(self, draft: Draft, limits: Limits, rights: ReclaimRules) -> None:
        self._draft, self._limits, self._rights = draft, limits, rights
        self.leaving: set[GangId] = set()
        """Gangs about which this cycle has decided: given back, displaced, or with places kept."""
        self._displaceable = Displaceable(draft, rights, self.leaving)
        self._borrowers = Borrowers(draft)
        self._seeking: list[tuple[Task, str]] = []
        """Who was promised a place in this cycle, near others, and where."""
        self.too_dear = False
        """Did the last search find only ways that cost more than the wait has so far?"""
        self.patient_until: int | None = None
        """Until when it waits for a gentler way: others would lose far more than is needed."""

    @property
    def ranks(self) -> OrderLevels:
        """Where gangs stand in the order of their queue; equals may displace the same."""
        return self._rights.ranks

    def protected_until(self) -> int | None:
        """The next instant at which something that is protected now is so no longer."""
        return self._displaceable.protected_until()

    def promise(self, places: Iterable[Bind]) -> None:
        """From now on nobody may go whom these must be near."""
        for bind in places:
            task = self._draft.cluster.tasks[bind.task]
            constraints = task.shape.constraints
            if constraints.near or any(each.required for each in constraints.spread):
                self._seeking.append((task, bind.node))

    def search(self, progress: Progress, grows: bool) -> SearchOutcome | None:
        """Room for what the gang lacks, by the gentlest way there is.

        Whoever only grows takes nothing from others but what they have grown by: all minimums come
        before anybody's growth.
        """
        self.too_dear, self.patient_until = False, None
        with self._draft.holds.lifted(progress.gang, displaces=True):
            permits = self._permits(progress, grows)
            ways = list(self._ways(permits))
        if not ways:
            return None
        self._draft.begin()
        return (
            self._past_holds(progress, permits, ())
            or self._try(progress, permits, ways)
            or self._past_holds(progress, permits, ways)
        )

    def _permits(self, progress: Progress, grows: bool) -> VictimFilter:
        gang, cluster, rights = progress.gang, self._draft.cluster, self._rights
        need = self._limits.need(progress.counts)
        target = {
            (queue, dimension): cluster.allocated(queue, dimension) + more
            for queue in cluster.accounts.path(gang.queue)
            for dimension, more in need.items()
        }
        short = lacking(self._draft.columns, need)
        case = rights.case(gang.queue, need, lambda q, d: target[q, d], short)
        return VictimFilter(rights, self.leaving, gang, need, short, grows, case, cluster.now)

    def _ways(self, permits: VictimFilter) -> Iterator[SearchScope]:
        """The ways that are not ruled out by sums: what is free, and what may be lost at most."""
        need, free = permits.need.get(GPU, 0), self._draft.columns.free_gpu()
        moves = self._rights.consolidates
        if moves and free >= need:
            yield SearchScope.MOVE
        if self._may_lose(permits, need - free):
            yield SearchScope.TAKE
            if moves:
                yield SearchScope.BOTH

    def _may_lose(self, permits: VictimFilter, enough: int) -> bool:
        """Do queues that may lose something hold enough that can be preempted?"""
        cluster, gang, need = self._draft.cluster, permits.gang, permits.need
        firm = cluster.accounts.firm

        def least(name: str, dimension: str) -> int:
            # even if the claimant's own branch gave up all it can
            return firm.get(name, _NOTHING).get(dimension, 0) + need[dimension]

        case = self._rights.case(gang.queue, need, least, permits.lacking)
        found = 0
        for name, loose in cluster.accounts.loose.items():
            if found >= enough:
                break
            if name == gang.queue:
                found += sum(milli for at, milli in loose.items() if at < gang.priority)
                if self._rights.ranks.stops:
                    found += self._rights.ranks.stoppable(gang, self._rights.min_run(name))
            elif case.against_now(name) is not None:
                found += sum(loose.values())
        return found >= enough

    def _past_holds(
        self, progress: Progress, permits: VictimFilter, ways: Sequence[SearchScope]
    ) -> SearchOutcome | None:
        """Room where places are held for borrowers, and as few of these as possible lose theirs.

        Without `ways` to displace others besides, only those holds count that are easily given up.
        """
        if permits.grows:
            return None
        held = self._borrowers.before(permits.case)[:MOST_HOLDS]
        if not ways:
            held = [each for each in held if each.is_easy(permits.need.get(GPU, 0))]
        best = self._without(held, progress, permits, ways) if held else None
        if best is None:
            return None
        for each in reversed(held):
            fewer = [other for other in held if other is not each]
            found = self._without(fewer, progress, permits, ways) if fewer else None
            if found is not None and found.harm() <= best.harm():
                held, best = fewer, found
        return self._without(held, progress, permits, ways, keeps=True)

    def _without(
        self,
        held: Sequence[Borrowed],
        progress: Progress,
        permits: VictimFilter,
        ways: Sequence[SearchScope],
        *,
        keeps: bool = False,
    ) -> SearchOutcome | None:
        """What comes of it if these holds are given up."""
        draft = self._draft
        with draft.attempt() as keep:
            gave_way = self._borrowers.give_up(held, permits.case)
            mark = len(draft.binds)
            if Placer(draft, self._limits).start(progress):
                found = SearchOutcome(progress, draft.claims(mark))
            else:
                found = self._try(progress, permits, ways) if ways else None
            if found is None:
                return None
            if keeps:
                keep()
            return replace(found, gave_way=gave_way)

    def _try(
        self, progress: Progress, permits: VictimFilter, ways: Sequence[SearchScope]
    ) -> SearchOutcome | None:
        with self._draft.holds.lifted(progress.gang):
            too_many = self._too_many(progress) if self.ranks.policy.weighs else NEVER
        for way in ways:
            permits.way, permits.modest = way, False
            outcome, until = self._attempt(progress, permits, too_many)
            if outcome is None and until is not None:
                # the least harm is far more than is needed: a set of the right size may go at once
                permits.modest = True
                outcome, _ = self._attempt(progress, permits, too_many)
            if outcome is not None:
                return outcome
            self.patient_until = self.patient_until or until
        return None

    def _attempt(
        self, progress: Progress, permits: VictimFilter, too_many: int
    ) -> tuple[SearchOutcome | None, int | None]:
        """What comes of one search; and until when to wait for a gentler way, if that is why."""
        draft, way = self._draft, permits.way
        looks_past = draft.holds.lifted(progress.gang, displaces=way is not SearchScope.MOVE)
        with looks_past, draft.attempt() as keep:
            search = Search(draft, self._limits, self._displaceable, progress, permits)
            outcome = search.attempt(self._seeking)
            self.too_dear |= search.too_dear
            if outcome is None or (way is SearchScope.BOTH and self._only_moves(outcome)):
                return None, search.patient_until
            if outcome.by_order() >= too_many:
                self.too_dear = True
                return None, None
            keep()
            return outcome, None

    def _only_moves(self, outcome: SearchOutcome) -> bool:
        """Does nobody lose anything, where that is no right to what was promised to others?"""
        return not outcome.lost and bool(self._draft.holds.in_the_way(outcome.progress.gang))

    def _too_many(self, progress: Progress) -> int:
        """So many others a gang does not stop for its place in line: it finds room soon enough.

        Each stop has its price in time. Within that it waits for what ends anyhow; and no longer
        than that, if others take the room: so it never pays more than twice.
        """
        gang, now = progress.gang, self._draft.cluster.now
        at = room_at(self._draft, Placer(self._draft, self._limits), progress, self.leaving)
        if at == NEVER:
            return NEVER
        price_s = max(self._rights.min_run(gang.queue), self._draft.cluster.settings.patience_s, 1)
        waited_s = now - gang.created_at - gang.served_s
        return max(-(-(at - now) // price_s), waited_s // price_s + 1)
