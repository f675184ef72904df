"""What would start a waiting gang now: the smallest change of each kind, each of them tried.

A change is applied to a copy of the cluster and planned for, like anything else that happens; only
what then starts is an answer, and one unit less of it does not. The copy is put back as it was
after each try, so that what the engine remembers about its nodes serves all of them.

For people, one gang at a time; no cycle uses it. The work is bounded by the number of plans made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from windlass.engine.cycle import plan
from windlass.engine.explain.delayed_reservations import delayed
from windlass.engine.explain.suggestions.catalog import (
    ChangeKind,
    Ladder,
    Ladders,
    SuggestedChange,
    WaitingGang,
    again,
)
from windlass.engine.explain.suggestions.job import OF_THE_JOB
from windlass.engine.explain.suggestions.placement import OF_THE_PLACE
from windlass.engine.explain.suggestions.surroundings import AROUND
from windlass.engine.nodes import bounds
from windlass.engine.nodes.node_index import NodeIndex
from windlass.engine.nodes.topology import Topologies
from windlass.engine.plan import Plan, Verdict
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import progress
from windlass.model.display_names import known_as
from windlass.model.events import Event, GangGone, GangSeen, QueueSeen, SettingsSeen, TaskSeen
from windlass.model.jobs import GangId
from windlass.model.validation.problems import listed
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

OWN: dict[ChangeKind, Ladders] = OF_THE_PLACE | OF_THE_JOB
"""Of the job itself: it has to be submitted again."""
KINDS: dict[ChangeKind, Ladders] = OWN | AROUND
SCANNED = 40
"""Up to this length a ladder is climbed rung by rung: more of a change is not always better."""
MOST_PLANS = 400
WORK = 400_000
"""Nodes and tasks looked at in all plans of one question: large clusters get fewer of them."""
LEAST_PLANS = 40
MOST_TOLD = 5
"""So many suggestions are told in words; the others are counted."""
MOST_NAMES = 4
"""So many gangs are named in a sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class SuggestedStart:
    """How a gang starts."""

    goes: tuple[GangId, ...] = ()
    """The gangs that are displaced for it, by right."""
    tasks: int = 0
    """How many tasks of theirs go first."""
    milli: int = 0
    """What these have, in thousandths of a GPU."""
    at_once: bool = True
    later: tuple[GangId, ...] = ()
    """The gangs that would start now without the change, and do not with it."""
    delays: tuple[GangId, ...] = ()
    """The gangs with a reservation that may not be kept then."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that starts the gang, by the engine's own word."""

    change: SuggestedChange
    start: SuggestedStart

    def __str__(self) -> str:
        start, says = self.start, self.change.says
        told = f"it would start at once {says}" if start.at_once else f"it would start {says}"
        if start.goes:
            tasks = "1 task" if start.tasks == 1 else f"{start.tasks} tasks"
            have = "has" if start.tasks == 1 else "have"
            told += f", once {tasks} of {listed(map(known_as, start.goes), MOST_NAMES)} {have} gone"
        elif not start.at_once:
            told += ", once what is on its way out has gone"
        if start.later:
            told += f"; {listed(map(known_as, start.later), MOST_NAMES)} would then start later"
        if start.delays:
            late = listed(map(known_as, start.delays), MOST_NAMES)
            told += f"; {late} may then start later than reserved"
        return told


@dataclass(frozen=True, slots=True)
class Suggested:
    """The answer: what would start a gang, the smallest change first.

    Small is what gives up little, or gives little to it, and takes little from others.
    """

    suggestions: tuple[Suggestion, ...] = ()
    complete: bool = True
    """Was everything tried?"""
    plans: int = 0
    """How many plans were made to find out."""
    needed: bool = True
    """Does it need a change at all? Not if it starts anyway, or is kept out of the line."""

    def sentences(self) -> list[str]:
        """What people are told, the same everywhere."""
        if not self.needed:
            return []
        told = [str(each) for each in self.suggestions[:MOST_TOLD]]
        if len(self.suggestions) > MOST_TOLD:
            told.append(f"{len(self.suggestions) - MOST_TOLD} other changes would start it as well")
        if not told:
            told.append("no single change that was tried would start it now")
        if not self.complete:
            told.append("in so large a cluster not every change was tried")
        return told


def suggest(
    snapshot: Snapshot,
    gang: GangId,
    *,
    queues: Collection[str] | None = None,
    most_plans: int | None = None,
) -> Suggested:
    """What would start a gang that waits now; nothing if it starts anyway.

    `queues` are those that it may stand in, if not all.
    """
    size = len(snapshot.nodes) + len(snapshot.tasks)
    most = min(MOST_PLANS, max(LEAST_PLANS, WORK // max(1, size)))
    return _Question(snapshot, gang, queues, most_plans or most).answer()


class _Spent(Exception):
    """The budget is used up."""


class _Question:
    """One gang, and a copy of the cluster to try things on."""

    def __init__(
        self, snapshot: Snapshot, gang: GangId, queues: Collection[str] | None, most: int
    ) -> None:
        # who is changed is looked at afresh, however lately room was sought for it in vain
        searched = tuple(each for each in snapshot.searched if each.gang != gang)
        self._cluster = cluster = Cluster.of(replace(snapshot, searched=searched))
        self._gang, self._left, self._most = gang, most, most
        self._base = self._planned()
        found, limits = progress(cluster, gang), Limits(cluster)
        leaves = {name for name in cluster.queues if cluster.is_leaf(name)}
        open_to = leaves if queues is None else leaves & set(queues)
        need = limits.need(found.counts)
        self._asked = WaitingGang(cluster, found, need, sorted(open_to))

    def answer(self) -> Suggested:
        if self._asked.gang.refusal is not None or self._start(self._base) is not None:
            return Suggested(plans=1, needed=False)
        found: list[Suggestion] = []
        complete = True
        try:
            for kind in self._kinds():
                best = self._best(kind)
                if best is not None:
                    found.append(best)
        except _Spent:
            complete = False
        found.sort(key=lambda each: each.change.size + each.start.milli)
        return Suggested(tuple(found), complete, self._most - self._left)

    def _kinds(self) -> Iterator[ChangeKind]:
        """The kinds worth trying, those of the job first."""
        asked, gang = self._asked, self._asked.gang
        # a job that runs in part is not submitted again for what it lost
        if not asked.progress.started and self._tried(again(asked)) is None:
            yield from OWN
        if not asked.progress.short and self._cluster.is_leaf(gang.queue):
            yield from AROUND

    def _best(self, kind: ChangeKind) -> Suggestion | None:
        """The smallest change of a kind that starts the gang."""
        best: Suggestion | None = None
        for ladder in KINDS[kind](self._asked):
            if best is not None and ladder.rung(1).size >= best.change.size:
                continue
            found = self._climb(ladder)
            if found is not None and (best is None or found.change.size < best.change.size):
                best = found
        return best

    def _climb(self, ladder: Ladder) -> Suggestion | None:
        if ladder.length <= SCANNED:
            rungs = map(ladder.rung, range(1, ladder.length + 1))
            return next((each for rung in rungs if (each := self._suggestion(rung))), None)
        return self._between(ladder)

    def _between(self, ladder: Ladder) -> Suggestion | None:
        """By halves: somewhere between nothing and what starts it, a rung that is the first."""
        for top in dict.fromkeys((ladder.guess or ladder.length, ladder.length)):
            best = self._suggestion(ladder.rung(top))
            low, high = 0, top
            while best is not None and high - low > 1:
                middle = (low + high) // 2
                found = self._suggestion(ladder.rung(middle))
                if found is None:
                    low = middle
                else:
                    best, high = found, middle
            if best is not None:
                return best
        return None

    def _suggestion(self, change: SuggestedChange) -> Suggestion | None:
        start = self._tried(change.events)
        return None if start is None else Suggestion(change, start)

    def _tried(self, events: tuple[Event, ...]) -> SuggestedStart | None:
        """How the gang starts after these events; the cluster is left as it was."""
        cluster = self._cluster
        undo = tuple(_back(cluster, events))
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
        """Do sums rule out that it ever starts like this? That needs no plan."""
        cluster = self._cluster
        found, limits = progress(cluster, self._gang), Limits(cluster)
        if found.short or not found.parts:
            return True
        if limits.never(found.gang, limits.need(found.counts)) is not None:
            return True
        index, topologies = cluster.recall(NodeIndex), cluster.recall(Topologies)
        return bounds.never(index, topologies, found) is not None

    def _planned(self) -> Plan:
        if self._left <= 0:
            raise _Spent
        self._left -= 1
        found = plan(self._cluster)
        # it is not carried out, so searches that failed after its evictions may not fail without
        self._cluster.running_version += 1
        return found

    def _start(self, found: Plan) -> SuggestedStart | None:
        placed, held = _starting(found)
        if self._gang not in placed and self._gang not in held:
            return None
        placed_before, held_before = _starting(self._base)
        lost = (placed_before | held_before) - placed - held - {self._gang}
        later = tuple(gang for gang in sorted(lost) if gang in self._cluster.gangs)
        tasks = self._cluster.tasks
        mine = [tasks[each.task] for each in found.going if each.gainer == self._gang]
        goes = tuple(dict.fromkeys(task.gang for task in mine))
        milli = sum(part.milli for task in mine for part in task.devices)
        delays = tuple(delayed(self._cluster, self._gang, self._base, found))
        return SuggestedStart(goes, len(mine), milli, self._gang in placed, later, delays)


def _starting(found: Plan) -> tuple[set[GangId], set[GangId]]:
    """The gangs that are bound by a plan, and those for which places are being freed."""
    placed = {each.gang for each in found.decisions if each.verdict is Verdict.PLACED}
    return placed, {hold.gang for hold in found.holds if hold.firm}


def _back(cluster: Cluster, events: tuple[Event, ...]) -> Iterator[Event]:
    """What undoes events: everything that they are about, as it is now."""
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
                pass  # seen again after it was gone: undone with that
