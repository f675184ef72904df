"""A recorded stretch as a workload, so that it can be played under another policy.

Taken as recorded: the gangs and their arrivals, run times, deletions by users, changes of nodes and
queues, the periods of checkpoints, the time that a requested checkpoint took, and the time that
evicted tasks took to terminate. Where the record has no answer: a gang that had not ended runs to
the end of the record (censored), a gang that never got a checkpoint request takes as long as it
may, tasks arrive together with their gang, and settings stay as given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from windlass.model import events
from windlass.model.actions import Action, Evict, Hold, HoldYielded
from windlass.model.events import Event
from windlass.model.jobs import OCCUPYING, Gang, GangId, Task, TaskId, TaskState
from windlass.sim.gang_run import whole_since
from windlass.sim.workload import Arrival, Before, NodeChange, Told, Workload
from windlass.state.cluster import Cluster
from windlass.state.snapshot import FailedSearch, Snapshot

Step: TypeAlias = Event | int | Sequence[Action]
"""An event, a move of the clock to a time, or the actions of a plan that was carried out."""

USUAL_GRACE_S = 10


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """The workload behind a record."""

    workload: Workload
    began: int
    """The second of the record at which the clock of the workload is at 0."""
    unfinished: int
    """The number of gangs whose end is not in the record."""
    settings_changed: int
    """The number of changes of settings in the record, which are not followed."""


def recorded(start: Snapshot, steps: Iterable[Step]) -> RecordedWork:
    """Return the workload behind a start and the steps that followed."""
    watch = _Watch(start)
    for step in steps:
        watch.follow(step)
    began = start.now - start.now % start.settings.epoch_s
    arrivals = [life.arrival(began) for life in watch.lives.values()]
    workload = Workload(
        nodes=start.nodes,
        queues=start.queues,
        arrivals=tuple(sorted(arrivals, key=lambda each: each.at)),
        topologies=start.topologies,
        node_changes=tuple(replace(each, at=each.at - began) for each in watch.nodes),
        told=tuple(replace(each, at=each.at - began) for each in watch.told),
        before=_before(start, began),
        # which nodes were kept out, and when, is told with the nodes
        settings=replace(start.settings, quarantine_after=0),
        until=watch.cluster.now - began,
    )
    unfinished = sum(life.is_censored for life in watch.lives.values())
    return RecordedWork(workload, began, unfinished, watch.settings_changed)


def _before(start: Snapshot, began: int) -> Before:
    return Before(
        usage=start.usage,
        epoch_usage=start.epoch_usage,
        holds=tuple(replace(each, starts_at=each.starts_at - began) for each in start.holds),
        searched=tuple(replace(each, at=each.at - began) for each in start.searched),
        partings=tuple(
            replace(each, asked_at=each.asked_at - began, deadline=each.deadline - began)
            for each in start.partings
        ),
    )


@dataclass(slots=True)
class _Life:
    """One gang as the record shows it."""

    gang: Gang
    at: int
    tasks: list[Task]
    missing: int = 0
    """The number of lost members that were not yet replaced: the next tasks are their replacements,
    not new members."""
    up_since: int | None = None
    saved_s: int = 0
    runs_s: int | None = None
    deleted_at: int | None = None
    fails_after_s: int | None = None
    saves_every_s: int | None = None
    saving_s: int | None = None
    was_asked: bool = False
    """True if its last checkpoint was requested."""
    terminates_s: int | None = None

    @property
    def is_censored(self) -> bool:
        return self.runs_s is None and self.deleted_at is None

    def arrival(self, began: int) -> Arrival:
        gang = replace(self.gang, created_at=self.gang.created_at - began, saved_at=None)
        return Arrival(
            at=self.at - began,
            gang=gang,
            tasks=tuple(_moved(each, began) for each in self.tasks),
            runs_s=self.runs_s,
            fails_after_s=self.fails_after_s,
            deleted_at=None if self.deleted_at is None else self.deleted_at - began,
            saves_every_s=self.saves_every_s,
            saving_s=gang.saves_within_s if self.saving_s is None else self.saving_s,
            terminates_s=USUAL_GRACE_S if self.terminates_s is None else self.terminates_s,
            submitted=min(gang.created_at, self.at - began),
        )


@dataclass(frozen=True, slots=True)
class _Carried:
    """A plan as far as a record has it; it has no holds."""

    actions: Sequence[Action]
    holds: tuple[Hold, ...] = ()
    searched: tuple[FailedSearch, ...] = ()
    gave_way: tuple[HoldYielded, ...] = ()


@dataclass(slots=True)
class _Watch:
    """Follows a record on a cluster of its own and notes the life of every gang."""

    start: Snapshot
    cluster: Cluster = field(init=False)
    lives: dict[GangId, _Life] = field(default_factory=dict[GangId, _Life])
    nodes: list[NodeChange] = field(default_factory=list[NodeChange])
    told: list[Told] = field(default_factory=list[Told])
    settings_changed: int = 0

    def __post_init__(self) -> None:
        self.cluster = Cluster.of(self.start)
        for gang in self.start.gangs:
            members = [each for each in self.cluster.members(gang.id) if _counts(each)]
            life = self.lives[gang.id] = _Life(gang, self.start.now, members)
            leaving = (each for each in members if each.state == TaskState.RELEASING)
            life.missing = sum(not self._works(each) for each in leaving)
            self._look(gang.id)
            if life.up_since is not None:
                life.up_since = whole_since(gang, members)

    def follow(self, step: Step) -> None:
        match step:
            case int():
                self.cluster.advance(step)
            case events.GangSeen(gang):
                self._see_gang(gang)
                self.cluster.apply(step)
            case events.GangGone(gang):
                self._end(gang)
                self.cluster.apply(step)
            case events.TaskSeen(task):
                self._see_task(task)
                self.cluster.apply(step)
                self._look(task.gang)
            case Sequence():
                self._carry_out(step)
            case _:
                self._follow_other(step)

    def _follow_other(self, event: Event) -> None:
        now = self.cluster.now
        match event:
            case events.NodeSeen(node):
                self.nodes.append(NodeChange(now, node.name, node))
            case events.NodeGone(name):
                self.nodes.append(NodeChange(now, name, None))
                for task in [each for each in self.cluster.running() if each.node == name]:
                    self._lose(task)
            case events.SettingsSeen():
                self.settings_changed += 1
            case events.QueueSeen() | events.QueueGone() | events.TopologySeen():
                self.told.append(Told(now, event))
            case events.TopologyGone():
                self.told.append(Told(now, event))
            case events.WorkEnded() | events.NodeTrusted():
                pass  # what failed is played again
            case _:
                self._follow_task(event)
                return
        self.cluster.apply(event)
        for gang in list(self.cluster.broken):
            self._look(gang)

    def _follow_task(self, event: Event) -> None:
        task = self.cluster.tasks.get(getattr(event, "task", TaskId("")))
        if task is None:
            return
        match event:
            case events.TaskEnded(_, succeeded):
                if not succeeded:
                    self._fail(task)
            case events.TaskGone():
                if task.state in OCCUPYING or task.state == TaskState.WAITING:
                    self._lose(task)
            case events.Answered():
                self._answer(task, event)
            case _:
                pass
        self.cluster.apply(event)
        self._look(task.gang)

    def _answer(self, task: Task, answered: events.Answered) -> None:
        parting = self.cluster.partings.standing.get(task.gang)
        if parting is not None and parting.id == answered.id:
            self.lives[task.gang].saving_s = self.cluster.now - parting.asked_at

    def _carry_out(self, actions: Sequence[Action]) -> None:
        self.cluster.assume(_Carried(actions))
        for each in actions:
            if isinstance(each, Evict):
                self._look(self.cluster.tasks[each.task].gang)

    def _see_gang(self, gang: Gang) -> None:
        before, life = self.cluster.gangs.get(gang.id), self.lives.get(gang.id)
        if before is None or life is None:
            self.lives[gang.id] = _Life(gang, self.cluster.now, [])
        elif gang.saved_at is not None and gang.saved_at != before.saved_at:
            self._save(life, before, gang.saved_at)

    def _save(self, life: _Life, before: Gang, saved_at: int) -> None:
        """Learn the period of checkpoints, unless this checkpoint was requested."""
        was_asked, life.was_asked = life.was_asked, before.id in self.cluster.partings.standing
        last = life.up_since if before.saved_at is None or was_asked else before.saved_at
        is_usual = not life.was_asked and (not was_asked or life.saves_every_s is None)
        if is_usual and last is not None and saved_at > last:
            life.saves_every_s = saved_at - last

    def _see_task(self, task: Task) -> None:
        before, life = self.cluster.tasks.get(task.id), self.lives[task.gang]
        if before is None and life.missing:
            life.missing -= 1
        elif before is None:
            life.tasks.append(task)
        elif task.state == TaskState.FAILED and before.state != TaskState.FAILED:
            self._fail(before)

    def _fail(self, task: Task) -> None:
        life = self.lives[task.gang]
        is_first = bool(life.tasks) and life.tasks[0].id == task.id
        if is_first and life.up_since is not None and life.fails_after_s is None:
            life.fails_after_s = self.cluster.now - life.up_since
        life.missing += 1

    def _lose(self, task: Task) -> None:
        life = self.lives[task.gang]
        life.missing += 1
        is_asked = task.gang in self.cluster.partings.standing
        if task.releasing_since is not None and life.terminates_s is None and not is_asked:
            life.terminates_s = self.cluster.now - task.releasing_since

    def _look(self, gang_id: GangId) -> None:
        """Note whether the minimum of a gang runs, and whether its work is done."""
        gang, life, now = self.cluster.gangs[gang_id], self.lives[gang_id], self.cluster.now
        members = self.cluster.members(gang_id)
        done = [each for each in members if each.state == TaskState.SUCCEEDED]
        running = [each for each in members if self._works(each)]
        if not _is_enough(gang, [*done, *running]):
            if life.up_since is not None and life.runs_s is None:
                saved = gang.saved_at if gang.saved_at is not None else life.up_since
                life.saved_s += max(0, saved - life.up_since)
                life.up_since = None
        elif life.up_since is None:
            life.up_since = now
        if life.runs_s is None and life.up_since is not None and _is_enough(gang, done):
            life.runs_s = now - life.up_since + life.saved_s

    def _works(self, task: Task) -> bool:
        """Return whether a task works; a task with a checkpoint request works until it is
        evicted."""
        if task.state == TaskState.RELEASING:
            return task.gang in self.cluster.partings.standing
        return task.state == TaskState.RUNNING

    def _end(self, gang: GangId) -> None:
        life = self.lives.get(gang)
        if life is not None and life.runs_s is None and life.deleted_at is None:
            life.deleted_at = self.cluster.now


def _counts(task: Task) -> bool:
    return task.state != TaskState.FAILED


def _is_enough(gang: Gang, members: Iterable[Task]) -> bool:
    return gang.has_minimum(Counter(each.group for each in members))


def _moved(task: Task, began: int) -> Task:
    """Return the task with its times counted from the beginning. Assumed places are dropped."""
    if task.state not in OCCUPYING and task.state != TaskState.SUCCEEDED:
        return task.successor(task.id)
    return replace(
        task,
        started_at=None if task.started_at is None else task.started_at - began,
        releasing_since=None if task.releasing_since is None else task.releasing_since - began,
    )
