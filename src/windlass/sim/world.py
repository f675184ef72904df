"""The simulated machines and processes on which plans are carried out: tasks start, end, fail and
are lost.

A member is one task. When it is lost or evicted, a new task replaces it (`name.r1`) and waits. An
evicted task keeps its devices while it terminates. A gang works only while its whole minimum runs:

    waits --the whole minimum runs--> works --enough tasks have succeeded--> finished
      ^                                 |
      +--- a member of the minimum is lost or evicted: all members restart ---+

A restart goes back to the last checkpoint, or to the beginning if there is none; the time in
between is counted as lost. Tasks without an end (services) lose only the time until they run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from windlass.controllers.quarantine import quarantine_changes
from windlass.engine.preemption import DisplacedGangs
from windlass.model import events
from windlass.model.actions import Bind, Evict, EvictionRule, PendingCheckpoint
from windlass.model.gpus import Slice
from windlass.model.jobs import OCCUPYING, GangId, Overrun, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.model.settings import Ordering
from windlass.sim.events import Deletes, EvictionCompletes, Happening, Saves, Starts, TaskEnds
from windlass.sim.gang_run import (
    Effort,
    GangRun,
    Member,
    NextSave,
    ends_in,
    is_up,
    is_whole,
    whole_since,
)
from windlass.sim.metrics import Meter
from windlass.sim.records import Diary, GangRecord, GangStage, What
from windlass.sim.workload import Arrival, NodeChange, Told
from windlass.state.cluster import Cluster


class SimulatedWorld:
    """The real course of events in a simulation; the cluster learns of it through events."""

    def __init__(
        self, cluster: Cluster, meter: Meter, later: Callable[[int, Happening], None], start_s: int
    ) -> None:
        self.records: dict[GangId, GangRecord] = {}
        self.away: dict[str, Node] = {}
        """The nodes that existed once and are gone, by name."""
        self.diary = Diary()
        self._cluster = cluster
        self._meter, self._effort = meter, Effort(meter)
        self._later = later
        self._start_s = start_s
        self._crews: dict[GangId, GangRun] = {}
        self._displaced = DisplacedGangs()
        self._members: dict[TaskId, Member] = {}
        self._breaking: set[str] = set()
        """The names of nodes on which every task fails."""
        self._saving = NextSave()

    def take_over(self, cluster: Cluster) -> None:
        """Send all events to another cluster from now on."""
        self._cluster = cluster

    @property
    def members(self) -> Mapping[TaskId, Member]:
        """Return the tasks that have not ended, in their real state."""
        return self._members

    def happen(self, happening: Happening) -> None:
        """Carry out one simulated event now."""
        match happening:
            case Arrival():
                self._arrive(happening)
            case NodeChange():
                self._change_node(happening)
            case Told(_, event):
                self._cluster.apply(event)
            case Starts(task):
                self._start(self._members[task])
            case TaskEnds(task, _, succeeded):
                self._end(self._members[task], succeeded)
            case Deletes(gang):
                self._leave(self._crews[gang], GangStage.DELETED)
            case EvictionCompletes(task):
                self._cluster.apply(events.TaskGone(task))
                self._go(self._members[task])
            case Saves(gang):
                self._save(self._crews[gang], happening)

    def is_stale(self, happening: Happening) -> bool:
        """Return whether an event is obsolete: its task is lost, or its gang restarted or
        is gone."""
        match happening:
            case Starts(task):
                return task not in self._members or self._members[task].terminates
            case EvictionCompletes(task):
                return task not in self._members
            case TaskEnds(task, turn):
                return task not in self._members or self._members[task].turn != turn
            case Deletes(gang):
                return gang not in self._crews
            case Saves(gang, _, _, stretch):
                crew = self._crews.get(gang)
                return crew is None or not crew.works or crew.stretch != stretch
            case _:
                return False

    def bind(self, bind: Bind) -> None:
        """Carry out a bind: the task takes its devices now and starts after a delay."""
        member = self._members[bind.task]
        self._effort.take(member, bind, self._cluster.nodes[bind.node])
        record, restart_s = member.crew.record, member.crew.arrival.restart_s
        delay = self._start_s + (restart_s if record.evictions + record.moves else 0)
        if delay:
            self._later(self._cluster.now + delay, Starts(bind.task))
        else:
            self._start(member)

    def evict(self, evictions: Sequence[Evict]) -> None:
        """Carry out evictions: the tasks stop now, and are gone after their termination time."""
        for gang, those in self._cluster.by_gang(evictions).items():
            self._displace(self._crews[gang], those)

    def ask(self, partings: Iterable[PendingCheckpoint]) -> None:
        """Deliver checkpoint requests. A gang that can save answers when it has saved, even if the
        request is obsolete by then."""
        for each in partings:
            crew = self._crews[each.gang]
            self.diary.tell_parted(self._cluster, crew.record.gang, each.evictions, is_asked=True)
            self._await_answer(crew, each)

    def _await_answer(self, crew: GangRun, parting: PendingCheckpoint) -> None:
        saving_s, asked_at = crew.arrival.saving_s, parting.asked_at
        if saving_s is not None:
            saves = Saves(parting.gang, parting.id, asked_at, crew.stretch)
            self._later(asked_at + saving_s, saves)

    def tell_saves(self) -> None:
        """Report to the cluster the checkpoints made until now.

        Called after the clock has moved, because no decision between two instants needs them.
        """
        now = self._cluster.now
        for crew in self._saving.due(now, self._crews):
            saved = replace(crew.record.gang, saved_at=crew.saved_at(now))
            self._cluster.apply(events.GangSeen(saved))

    def tell_spared(self) -> None:
        """Report to the cluster which displaced gangs have repeat protection now."""
        for gang in self._displaced.changes(self._cluster):
            record = self._crews[gang.id].record
            record.gang = replace(record.gang, spared=gang.spared, stops=gang.stops, home=gang.home)
            self._cluster.apply(events.GangSeen(gang))

    def quarantine(self) -> None:
        """Quarantine nodes on which gang after gang failed, and release others."""
        for node in quarantine_changes(self._cluster):
            if node.quarantine is None:
                self._cluster.apply(events.NodeTrusted(node.name, self._cluster.now))
            self._cluster.apply(events.NodeSeen(node))

    def pause_all(self) -> None:
        """Count the work of all members up to now. The simulation must not go on afterwards."""
        for member in self._members.values():
            self._effort.note(member, self._cluster.now)

    @property
    def ended(self) -> int:
        """The number of gangs that finished or were deleted."""
        return len(self.records) - len(self._crews)

    def half_started(self) -> Iterator[GangRecord]:
        """Yield the records of gangs that hold GPUs but cannot work."""
        for crew in self._crews.values():
            if not crew.works and any(
                each.given and not each.terminates for each in crew.members.values()
            ):
                yield crew.record

    # -- gangs and tasks

    def _arrive(self, arrival: Arrival) -> None:
        gang = arrival.gang
        since = self._cluster.now if arrival.submitted is None else arrival.submitted
        record = GangRecord(gang, len(arrival.tasks), since)
        self.records[gang.id] = record
        crew = self._crews[gang.id] = GangRun(arrival, record)
        self._cluster.apply(events.GangSeen(gang))
        for task in arrival.tasks:
            self._join(Member(task, crew, task.id))
        if any(task.state != TaskState.WAITING for task in arrival.tasks):
            self._find(crew)
        if arrival.deleted_at is not None:
            self._later(arrival.deleted_at, Deletes(gang.id))

    def _find(self, crew: GangRun) -> None:
        """Take over a gang that existed before the simulation: it keeps its places and its past
        work."""
        now, grace_s = self._cluster.now, crew.arrival.terminates_s
        asked = self._cluster.partings.standing.get(crew.record.gang.id)
        for member in tuple(crew.members.values()):
            task, state = member.task, member.task.state
            if state == TaskState.SUCCEEDED:
                crew.succeeded[task.group] = crew.succeeded.get(task.group, 0) + 1
                self._release(member)
                continue
            if state in OCCUPYING:
                bind = Bind(task.id, task.node, task.devices)
                self._effort.take(member, bind, self._cluster.nodes[task.node])
            member.task = task.successor(task.id)
            is_leaving = state == TaskState.RELEASING
            member.terminates = is_leaving and asked is None
            member.runs = state == TaskState.RUNNING or (is_leaving and asked is not None)
            if state == TaskState.BOUND:
                self._later(now + self._start_s, Starts(task.id))
            elif member.terminates and grace_s is not None:
                since = now if task.releasing_since is None else task.releasing_since
                self._later(since + grace_s, EvictionCompletes(task.id))
        if is_up(crew):
            self._begin(crew, whole_since(crew.record.gang, crew.arrival.tasks))
        if asked is not None:
            self._await_answer(crew, asked)

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

    def _begin(self, crew: GangRun, since: int | None = None) -> None:
        crew.works = True
        crew.began = self._cluster.now if since is None else since
        crew.stretch += 1
        self._saving.expect(crew, self._cluster.now)
        crew.record.stage = GangStage.RUNNING
        if crew.record.started is None:
            crew.record.started = crew.began
        for member in crew.members.values():
            if member.runs:
                self._work(member, crew.began)

    def _save(self, crew: GangRun, saves: Saves) -> None:
        """Mark the work until the request as saved. The time that saving took is lost if the gang
        is evicted now."""
        crew.asked_at = saves.asked_at
        gang = crew.record.gang = replace(crew.record.gang, saved_at=saves.asked_at)
        self._cluster.apply(events.GangSeen(gang))
        for member in crew.members.values():
            if member.runs:
                self._cluster.apply(events.Answered(member.task.id, saves.id))

    def _work(self, member: Member, since: int | None = None) -> None:
        """Start the useful work of a member, or note that it has started, and schedule its end."""
        now = self._cluster.now if since is None else since
        self._effort.work(member, now)
        is_broken = bool(member.bind) and member.bind.node in self._breaking
        left_s, succeeds = ends_in(member, is_broken)
        if left_s is not None:
            self._later(now + left_s, TaskEnds(member.task.id, member.turn, succeeds))

    def _end(self, member: Member, succeeded: bool) -> None:
        self._cluster.apply(events.TaskEnded(member.task.id, succeeded))
        if not succeeded:
            self._cluster.apply(events.TaskGone(member.task.id))
            self._lose(member)
            return
        crew, group = member.crew, member.task.group
        self._release(member)
        crew.succeeded[group] = crew.succeeded.get(group, 0) + 1
        if crew.record.gang.has_minimum(crew.succeeded):
            self._leave(crew, GangStage.FINISHED)

    def _lose(self, member: Member) -> None:
        """Count the work of a task that is gone as lost, and replace the task."""
        crew = member.crew
        if not member.terminates:
            crew.record.restarts += 1
            nodes = (member.bind.node,) if member.bind else ()
            self.diary.tell(self._cluster.now, What.LOST, crew.record.gang, nodes, 1)
        member.runs = False
        self._effort.stop(member, self._cluster.now, displaced=False)
        if crew.works and not is_up(crew):
            self._halt(crew)
        self._go(member)

    def _displace(self, crew: GangRun, evictions: Sequence[Evict]) -> None:
        """Evict tasks of one gang; without its minimum the whole gang stops."""
        grace_s = crew.arrival.terminates_s
        for each in evictions:
            member = self._members[each.task]
            member.runs, member.terminates = False, True
            self._effort.stop(member, self._cluster.now, displaced=True)
            if grace_s is not None:
                self._later(self._cluster.now + grace_s, EvictionCompletes(each.task))
        if crew.works and not is_up(crew):
            self._halt(crew, displaced=True)
        is_stopped, has_overrun = not is_whole(crew), evictions[0].rule is EvictionRule.OVERRUN
        crew.record.count(evictions, is_stopped)
        if has_overrun:
            self._overrun(crew)
        if is_stopped:
            # who loses nothing, or stops for its own sake, need not be spared
            if not crew.arrival.saves_when_stopped and not has_overrun:
                tasks = self._cluster.tasks
                nodes = (tasks[each.task].node for each in evictions)
                self._displaced.note(crew.record.gang.id, nodes)
            self._tell_served(crew)
        self.diary.tell_parted(self._cluster, crew.record.gang, evictions)

    def _overrun(self, crew: GangRun) -> None:
        """End a gang at its maximum run time, or queue it again as if it were submitted now."""
        gang = crew.record.gang
        if gang.overrun is Overrun.REQUEUE:
            gang = crew.record.gang = replace(gang, created_at=self._cluster.now)
            self._cluster.apply(events.GangSeen(gang))
            return
        crew.is_over = True
        for member in [each for each in crew.members.values() if each.bind is None]:
            self._cluster.apply(events.TaskGone(member.task.id))
            self._release(member)

    def _go(self, member: Member) -> None:
        """Replace a task that is gone, unless its gang is over."""
        crew = member.crew
        if not crew.is_over:
            self._replace(member)
            return
        self._release(member)
        if not crew.members:
            self._leave(crew, GangStage.OVERRAN)

    def _tell_served(self, crew: GangRun) -> None:
        """Report to the cluster how long the gang has worked, if the order depends on it."""
        if self._cluster.settings.order is not Ordering.FAIR and crew.stretch:
            record = crew.record
            served_s = record.gang.served_s + self._cluster.now - crew.began
            record.gang = replace(record.gang, served_s=served_s)
            self._cluster.apply(events.GangSeen(record.gang))

    def _replace(self, member: Member) -> None:
        """Return the devices of a task that is gone, and add a waiting task in its place."""
        self._release(member)
        generation, saved_s = member.generation + 1, member.saved_s
        task = replace(member.task, id=TaskId(f"{member.first}.r{generation}"))
        self._join(Member(task, member.crew, member.first, generation, saved_s=saved_s))

    def _halt(self, crew: GangRun, displaced: bool = False) -> None:
        for member in crew.members.values():
            self._effort.stop(member, self._cluster.now, displaced)
        crew.works = False
        crew.record.stage = GangStage.WAITING

    def _leave(self, crew: GangRun, stage: GangStage) -> None:
        for member in tuple(crew.members.values()):
            self._release(member)
        crew.record.stage = stage
        crew.record.ended = self._cluster.now
        self.diary.tell_end(self._cluster.now, crew.record.gang, stage)
        del self._crews[crew.record.gang.id]
        self._displaced.forget(crew.record.gang.id)
        self._cluster.apply(events.GangGone(crew.record.gang.id))

    def _release(self, member: Member) -> None:
        del self._members[member.task.id]
        del member.crew.members[member.task.id]
        is_there = member.bind is not None and member.bind.node in self._cluster.nodes
        self._effort.give_back(member, self._cluster.now, is_there)

    # -- nodes

    def _change_node(self, change: NodeChange) -> None:
        if change.node is None:
            self._lose_node(change.name)
            return
        self.away.pop(change.name, None)
        (self._breaking.add if change.breaks else self._breaking.discard)(change.name)
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
