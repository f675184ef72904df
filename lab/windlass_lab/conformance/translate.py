"""A foreign scenario as a snapshot of ours.

Features that we have and they do not (usage over time, reservations, a minimum time between
exchanges) are turned off. Queues, devices and trees of groups: `queues.py`, `devices.py`,
`podsets.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, gcd

from windlass.model.actions import Hold, PlaceClaim
from windlass.model.constraints import HOSTNAME, Constraints, Expression, Operator
from windlass.model.gpus import WHOLE
from windlass.model.jobs import Gang, GangId, JobId, Shape, Task, TaskId, TaskState
from windlass.model.nodes import Node, Topology
from windlass.model.queues import CPU, GPU, MEMORY
from windlass.model.resources import Request
from windlass.model.settings import Displacing, Settings
from windlass.state.snapshot import BelowMinimum, Snapshot
from windlass_lab.conformance import schema
from windlass_lab.conformance.devices import Shelf, Untranslatable, asked_by, cards_of
from windlass_lab.conformance.podsets import PodsetGroups, domain_of, parts_of
from windlass_lab.conformance.queues import queues_of
from windlass_lab.conformance.schema import Doing, TaskStatus

NOW = 2_000_000_000
FAR_S = 1_000_000_000
"""A time in seconds that is longer than any scenario."""
RAN_S = 60
"""The run time in seconds of running tasks."""
GRACE_S = {schema.PlayMode.SINGLE_PASS: 60, schema.PlayMode.FULL_CYCLE: 0}
"""The seconds for which a gang may run below its minimum: the corpus plays its rounds without any
grace."""

DISPLACING = {
    Doing.CONSOLIDATE: Displacing.CONSOLIDATE,
    Doing.RECLAIM: Displacing.RECLAIM,
    Doing.PREEMPT: Displacing.PREEMPT,
}
STATES = {
    TaskStatus.PENDING: TaskState.WAITING,
    TaskStatus.PIPELINED: TaskState.WAITING,
    TaskStatus.BINDING: TaskState.BOUND,
    TaskStatus.RUNNING: TaskState.RUNNING,
    TaskStatus.RELEASING: TaskState.RELEASING,
    TaskStatus.STUCK: TaskState.RELEASING,
    TaskStatus.SUCCEEDED: TaskState.SUCCEEDED,
    TaskStatus.FAILED: TaskState.FAILED,
}
PLACED = (TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.STUCK)
_RELEASING_SINCE = {TaskStatus.RELEASING: NOW, TaskStatus.STUCK: NOW - FAR_S}
_NOWHERE = Expression(HOSTNAME, Operator.DOES_NOT_EXIST)


@dataclass(frozen=True, slots=True)
class Translation:
    """A scenario in our words, and the way back."""

    snapshot: Snapshot
    names: Mapping[TaskId, str]
    """Their name of every task."""


def translate(scenario: schema.ForeignScenario) -> Translation:
    """Return the scenario as a snapshot; raise Untranslatable if our model cannot express it."""
    world = _World(scenario)
    gangs: list[Gang] = []
    tasks: list[Task] = []
    names: dict[TaskId, str] = {}
    for job in scenario.jobs:
        parts = parts_of(job)
        gangs.append(_gang(job, parts, scenario.actions))
        for rank, task in enumerate(sorted(job.tasks, key=lambda each: -each.task_priority)):
            # the engine takes tasks in the order of their ids, equally long ones by the alphabet
            id_ = TaskId(f"{job.name}/{rank:05}.0000")
            names[id_] = task.name
            tasks.append(world.task(id_, job, task, parts.of(task)))
    stale = [job for job in scenario.jobs if job.stale_for_s is not None]
    snapshot = Snapshot(
        now=NOW,
        nodes=tuple(world.nodes.values()),
        topologies=tuple(Topology(each.name, tuple(each.levels)) for each in scenario.topologies),
        queues=queues_of(scenario.queues, world.capacity(), world.unit),
        gangs=tuple(gangs),
        tasks=tuple(tasks),
        holds=world.holds(),
        broken=tuple(BelowMinimum(GangId(each.name), NOW - _s(each.stale_for_s)) for each in stale),
        settings=_settings(scenario),
    )
    return Translation(snapshot, names)


def _settings(scenario: schema.ForeignScenario) -> Settings:
    return Settings(
        usage_effect=0,
        reserve_after_s=FAR_S,
        displacing=_displacing(scenario.actions),
        min_run_s=0,
        dwell_s=0,
        patience_s=0,
        stale_after_s=GRACE_S[scenario.mode],
        search_steps=FAR_S,
        search_again_s=0,
    )


def _displacing(actions: list[Doing]) -> tuple[Displacing, ...]:
    """Return the listed actions; a preemptor may also move a victim instead of evicting it."""
    listed = {DISPLACING[each] for each in actions if each in DISPLACING}
    if listed:
        listed.add(Displacing.CONSOLIDATE)
    return tuple(each for each in Displacing if each in listed)


def _gang(job: schema.ForeignJob, parts: PodsetGroups, actions: list[Doing]) -> Gang:
    grace, delay = job.staleness_grace_s, job.preemption_delay_s
    stale_after_s = None if grace is None else ceil(grace)
    return Gang(
        GangId(job.name),
        job.queue,
        JobId(job.name),
        parts.groups,
        domain=domain_of(job.gang.topology),
        priority=job.priority,
        preemptible=job.preemptible,
        created_at=NOW - round(60 * job.age_minutes),
        displaces_after_s=None if delay is not None and delay < 0 else _s(delay),
        stale_after_s=stale_after_s if Doing.STALE in actions else -1,
    )


def _s(seconds: float | None) -> int:
    return ceil(seconds or 0)


class _World:
    """The nodes, the unit of memory, and the allocated devices."""

    def __init__(self, scenario: schema.ForeignScenario) -> None:
        self.unit = _memory_unit(scenario)
        spoilt = {
            task.node
            for job in scenario.jobs
            for task in job.tasks
            if task.legacy_mig and task.state in PLACED
        }
        self.nodes = {each.name: self._node(each, each.name in spoilt) for each in scenario.nodes}
        self._shelves = {name: Shelf(node.gpus) for name, node in self.nodes.items()}
        self._claims: dict[GangId, list[PlaceClaim]] = {}

    def _node(self, node: schema.ForeignNode, is_spoilt: bool) -> Node:
        return Node(
            node.name,
            cpu_milli=round(node.cpu * 1000),
            memory_mib=int(node.memory) // self.unit,
            pods=node.max_pods,
            gpus=cards_of(node, is_spoilt),
            extra=dict(sorted(node.mig_instances.items())),
            labels={HOSTNAME: node.name} | node.labels,
        )

    def capacity(self) -> dict[str, int]:
        """Return the capacity of the cluster, per dimension."""
        nodes = self.nodes.values()
        return {
            GPU: sum(WHOLE * len(node.gpus) for node in nodes),
            CPU: sum(node.cpu_milli for node in nodes),
            MEMORY: sum(node.memory_mib for node in nodes),
        }

    def task(
        self, id_: TaskId, job: schema.ForeignJob, task: schema.ForeignTask, group: str
    ) -> Task:
        """Return a task; a running one has its devices, a held one has a claim."""
        request = Request(
            cpu_milli=round(job.request.cpu * 1000),
            memory_mib=-(-int(job.request.memory) // self.unit),
            gpu=asked_by(job.request, task),
            extra=tuple(sorted(task.mig.items())),
        )
        shape, state = Shape(request, _constraints(task)), STATES[task.state]
        waiting = Task(id_, GangId(job.name), shape, group, state=state)
        if task.state not in (*PLACED, TaskStatus.PIPELINED):
            return waiting
        devices = self._shelf(task).take(request.gpu, task.gpu_groups)
        if task.state == TaskStatus.PIPELINED:
            claim = PlaceClaim(id_, task.node or "", devices, request)
            self._claims.setdefault(waiting.gang, []).append(claim)
            return waiting
        return replace(
            waiting,
            node=task.node or "",
            devices=devices,
            started_at=None if task.state == TaskStatus.BINDING else NOW - RAN_S,
            releasing_since=_RELEASING_SINCE.get(task.state),
        )

    def holds(self) -> tuple[Hold, ...]:
        """Return the places that are held for waiting tasks."""
        return tuple(Hold(gang, tuple(claims), firm=True) for gang, claims in self._claims.items())

    def _shelf(self, task: schema.ForeignTask) -> Shelf:
        shelf = self._shelves.get(task.node or "")
        if shelf is None:
            raise Untranslatable(f'task "{task.name}" is on a node that is not there')
        return shelf


def _constraints(task: schema.ForeignTask) -> Constraints:
    if task.legacy_mig:
        return Constraints(affinity=((_NOWHERE,),))
    if task.node_names_allowed is None:
        return Constraints()
    here = Expression(HOSTNAME, Operator.IN, tuple(task.node_names_allowed))
    return Constraints(affinity=((here,),))


def _memory_unit(scenario: schema.ForeignScenario) -> int:
    """Return the bytes that count as one of our MiB: a megabyte, or less where a scenario is that
    small."""
    amounts = [node.memory for node in scenario.nodes]
    amounts += [job.request.memory for job in scenario.jobs]
    return gcd(schema.MB, *(int(amount) for amount in amounts))
