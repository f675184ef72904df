"""Suggestions for a waiting gang: the smallest change of each kind that would start it now.

Each change is tried: its events are applied to a copy of the cluster and a plan is made. It is
suggested only if the gang then starts, and one unit less of the change does not start it. The copy
is restored after each try, so that what the engine caches about its nodes serves all tries.

For people, one gang at a time; no cycle uses it. The work is bounded by the number of plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from windlass.engine.cycle import plan
from windlass.engine.nodes import NodeIndex, Topologies, bounds
from windlass.engine.plan import Plan, Verdict
from windlass.engine.queueing import Limits, gang_progress
from windlass.engine.suggestions.catalog import (
    ChangeKind,
    Ladder,
    Ladders,
    SuggestedChange,
    WaitingGang,
    resubmitted,
)
from windlass.engine.suggestions.delayed_reservations import delayed_reservations
from windlass.engine.suggestions.job import JOB_CHANGES
from windlass.engine.suggestions.placement import PLACEMENT_CHANGES
from windlass.engine.suggestions.surroundings import SURROUNDING_CHANGES
from windlass.model.events import Event, GangGone, GangSeen, QueueSeen, SettingsSeen, TaskSeen
from windlass.model.jobs import GangId
from windlass.model.reasons import display_name
from windlass.model.validation import join_names
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

OWN: dict[ChangeKind, Ladders] = PLACEMENT_CHANGES | JOB_CHANGES
"""Changes of the job itself, which then has to be submitted again."""
KINDS: dict[ChangeKind, Ladders] = OWN | SURROUNDING_CHANGES
SCANNED = 40
"""The longest ladder that is tried rung by rung: more of a change is not always better. Longer ones
are searched by bisection."""
MOST_PLANS = 400
WORK = 400_000
"""The budget of a question: plans times (nodes + tasks), so that large clusters get fewer plans."""
LEAST_PLANS = 40
MOST_TOLD = 5
"""The number of suggestions that are written as sentences; the others are counted."""
MOST_NAMES = 4
"""The number of gangs that a sentence names; the others are counted."""


@dataclass(frozen=True, slots=True)
class SuggestedStart:
    """The way in which a gang starts after a change."""

    goes: tuple[GangId, ...] = ()
    """The victims that the gang may preempt then."""
    tasks: int = 0
    """The number of their tasks that are evicted first."""
    milli: int = 0
    """The thousandths of GPUs that these tasks have."""
    at_once: bool = True
    later: tuple[GangId, ...] = ()
    """The gangs that would start now without the change and do not with it."""
    delays: tuple[GangId, ...] = ()
    """The gangs whose reservation may be delayed."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that starts the gang, verified by a plan."""

    change: SuggestedChange
    start: SuggestedStart

    def __str__(self) -> str:
        start, says = self.start, self.change.says
        text = f"it would start at once {says}" if start.at_once else f"it would start {says}"
        if start.goes:
            tasks = "1 task" if start.tasks == 1 else f"{start.tasks} tasks"
            have = "has" if start.tasks == 1 else "have"
            victims = join_names(map(display_name, start.goes), MOST_NAMES)
            text += f", once {tasks} of {victims} {have} gone"
        elif not start.at_once:
            text += ", once what is on its way out has gone"
        if start.later:
            text += (
                f"; {join_names(map(display_name, start.later), MOST_NAMES)} would then start later"
            )
        if start.delays:
            late = join_names(map(display_name, start.delays), MOST_NAMES)
            text += f"; {late} may then start later than reserved"
        return text


@dataclass(frozen=True, slots=True)
class Suggestions:
    """All suggestions for a gang, the smallest change first.

    The size of a change is what the gang gives up or is given, and what its victims lose.
    """

    suggestions: tuple[Suggestion, ...] = ()
    complete: bool = True
    """False if the budget was used up before every change was tried."""
    plans: int = 0
    """The number of plans that were made."""
    needed: bool = True
    """False if the gang starts anyway, or is refused for a reason of its own."""

    def sentences(self) -> list[str]:
        """Return the suggestions as text for people, the same in every interface."""
        if not self.needed:
            return []
        lines = [str(suggestion) for suggestion in self.suggestions[:MOST_TOLD]]
        if len(self.suggestions) > MOST_TOLD:
            more = len(self.suggestions) - MOST_TOLD
            lines.append(f"{more} other changes would start it as well")
        if not lines:
            lines.append("no single change that was tried would start it now")
        if not self.complete:
            lines.append("in so large a cluster not every change was tried")
        return lines


def suggest(
    snapshot: Snapshot,
    gang: GangId,
    *,
    queues: Collection[str] | None = None,
    most_plans: int | None = None,
) -> Suggestions:
    """Return the changes that would start a waiting gang now; none if it starts anyway.

    `queues` are those that it may be submitted to, None for all; `most_plans` replaces the budget.
    """
    size = len(snapshot.nodes) + len(snapshot.tasks)
    most = min(MOST_PLANS, max(LEAST_PLANS, WORK // max(1, size)))
    return _Question(snapshot, gang, queues, most_plans or most).answer()


class _BudgetSpent(Exception):
    """The budget of plans is used up."""


class _Question:
    """One gang, and a copy of the cluster to try changes on."""

    def __init__(
        self, snapshot: Snapshot, gang: GangId, queues: Collection[str] | None, most: int
    ) -> None:
        # A changed gang is searched room for at once, however recently a search for it failed.
        searched = tuple(failed for failed in snapshot.searched if failed.gang != gang)
        self._cluster = cluster = Cluster.of(replace(snapshot, searched=searched))
        self._gang, self._left, self._most = gang, most, most
        self._base = self._planned()
        waiting, limits = gang_progress(cluster, gang), Limits(cluster)
        leaves = {name for name in cluster.queues if cluster.is_leaf(name)}
        open_to = leaves if queues is None else leaves & set(queues)
        need = limits.need(waiting.counts)
        self._waiting = WaitingGang(cluster, waiting, need, sorted(open_to))

    def answer(self) -> Suggestions:
        """Return the best suggestion of each kind, the smallest first."""
        if self._waiting.gang.refusal is not None or self._start(self._base) is not None:
            return Suggestions(plans=1, needed=False)
        suggestions: list[Suggestion] = []
        complete = True
        try:
            for kind in self._kinds():
                best = self._best(kind)
                if best is not None:
                    suggestions.append(best)
        except _BudgetSpent:
            complete = False
        suggestions.sort(key=lambda each: each.change.size + each.start.milli)
        return Suggestions(tuple(suggestions), complete, self._most - self._left)

    def _kinds(self) -> Iterator[ChangeKind]:
        """Yield the kinds of change worth trying, those of the job first."""
        waiting, gang = self._waiting, self._waiting.gang
        # A gang that runs in part is not submitted again for the members that it lost. And if
        # submitting it again unchanged would start it, no change of the job is the cause.
        if not waiting.progress.started and self._try(resubmitted(waiting)) is None:
            yield from OWN
        if not waiting.progress.short and self._cluster.is_leaf(gang.queue):
            yield from SURROUNDING_CHANGES

    def _best(self, kind: ChangeKind) -> Suggestion | None:
        """Return the smallest change of a kind that starts the gang; None if none does."""
        best: Suggestion | None = None
        for ladder in KINDS[kind](self._waiting):
            if best is not None and ladder.rung(1).size >= best.change.size:
                continue
            smallest = self._smallest(ladder)
            if smallest is not None and (best is None or smallest.change.size < best.change.size):
                best = smallest
        return best

    def _smallest(self, ladder: Ladder) -> Suggestion | None:
        """Return the lowest rung that starts the gang; None if none does."""
        if ladder.length <= SCANNED:
            rungs = map(ladder.rung, range(1, ladder.length + 1))
            return next((tried for rung in rungs if (tried := self._suggestion(rung))), None)
        return self._bisect(ladder)

    def _bisect(self, ladder: Ladder) -> Suggestion | None:
        """Search by bisection for a rung that starts the gang while the one below does not.

        The search starts below the rung that sums suggest; if that fails, below the top.
        """
        for top in dict.fromkeys((ladder.guess or ladder.length, ladder.length)):
            best = self._suggestion(ladder.rung(top))
            low, high = 0, top
            while best is not None and high - low > 1:
                middle = (low + high) // 2
                tried = self._suggestion(ladder.rung(middle))
                if tried is None:
                    low = middle
                else:
                    best, high = tried, middle
            if best is not None:
                return best
        return None

    def _suggestion(self, change: SuggestedChange) -> Suggestion | None:
        start = self._try(change.events)
        return None if start is None else Suggestion(change, start)

    def _try(self, events: tuple[Event, ...]) -> SuggestedStart | None:
        """Return how the gang starts after these events; None if it does not.

        The cluster is restored: by opposite events, and by assignment of what events change on the
        side (holds, failed searches and the like).
        """
        cluster = self._cluster
        undo = tuple(_opposite(cluster, events))
        holds, broken, searched = dict(cluster.holds), dict(cluster.broken), cluster.searched
        orphaned = dict(cluster.orphaned)
        for event in events:
            cluster.apply(event)
        try:
            return None if self._is_hopeless() else self._start(self._planned())
        finally:
            for event in undo:
                cluster.apply(event)
            cluster.holds, cluster.broken, cluster.searched = holds, broken, searched
            cluster.orphaned = orphaned

    def _is_hopeless(self) -> bool:
        """Return whether sums prove that the gang never starts like this; that needs no plan."""
        cluster = self._cluster
        changed, limits = gang_progress(cluster, self._gang), Limits(cluster)
        if changed.short or not changed.parts:
            return True
        if limits.why_never(changed.gang, limits.need(changed.counts)) is not None:
            return True
        index, topologies = cluster.recall(NodeIndex), cluster.recall(Topologies)
        return bounds.why_never(index, topologies, changed) is not None

    def _planned(self) -> Plan:
        """Return a plan for the copy as it is now; raise `_BudgetSpent` if none is left."""
        if self._left <= 0:
            raise _BudgetSpent
        self._left -= 1
        made = plan(self._cluster)
        # The plan is not carried out: searches that failed after its evictions may succeed without
        # them. A new version makes the engine forget those failures.
        self._cluster.running_version += 1
        return made

    def _start(self, made: Plan) -> SuggestedStart | None:
        """Return how the gang starts by a plan; None if it does not."""
        placed, held = _starting(made)
        if self._gang not in placed and self._gang not in held:
            return None
        placed_before, held_before = _starting(self._base)
        lost = (placed_before | held_before) - placed - held - {self._gang}
        later = tuple(gang for gang in sorted(lost) if gang in self._cluster.gangs)
        tasks = self._cluster.tasks
        victims = [tasks[evict.task] for evict in made.going if evict.gainer == self._gang]
        goes = tuple(dict.fromkeys(task.gang for task in victims))
        milli = sum(part.milli for task in victims for part in task.devices)
        delays = tuple(delayed_reservations(self._cluster, self._gang, self._base, made))
        return SuggestedStart(goes, len(victims), milli, self._gang in placed, later, delays)


def _starting(made: Plan) -> tuple[set[GangId], set[GangId]]:
    """Return the gangs that a plan binds, and those for which it frees places."""
    placed = {decision.gang for decision in made.decisions if decision.verdict is Verdict.PLACED}
    return placed, {hold.gang for hold in made.holds if hold.firm}


def _opposite(cluster: Cluster, events: tuple[Event, ...]) -> Iterator[Event]:
    """Yield events that undo the given ones: everything they are about, as it is now."""
    for event in events:
        match event:
            case GangGone(name):
                yield GangGone(name)
                yield GangSeen(cluster.gangs[name])
                yield from (TaskSeen(task) for task in tuple(cluster.members(name)))
            case QueueSeen(queue):
                yield QueueSeen(cluster.queues[queue.name])
            case SettingsSeen():
                yield SettingsSeen(cluster.settings)
            case _:
                pass  # a gang or task that follows its GangGone: undone with that
