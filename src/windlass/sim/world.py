"""The machines and processes that a scheduler's binds meet: what starts, ends, fails and is lost.

A member is one task on its way; when it is lost it is replaced by a new one (`name.r1`). Its gang
works only while its whole minimum runs:

    waits --all of the minimum run--> works --as many have succeeded as needed--> finished
      ^                                 |
      +------ a member of the minimum is lost: everybody starts over ------+

Starting over is what training without a checkpoint does; the time spent is counted as lost. Tasks
without an end (services) lose nothing but the time until they run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from windlass.model import events
from windlass.model.actions import Bind
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, Task, TaskId
from windlass.model.nodes import Node
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


NOTES = 50
"""How many of the latest notes are kept."""

Happening: TypeAlias = Arrival | NodeChange | Starts | Ends | Deletes


@dataclass(slots=True)
class _Member:
    """A task that has not ended: as submitted, and where it is now."""

    task: Task
    crew: _Crew
    first: TaskId
    generation: int = 0
    bind: Bind | None = None
    runs: bool = False
    since: int | None = None
    """Since when it does useful work."""
    turn: int = 0
    asked: int = 0
    given: int = 0


def _no_members() -> dict[TaskId, _Member]:
    return {}


def _no_counts() -> dict[str, int]:
    return {}


@dataclass(slots=True)
class _Crew:
    """A gang that has not ended, with its members."""

    arrival: Arrival
    record: Record
    members: dict[TaskId, _Member] = field(default_factory=_no_members)
    succeeded: dict[str, int] = field(default_factory=_no_counts)
    works: bool = False


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
        self._crews: dict[GangId, _Crew] = {}
        self._members: dict[TaskId, _Member] = {}

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

    def is_stale(self, happening: Happening) -> bool:
        """Has it been overtaken: the task lost, the gang started over or gone?"""
        match happening:
            case Starts(task):
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

    def note(self, what: What, gang: GangId, nodes: tuple[str, ...] = (), tasks: int = 0) -> None:
        """Remember what became of a gang just now."""
        of = self.records[gang].gang
        self.notes.append(Note(self._cluster.now, what, gang, of.job, of.queue, tasks, nodes))

    def half_started(self) -> Iterator[Record]:
        """The gangs that hold GPUs without being able to work."""
        for crew in self._crews.values():
            if not crew.works and any(each.given for each in crew.members.values()):
                yield crew.record

    # -- gangs and tasks

    def _arrive(self, arrival: Arrival) -> None:
        gang = arrival.gang
        record = Record(gang, len(arrival.tasks), self._cluster.now)
        self.records[gang.id] = record
        crew = self._crews[gang.id] = _Crew(arrival, record)
        self._cluster.apply(events.GangSeen(gang))
        for task in arrival.tasks:
            self._join(_Member(task, crew, task.id))
        if arrival.deleted_at is not None:
            self._later(arrival.deleted_at, Deletes(gang.id))

    def _join(self, member: _Member) -> None:
        self._members[member.task.id] = member
        member.crew.members[member.task.id] = member
        self._cluster.apply(events.TaskSeen(member.task))

    def _start(self, member: _Member) -> None:
        member.runs = True
        self._cluster.apply(events.TaskStarted(member.task.id))
        crew = member.crew
        if crew.works:
            self._work(member)
        elif _is_up(crew):
            self._begin(crew)

    def _begin(self, crew: _Crew) -> None:
        crew.works = True
        crew.record.stage = Stage.RUNNING
        if crew.record.started is None:
            crew.record.started = self._cluster.now
        for member in crew.members.values():
            if member.runs:
                self._work(member)

    def _work(self, member: _Member) -> None:
        """Useful work begins; its end is known from here on."""
        crew, now = member.crew, self._cluster.now
        self._charge(member, -1)
        member.since = now
        self._charge(member, 1)
        runs_s, fails_s = crew.arrival.runs_s, crew.arrival.fails_after_s
        is_first = member.task.id == crew.arrival.tasks[0].id
        if is_first and fails_s is not None and (runs_s is None or fails_s < runs_s):
            self._later(now + fails_s, Ends(member.task.id, member.turn, succeeded=False))
        elif runs_s is not None:
            self._later(now + runs_s, Ends(member.task.id, member.turn))

    def _end(self, member: _Member, succeeded: bool) -> None:
        self._cluster.apply(events.TaskEnded(member.task.id, succeeded))
        if not succeeded:
            self._cluster.apply(events.TaskGone(member.task.id))
            self._lose(member)
            return
        crew, group = member.crew, member.task.group
        self._release(member)
        crew.succeeded[group] = crew.succeeded.get(group, 0) + 1
        if _has_enough(crew, crew.succeeded):
            self._leave(crew, Stage.FINISHED)

    def _lose(self, member: _Member) -> None:
        """The task is gone already; its work is lost and a new one takes its place."""
        crew = member.crew
        crew.record.restarts += 1
        self.note(What.LOST, crew.record.gang.id, (member.bind.node,) if member.bind else (), 1)
        self._undo(member)
        self._release(member)
        if crew.works and not _is_up(crew):
            self._halt(crew)
        generation = member.generation + 1
        name = TaskId(f"{member.first}.r{generation}")
        self._join(_Member(replace(member.task, id=name), crew, member.first, generation))

    def _halt(self, crew: _Crew) -> None:
        crew.works = False
        crew.record.stage = Stage.WAITING
        for member in crew.members.values():
            self._undo(member)
            self._charge(member, -1)
            member.since = None
            member.turn += 1
            self._charge(member, 1)

    def _undo(self, member: _Member) -> None:
        if member.since is not None and member.crew.arrival.runs_s is not None:
            spent = (self._cluster.now - member.since) * member.asked
            self._meter.lose(member.crew.record.gang.queue, spent)

    def _leave(self, crew: _Crew, stage: Stage) -> None:
        for member in tuple(crew.members.values()):
            self._release(member)
        crew.record.stage = stage
        crew.record.ended = self._cluster.now
        self.note(What.FINISHED if stage is Stage.FINISHED else What.DELETED, crew.record.gang.id)
        del self._crews[crew.record.gang.id]
        self._cluster.apply(events.GangGone(crew.record.gang.id))

    def _release(self, member: _Member) -> None:
        del self._members[member.task.id]
        del member.crew.members[member.task.id]
        self._charge(member, -1)
        if member.bind and member.bind.node in self._cluster.nodes:
            self._meter.take(member.bind.node, member.bind.devices, -1)

    def _charge(self, member: _Member, sign: int) -> None:
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


def _is_up(crew: _Crew) -> bool:
    """Does the whole minimum run, or has run?"""
    there = dict(crew.succeeded)
    for member in crew.members.values():
        if member.runs:
            there[member.task.group] = there.get(member.task.group, 0) + 1
    return _has_enough(crew, there)


def _has_enough(crew: _Crew, there: dict[str, int]) -> bool:
    gang = crew.record.gang
    if sum(there.values()) < gang.needed():
        return False
    return all(there.get(group.name, 0) >= group.minimum for group in gang.groups)
