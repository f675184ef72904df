"""Making room for one gang in the gentlest way: only moves, then only evictions, then both.

Each of these three is a *scope* (`SearchScope`): it says what may happen to victims. Sums of GPUs
rule out some scopes before anything is tried; each of the others is one attempt (`search.py`), kept
or undone as a whole. A gang within its guarantee may also take places that are held for borrowers
(`yield_holds.py`): first those that are easily given up, and all others if no scope succeeds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from windlass.engine.draft import Draft
from windlass.engine.placement import Placer
from windlass.engine.preemption.reclaim_memo import ReclaimRules
from windlass.engine.preemption.reclaim_rules import lacking
from windlass.engine.preemption.search import NO_WAY, Search, SearchOutcome, SearchResult
from windlass.engine.preemption.victim_filter import RoomRequest, SearchScope, VictimFilter
from windlass.engine.preemption.victim_index import CycleVictims
from windlass.engine.preemption.yield_holds import BorrowedHold, BorrowedHolds
from windlass.engine.queueing import Limits, OrderLevels, Progress
from windlass.model.actions import Bind
from windlass.model.jobs import ACTIVE, GangId, Task
from windlass.model.queues import GPU

MOST_HOLDS = 8
"""The number of borrowers' holds that are considered for one gang: each costs a search."""
NEVER = 1 << 60
_NOTHING: dict[str, int] = {}


class Preemptor:
    """Makes room for gangs on one draft, one after the other.

    From one gang to the next it keeps only the index of possible victims, the decided gangs and the
    promised places; everything about one gang is in the `SearchResult`.
    """

    def __init__(self, draft: Draft, limits: Limits, rules: ReclaimRules) -> None:
        self._draft, self._limits, self._rules = draft, limits, rules
        self.decided: set[GangId] = set()
        """Gangs about which this cycle has decided: they are evicted or moved, or have places held.
        They cannot become victims any more. Callers add to the set between searches."""
        self._victims = CycleVictims(draft, rules, self.decided)
        self._borrowers = BorrowedHolds(draft)
        self._seeking: list[tuple[Task, str]] = []
        """Tasks with pod affinity or required spread that were promised a node in this cycle, with
        the node."""

    @property
    def levels(self) -> OrderLevels:
        """The order levels of all gangs; gangs of equal level may preempt the same gangs by
        order."""
        return self._rules.levels

    def protected_until(self) -> int | None:
        """Return the next instant at which a unit loses its protection; None if no unit is
        protected."""
        return self._victims.protected_until()

    def promise(self, binds: Iterable[Bind]) -> None:
        """Note binds that become holds; later searches must not evict tasks that these must be
        near."""
        for bind in binds:
            task = self._draft.cluster.tasks[bind.task]
            constraints = task.shape.constraints
            if constraints.near or any(spread.required for spread in constraints.spread):
                self._seeking.append((task, bind.node))

    def find_room(self, progress: Progress, grows: bool) -> SearchResult:
        """Make room for the tasks that a gang lacks, in the gentlest way; keep the result on the
        draft.

        A gang that only `grows` has its minimum already: it may take only elastic tasks of others,
        because all minimums come before any growth. Without an outcome the draft is as it was.
        """
        with self._draft.holds.lifted(progress.gang, displaces=True):
            request = self._request(progress, grows)
            scopes = list(self._scopes(request))
        if not scopes:
            return NO_WAY
        self._draft.begin()
        result = self._past_holds(progress, request, ())
        if result.outcome is None:
            result = result.then(self._try_scopes(progress, request, scopes))
        if result.outcome is None:
            result = result.then(self._past_holds(progress, request, scopes))
        return result

    def _request(self, progress: Progress, grows: bool) -> RoomRequest:
        gang, cluster = progress.gang, self._draft.cluster
        need = self._limits.need(progress.counts)
        # taken now: the claim outlives the changes that attempts make to the accounts
        target = {
            (queue, dimension): cluster.allocated(queue, dimension) + more
            for queue in cluster.accounts.path(gang.queue)
            for dimension, more in need.items()
        }
        short = lacking(self._draft.columns, need)
        claim = self._rules.claim_of(gang.queue, need, lambda q, d: target[q, d], short)
        return RoomRequest(gang, need, short, grows, claim)

    def _scopes(self, request: RoomRequest) -> Iterator[SearchScope]:
        """Yield the scopes that sums do not rule out, the gentlest first."""
        need, free = request.need.get(GPU, 0), self._draft.columns.free_gpu()
        moves = self._rules.consolidates
        if moves and free >= need:
            yield SearchScope.MOVE
        if self._could_evict(request, need - free):
            yield SearchScope.TAKE
            if moves:
                yield SearchScope.BOTH

    def _could_evict(self, request: RoomRequest, enough: int) -> bool:
        """Return whether all possible victims together hold `enough` thousandths of GPUs.

        This is an upper bound. The claimant's queues are judged as if they held only their firm
        part, which other queues cannot reclaim, and the new gang.
        """
        cluster, gang, need = self._draft.cluster, request.gang, request.need
        firm, levels = cluster.accounts.firm, self._rules.levels

        def least(queue: str, dimension: str) -> int:
            return firm.get(queue, _NOTHING).get(dimension, 0) + need[dimension]

        claim = self._rules.claim_of(gang.queue, need, least, request.lacking)
        total = 0
        for queue, preemptible in cluster.accounts.loose.items():
            if total >= enough:
                break
            if queue == gang.queue:
                total += sum(milli for at, milli in preemptible.items() if at < gang.priority)
                if levels.preempts_by_order:
                    total += levels.preemptible_milli(gang, self._rules.min_run(queue))
            elif claim.widest_rule(queue) is not None:
                total += sum(preemptible.values())
        return total >= enough

    # -- without giving up holds

    def _try_scopes(
        self, progress: Progress, request: RoomRequest, scopes: Sequence[SearchScope]
    ) -> SearchResult:
        """Try the scopes in turn; stop at the first that gives an outcome, and keep it on the
        draft."""
        with self._draft.holds.lifted(progress.gang):
            too_many = self._too_many_stops(progress) if self.levels.policy.weighs else NEVER
        result = NO_WAY
        for scope in scopes:
            result = result.then(self._try_scope(progress, request, scope, too_many))
            if result.outcome is not None:
                break
        return result

    def _try_scope(
        self, progress: Progress, request: RoomRequest, scope: SearchScope, too_many: int
    ) -> SearchResult:
        now = self._draft.cluster.now
        permits = VictimFilter(self._rules, self.decided, request, now, scope)
        result = self._attempt(progress, permits, too_many)
        if result.wait_until is None:
            return result
        # the least harm is far more than is needed: victims of the right size may go at once
        modest = self._attempt(progress, replace(permits, modest=True), too_many)
        if modest.outcome is not None:
            return modest
        return replace(result, too_costly=modest.too_costly)

    def _attempt(self, progress: Progress, permits: VictimFilter, too_many: int) -> SearchResult:
        """Make one search; keep its outcome on the draft, unless it stops too many gangs by
        order."""
        draft, scope = self._draft, permits.scope
        looks_past = draft.holds.lifted(progress.gang, displaces=scope is not SearchScope.MOVE)
        with looks_past, draft.attempt() as keep:
            search = Search(draft, self._limits, self._victims, progress, permits)
            result = search.attempt(self._seeking)
            outcome = result.outcome
            if outcome is None:
                return result
            if scope is SearchScope.BOTH and self._only_moves_into_reservations(outcome):
                return NO_WAY
            if outcome.by_order() >= too_many:
                return SearchResult(too_costly=True)
            keep()
            return result

    def _only_moves_into_reservations(self, outcome: SearchOutcome) -> bool:
        """Return whether the outcome only moves gangs, while places are reserved against the
        preemptor.

        Only a gang that evicts others by a rule may use such places.
        """
        return not outcome.lost and bool(
            self._draft.holds.reservations_against(outcome.progress.gang)
        )

    def _too_many_stops(self, progress: Progress) -> int:
        """Return the number of gangs from which on it is too costly to stop gangs by order.

        Each stopped gang has a price in seconds. The gang may stop as many gangs as cost less than
        the wait for work that ends anyhow, or as its wait so far has paid for: so it never pays
        more than twice. `NEVER` if no end of work would make room.
        """
        gang, now = progress.gang, self._draft.cluster.now
        at = room_at(self._draft, Placer(self._draft, self._limits), progress, self.decided)
        if at == NEVER:
            return NEVER
        price_s = max(self._rules.min_run(gang.queue), self._draft.cluster.settings.patience_s, 1)
        waited_s = now - gang.created_at - gang.served_s
        return max(-(-(at - now) // price_s), waited_s // price_s + 1)

    # -- with holds given up

    def _past_holds(
        self, progress: Progress, request: RoomRequest, scopes: Sequence[SearchScope]
    ) -> SearchResult:
        """Make room by giving up holds of borrowers, as few as possible.

        `scopes` say how gangs may be displaced besides. If it is empty, no gang is displaced, and
        only holds that are easily given up are considered.
        """
        if request.grows:
            return NO_WAY
        held = self._borrowers.candidates(request.claim)[:MOST_HOLDS]
        if not scopes:
            held = [hold for hold in held if hold.is_easy(request.need.get(GPU, 0))]
        if not held:
            return NO_WAY
        total = self._without(held, progress, request, scopes)
        best = total.outcome
        if best is None:
            return total
        for hold in reversed(held):
            fewer = [other for other in held if other is not hold]
            if not fewer:
                continue
            result = self._without(fewer, progress, request, scopes)
            total = total.then(result)
            if result.outcome is not None and result.outcome.harm() <= best.harm():
                held, best = fewer, result.outcome
        return total.then(self._without(held, progress, request, scopes, keeps=True))

    def _without(
        self,
        held: Sequence[BorrowedHold],
        progress: Progress,
        request: RoomRequest,
        scopes: Sequence[SearchScope],
        *,
        keeps: bool = False,
    ) -> SearchResult:
        """Search with these holds given up; keep the outcome on the draft only if `keeps` is
        True."""
        draft = self._draft
        with draft.attempt() as keep:
            gave_way = self._borrowers.give_up(held, request.claim)
            mark = len(draft.binds)
            if Placer(draft, self._limits).start(progress):
                result = SearchResult(SearchOutcome(progress, draft.claims(mark)))
            else:
                result = self._try_scopes(progress, request, scopes) if scopes else NO_WAY
            if result.outcome is None:
                return result
            if keeps:
                keep()
            return replace(result, outcome=replace(result.outcome, gave_way=gave_way))


def room_at(draft: Draft, placer: Placer, progress: Progress, decided: Collection[GangId]) -> int:
    """Return the instant at which enough running work will have ended for the gang; else `NEVER`.

    The ends are estimates. Other gangs may take the room first; this is not considered. Work of
    `decided` gangs does not count, since its room is free already or promised.
    """
    ends = [
        (at, gang)
        for at, gang in draft.cluster.recall(OrderLevels).expected_ends()
        if gang not in decided
    ]
    low, high = 1, len(ends)
    if not ends or not _fits_without(draft, placer, progress, ends):
        return NEVER
    while low < high:  # binary search for the first end after which the gang fits
        middle = (low + high) // 2
        if _fits_without(draft, placer, progress, ends[:middle]):
            high = middle
        else:
            low = middle + 1
    return ends[low - 1][0]


def _fits_without(
    draft: Draft, placer: Placer, progress: Progress, ended: Sequence[tuple[int, GangId]]
) -> bool:
    """Return whether the gang fits when the gangs in `ended` have ended; the draft is left as it
    was."""
    members = draft.cluster.members
    with draft.attempt():
        draft.release_all(
            task for _, gang in ended for task in members(gang) if task.state in ACTIVE
        )
        return placer.place(progress.gang, progress.parts, progress.nodes, {})
