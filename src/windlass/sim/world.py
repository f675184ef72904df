"""The machines and processes that a scheduler's plans meet: what starts, ends, fails and is lost.

A member is one task on its way; when it is lost or evicted it is replaced by a new one (`name.r1`),
which waits. An evicted one keeps its devices while it terminates. Its gang works only while its
whole minimum runs:

    waits --all of the minimum run--> works --as many have succeeded as needed--> finished
      ^                                 |
      +--- a member of the minimum is lost or evicted: everybody starts over ---+

Starting over means from the last save, or from the beginning where nothing was saved; the time in
between is counted as lost. Tasks without an end (services) lose nothing but the time until they run
again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.engine.spare import Displaced
from windlass.model import events
from windlass.model.actions import Bind, Evict
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId
from windlass.model.nodes import Node
from windlass.sim.crew import Crew, Member, has_enough, is_up, is_whole
from windlass.sim.measure import Meter, worth
from windlass.sim.records import Note, Record, Stage, What
from windlass.sim.workload import Arrival, NodeChange
from windlass.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Starts:
    """A bound task comes up."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class Ends:
    """A task has done its work, unless its gang has started over since (`turn`)."""

    task: TaskId
    turn: int
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class Deletes:
    """A user deletes a gang."""

    gang: GangId


@dataclass(frozen=True, slots=True)
class Leaves:
    """An evicted task has terminated."""

    task: TaskId


NOTES = 50
"""How many of the latest notes are kept."""

Happening: TypeAlias = Arrival | NodeChange | Starts | Ends | Deletes | Leaves


class World:
    """What really happens; the cluster is told of it by events, as it would be anywhere."""

    def __init__(
        self, cluster: Cluster, meter: Meter, later: Callable[[int, Happening], None], start_s: int
    ) -> None:
        self.records: dict[GangId, Record] = {}
        self.away: dict[str, Node] = {}
        """Nodes that were there once and are gone."""
        self.notes: deque[Note] = deque(maxlen=NOTES)
        self._cluster = cluster
        self._meter = meter
        self._later = later
        self._start_s = start_s
        self._crews: dict[GangId, Crew] = {}
        self._displaced = Displaced()
        self._members: dict[TaskId, Member] = {}
        self._saves: list[tuple[int, GangId, int]] = []
        """When which gang saves its work next, and the stretch of work that this belongs to."""

    def happen(self, happening: Happening) -> None:
        """Let one thing happen now."""
        match happening:
            case Arrival():
                self._arrive(happening)
            case NodeChange():
                self._change_node(happening)
            case Starts(task):
                self._start(self._members[task])
            case Ends(task, _, succeeded):
                self._end(self._members[task], succeeded)
            case Deletes(gang):
                self._leave(self._crews[gang], Stage.DELETED)
            case Leaves(task):
                self._cluster.apply(events.TaskGone(task))
                self._replace(self._members[task])

    def is_stale(self, happening: Happening) -> bool:
        """Has it been overtaken: the task lost, the gang started over or gone?"""
        match happening:
            case Starts(task):
                return task not in self._members or self._members[task].terminates
            case Leaves(task):
                return task not in self._members
            case Ends(task, turn):
                return task not in self._members or self._members[task].turn != turn
            case Deletes(gang):
                return gang not in self._crews
            case _:
                return False

    def bind(self, bind: Bind) -> None:
        """Carry out a bind: the devices are taken now, the task comes up a little later."""
        member = self._members[bind.task]
        request = member.task.shape.request.gpu
        member.bind = bind
        member.asked = worth(request, self._cluster.nodes[bind.node], bind.devices)
        member.given = sum(each.milli for each in bind.devices)
        self._meter.take(bind.node, bind.devices)
        self._charge(member, 1)
        self._later(self._cluster.now + self._start_s, Starts(bind.task))

    def evict(self, evictions: Sequence[Evict]) -> None:
        """Carry out evictions: the tasks stop now, and are gone once they have terminated."""
        by_gang: dict[GangId, list[Evict]] = {}
        for each in evictions:
            gang = self._members[each.task].crew.record.gang.id
            by_gang.setdefault(gang, []).append(each)
        for gang, those in by_gang.items():
            self._displace(self._crews[gang], those)

    def tell_saves(self) -> None:
        """Let the cluster know what has been saved up to now.

        Asked for when the clock has moved: nobody needs to know between two instants.
        """
        now = self._cluster.now
        while self._saves and self._saves[0][0] <= now:
            _, gang, stretch = heapq.heappop(self._saves)
            crew = self._crews.get(gang)
            if crew and crew.works and crew.stretch == stretch:
                saved = replace(crew.record.gang, saved_at=crew.saved_at(now))
                self._cluster.apply(events.GangSeen(saved))
                self._await_save(crew)

    def tell_spared(self) -> None:
        """Let the cluster know which of those that were displaced are not to be displaced again."""
        for gang in self._displaced.changes(self._cluster):
            record = self._crews[gang.id].record
            record.gang = replace(record.gang, spared=gang.spared)
            self._cluster.apply(events.GangSeen(gang))

    def note(self, what: What, gang: GangId, nodes: tuple[str, ...] = (), tasks: int = 0) -> None:
        """Remember what became of a gang just now."""
        of = self.records[gang].gang
        self.notes.append(Note(self._cluster.now, what, gang, of.job, of.queue, tasks, nodes))

    def half_started(self) -> Iterator[Record]:
        """The gangs that hold GPUs without being able to work."""
        for crew in self._crews.values():
            if not crew.works and any(
                each.given and not each.terminates for each in crew.members.values()
            ):
                yield crew.record

    # -- gangs and tasks

    def _arrive(self, arrival: Arrival) -> None:
        gang = arrival.gang
        record = Record(gang, len(arrival.tasks), self._cluster.now)
        self.records[gang.id] = record
        crew = self._crews[gang.id] = Crew(arrival, record)
        self._cluster.apply(events.GangSeen(gang))
        for task in arrival.tasks:
            self._join(Member(task, crew, task.id))
        if arrival.deleted_at is not None:
            self._later(arrival.deleted_at, Deletes(gang.id))

    def _join(self, member: Member) -> None:
        self._members[member.task.id] = member
        member.crew.members[member.task.id] = member
        self._cluster.apply(events.TaskSeen(member.task))

    def _start(self, member: Member) -> None:
        member.runs = True
        self._cluster.apply(events.TaskStarted(member.task.id))
        crew = member.crew
        if crew.works:
            self._work(member)
        elif is_up(crew):
            self._begin(crew)

    def _begin(self, crew: Crew) -> None:
        crew.works = True
        crew.began = self._cluster.now
        crew.stretch += 1
        self._await_save(crew)
        crew.record.stage = Stage.RUNNING
        if crew.record.started is None:
            crew.record.started = self._cluster.now
        for member in crew.members.values():
            if member.runs:
                self._work(member)

    def _await_save(self, crew: Crew) -> None:
        every = crew.arrival.saves_every_s
        if every is not None:
            at = crew.saved_at(self._cluster.now) + every
            heapq.heappush(self._saves, (at, crew.record.gang.id, crew.stretch))

    def _work(self, member: Member) -> None:
        """Useful work begins; its end is known from here on."""
        crew, now = member.crew, self._cluster.now
        self._charge(member, -1)
        member.since = now
        self._charge(member, 1)
        runs_s, fails_s = crew.arrival.runs_s, crew.arrival.fails_after_s
        left_s = None if runs_s is None else runs_s - member.saved_s
        is_first = member.task.id == crew.arrival.tasks[0].id
        if is_first and fails_s is not None and (left_s is None or fails_s < left_s):
            self._later(now + fails_s, Ends(member.task.id, member.turn, succeeded=False))
        elif left_s is not None:
            self._later(now + left_s, Ends(member.task.id, member.turn))

    def _end(self, member: Member, succeeded: bool) -> None:
        self._cluster.apply(events.TaskEnded(member.task.id, succeeded))
        if not succeeded:
            self._cluster.apply(events.TaskGone(member.task.id))
            self._lose(member)
            return
        crew, group = member.crew, member.task.group
        self._release(member)
        crew.succeeded[group] = crew.succeeded.get(group, 0) + 1
        if has_enough(crew, crew.succeeded):
            self._leave(crew, Stage.FINISHED)

    def _lose(self, member: Member) -> None:
        """The task is gone already; its work is lost and a new one takes its place."""
        crew = member.crew
        if not member.terminates:
            crew.record.restarts += 1
            nodes = (member.bind.node,) if member.bind else ()
            self.note(What.LOST, crew.record.gang.id, nodes, 1)
        member.runs = False
        self._stop(member)
        if crew.works and not is_up(crew):
            self._halt(crew)
        self._replace(member)

    def _displace(self, crew: Crew, evictions: Sequence[Evict]) -> None:
        """Tasks of one gang are evicted; without its minimum all of it comes to a halt."""
        grace_s = crew.arrival.terminates_s
        for each in evictions:
            member = self._members[each.task]
            member.runs, member.terminates = False, True
            self._stop(member, displaced=True)
            if grace_s is not None:
                self._later(self._cluster.now + grace_s, Leaves(each.task))
        if crew.works and not is_up(crew):
            self._halt(crew, displaced=True)
        is_stopped = not is_whole(crew)
        crew.record.count(evictions, is_stopped)
        if is_stopped:
            self._displaced.note(crew.record.gang.id)
        self._note_evicted(crew, evictions)

    def _note_evicted(self, crew: Crew, evictions: Sequence[Evict]) -> None:
        of, first = crew.record.gang, evictions[0]
        what = What.MOVED if first.moves_to else What.EVICTED
        tasks = self._cluster.tasks
        nodes = dict.fromkeys(each.moves_to or tasks[each.task].node for each in evictions)
        note = Note(self._cluster.now, what, of.id, of.job, of.queue, len(evictions), tuple(nodes))
        self.notes.append(replace(note, rule=first.rule, gainer=first.gainer))

    def _replace(self, member: Member) -> None:
        """A task that is gone gives back its devices, and a new one waits in its place."""
        self._release(member)
        generation, saved_s = member.generation + 1, member.saved_s
        task = replace(member.task, id=TaskId(f"{member.first}.r{generation}"))
        self._join(Member(task, member.crew, member.first, generation, saved_s=saved_s))

    def _halt(self, crew: Crew, displaced: bool = False) -> None:
        for member in crew.members.values():
            self._stop(member, displaced)
        crew.works = False
        crew.record.stage = Stage.WAITING

    def _stop(self, member: Member, displaced: bool = False) -> None:
        """It works no longer; of what it did in this stretch, only what was saved remains."""
        now, crew = self._cluster.now, member.crew
        member.turn += 1
        if member.since is None:
            return
        saved_at = max(member.since, crew.saved_at(now))
        if crew.arrival.runs_s is not None:
            member.saved_s += saved_at - member.since
            spent = (now - saved_at) * member.asked
            self._meter.lose(crew.record.gang.queue, spent, displaced)
        self._charge(member, -1)
        member.since = None
        self._charge(member, 1)

    def _leave(self, crew: Crew, stage: Stage) -> None:
        for member in tuple(crew.members.values()):
            self._release(member)
        crew.record.stage = stage
        crew.record.ended = self._cluster.now
        self.note(What.FINISHED if stage is Stage.FINISHED else What.DELETED, crew.record.gang.id)
        del self._crews[crew.record.gang.id]
        self._displaced.forget(crew.record.gang.id)
        self._cluster.apply(events.GangGone(crew.record.gang.id))

    def _release(self, member: Member) -> None:
        del self._members[member.task.id]
        del member.crew.members[member.task.id]
        self._charge(member, -1)
        if member.bind and member.bind.node in self._cluster.nodes:
            self._meter.take(member.bind.node, member.bind.devices, -1)

    def _charge(self, member: Member, sign: int) -> None:
        """Count what a member holds among its queue's present tally, or no longer."""
        tally = self._meter.of(member.crew.record.gang.queue)
        tally.allocated += sign * member.given
        if member.since is not None:
            tally.useful += sign * member.asked
        else:
            tally.idle += sign * member.given

    # -- nodes

    def _change_node(self, change: NodeChange) -> None:
        if change.node is None:
            self._lose_node(change.name)
            return
        self.away.pop(change.name, None)
        self._cluster.apply(events.NodeSeen(change.node))
        self._meter.node_seen(change.node, self._given_of(change.name))

    def _given_of(self, node: str) -> Iterator[Slice]:
        for member in self._members.values():
            if member.bind and member.bind.node == node:
                yield from member.bind.devices

    def _lose_node(self, name: str) -> None:
        if name not in self._cluster.nodes:
            return
        self.away[name] = self._cluster.nodes[name]
        self._cluster.apply(events.NodeGone(name))
        self._meter.node_gone(name)
        there = [each for each in self._members.values() if each.bind and each.bind.node == name]
        for member in there:
            self._lose(member)
