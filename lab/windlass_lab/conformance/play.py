"""Playing a foreign scenario: once, or round after round until it rests.

A round is one cycle of ours. After it, bound tasks run, and evicted tasks are gone and wait again
under a new name, as their owner would recreate them; tasks that the scenario marks as stuck stay.
At least as many rounds are played as the scenario needs before its states should match; if the last
plan still did something, more follow until one does nothing, a few at most. The states must then
stay for as many rounds as the scenario says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.events import TaskGone, TaskSeen, TaskStarted
from windlass.model.jobs import OCCUPYING, Task, TaskId, TaskState
from windlass.state.cluster import Cluster
from windlass_lab.conformance import schema
from windlass_lab.conformance.laws import broken_laws, is_whole
from windlass_lab.conformance.schema import Doing, PlayMode, TaskStatus
from windlass_lab.conformance.translate import Translation, translate

PATIENCE = 8
"""The number of additional rounds, if the states do not rest by then."""
ROUND_S = 1

STATUSES = {
    TaskState.WAITING: TaskStatus.PENDING,
    TaskState.BOUND: TaskStatus.BINDING,
    TaskState.RUNNING: TaskStatus.RUNNING,
    TaskState.RELEASING: TaskStatus.RELEASING,
    TaskState.SUCCEEDED: TaskStatus.SUCCEEDED,
    TaskState.FAILED: TaskStatus.FAILED,
}


@dataclass(frozen=True, slots=True)
class ObservedTask:
    """The place and state of a task, in their words."""

    status: TaskStatus
    node: str = ""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The whole GPUs of a node that are free, and that are being freed."""

    idle: int
    releasing: int


@dataclass(frozen=True, slots=True)
class ForeignMoment:
    """All tasks by their names, and all nodes, at a comparison."""

    tasks: Mapping[str, ObservedTask]
    nodes: Mapping[str, Gpus]


@dataclass(slots=True)
class ForeignOutcome:
    """The outcome of a scenario."""

    moments: list[ForeignMoment] = field(default_factory=list[ForeignMoment])
    """One moment, or one at rest and one after each further round."""
    binds: int = 0
    evictions: int = 0
    pipelines: int = 0
    """The largest number in one round."""
    broken: list[str] = field(default_factory=list[str])


def play(scenario: schema.ForeignScenario) -> ForeignOutcome:
    """Play a scenario by its mode; raise Untranslatable if our model cannot express it."""
    stage = _Stage(scenario, translate(scenario))
    if scenario.mode is PlayMode.SINGLE_PASS:
        stage.played.moments.append(stage.planned(stage.decide()))
        return stage.played
    least, rounds, rests = scenario.rounds_until_match, 0, False
    while rounds < least or (not rests and rounds < least + PATIENCE):
        rests, rounds = not stage.round().actions, rounds + 1
    stage.played.moments.append(stage.moment())
    for _ in range(scenario.rounds_after_match):
        stage.round()
        stage.played.moments.append(stage.moment())
    return stage.played


class _Stage:
    """The cluster on which a scenario is played."""

    def __init__(self, scenario: schema.ForeignScenario, translation: Translation) -> None:
        self.played = ForeignOutcome()
        self._binds = Doing.ALLOCATE in scenario.actions
        self._cluster = Cluster.of(translation.snapshot)
        self._names = dict(translation.names)
        self._staying = {job.name for job in scenario.jobs if job.stays_releasing}
        self._stuck = {
            task.name
            for job in scenario.jobs
            for task in job.tasks
            if task.state is TaskStatus.STUCK
        }

    def round(self) -> Plan:
        """Run one cycle and its consequences."""
        done = self.decide()
        self._settle()
        self._cluster.advance(self._cluster.now + ROUND_S)
        return done

    def decide(self) -> Plan:
        """Run one cycle and assume its plan; the laws are checked on the way."""
        cluster, played = self._cluster, self.played
        whole = {
            gang: is_whole(each, cluster.members(gang)) for gang, each in cluster.gangs.items()
        }
        done = plan(cluster)
        cluster.assume(done)
        played.broken += broken_laws(cluster, done, whole)
        held = sum(len(hold.claims) for hold in done.holds if hold.firm)
        played.binds = max(played.binds, len(done.binds) if self._binds else 0)
        played.evictions = max(played.evictions, len(done.evictions))
        played.pipelines = max(played.pipelines, held)
        return done

    def planned(self, done: Plan) -> ForeignMoment:
        """Return the decisions of a pass, before anything has happened."""
        seen = dict(self.moment().tasks)
        for each in done.evictions:
            if each.moves_to:
                seen[self._names[each.task]] = ObservedTask(TaskStatus.PIPELINED, each.moves_to)
        for claim in (each for hold in done.holds if hold.firm for each in hold.claims):
            task = self._cluster.tasks.get(claim.task)
            if task is not None and task.state is TaskState.WAITING:
                seen[self._names[claim.task]] = ObservedTask(TaskStatus.PIPELINED, claim.node)
        return ForeignMoment(seen, self._gpus())

    def moment(self) -> ForeignMoment:
        """Return the current moment."""
        tasks = {self._names[each.id]: self._seen(each) for each in self._cluster.tasks.values()}
        return ForeignMoment(tasks, self._gpus())

    def _seen(self, task: Task) -> ObservedTask:
        if self._names[task.id] in self._stuck and task.state is TaskState.RELEASING:
            return ObservedTask(TaskStatus.STUCK, task.node)
        if task.state is TaskState.BOUND and not self._binds:
            # a pass that may not allocate leaves those for whom there is room to the one that may
            return ObservedTask(TaskStatus.PENDING)
        return ObservedTask(STATUSES[task.state], task.node)

    def _gpus(self) -> dict[str, Gpus]:
        """Return the GPUs by node; a shared device is being freed only if all its tasks leave."""
        leaving: dict[str, dict[int, bool]] = {name: {} for name in self._cluster.nodes}
        for task in self._cluster.tasks.values():
            if task.state in OCCUPYING:
                leaves = self._seen(task).status is TaskStatus.RELEASING
                here = leaving[task.node]
                here |= {
                    each.device: here.get(each.device, True) and leaves for each in task.devices
                }
        return {
            name: Gpus(len(node.gpus) - len(leaving[name]), sum(leaving[name].values()))
            for name, node in self._cluster.nodes.items()
        }

    def _settle(self) -> None:
        """Let bound tasks run and evicted tasks go; their owner creates new ones."""
        for task in list(self._cluster.tasks.values()):
            if task.state is TaskState.BOUND:
                self._cluster.apply(TaskStarted(task.id))
            elif task.state is TaskState.RELEASING and not self._stays(task):
                self._cluster.apply(TaskGone(task.id))
                self._cluster.apply(TaskSeen(self._successor(task)))

    def _stays(self, task: Task) -> bool:
        return task.gang in self._staying or self._names[task.id] in self._stuck

    def _successor(self, task: Task) -> Task:
        stem, _, generation = task.id.rpartition(".")
        fresh = Task(TaskId(f"{stem}.{int(generation) + 1:04}"), task.gang, task.shape, task.group)
        self._names[fresh.id] = self._names.pop(task.id)
        return fresh
