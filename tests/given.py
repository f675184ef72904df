"""Small builders: a test names what matters to it, everything else there is plenty of.

outcome = schedule(node("n1", gpus=2), job("a", 3, ask(gpus=1)))
assert outcome.nothing_of("a")
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from windlass.engine.cycle import plan
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.actions import EvictionRule, Hold
from windlass.model.constraints import HOSTNAME, Constraints, Expression, Operator, PodTerm, Term
from windlass.model.events import GangSeen, TaskGone, TaskSeen, TaskStarted
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, Slice
from windlass.model.jobs import Domain, Gang, GangId, Group, JobId, Shape, Task, TaskId, TaskState
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import Request, pairs
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot, UserUsage

GIB = 1024
USUAL, NOTHING = Settings(), Request()
TEAM = "team"
"""The queue of every job that names none."""
RACKS = Topology("net", ("zone", "rack"))
MEMORY_GIB = {"A100-80GB": 80, "H100-80GB": 80, "A30-24GB": 24, "T4": 16, "V100": 32}


def schedule(*things: Thing, now: int = 0, settings: Settings = USUAL) -> Outcome:
    """Plan once for a cluster made of these things."""
    return outcome_of(cluster(*things, now=now, settings=settings))


def outcome_of(cluster: Cluster) -> Outcome:
    """Plan once for a cluster."""
    return Outcome(cluster, plan(cluster))


def cluster(*things: Thing, now: int = 0, settings: Settings = USUAL) -> Cluster:
    """A cluster made of these things; without a queue it has the queue of `TEAM`."""
    return Cluster.of(snapshot(*things, now=now, settings=settings))


def snapshot(*things: Thing, now: int = 0, settings: Settings = USUAL) -> Snapshot:
    """The same as a value."""
    jobs = [each for each in things if isinstance(each, Job)]
    queues = tuple(each for each in things if isinstance(each, Queue))
    used = tuple(each for each in things if isinstance(each, UserUsage))
    return Snapshot(
        now=now,
        nodes=tuple(each for each in things if isinstance(each, Node)),
        topologies=tuple(each for each in things if isinstance(each, Topology)),
        queues=queues or (Queue(TEAM),),
        gangs=tuple(each.gang for each in jobs),
        tasks=tuple(task for each in jobs for task in each.tasks),
        usage=used,
        epoch_usage=used,
        settings=settings,
    )


@dataclass(frozen=True)
class Outcome:
    """A cluster and what was planned for it, asked in a test's words."""

    cluster: Cluster
    plan: Plan

    @property
    def places(self) -> dict[str, str]:
        """The node of every task that starts."""
        return {str(each.task): each.node for each in self.plan.binds}

    @property
    def devices(self) -> dict[str, tuple[Slice, ...]]:
        """What every task that starts is given of its node's GPUs."""
        return {str(each.task): each.devices for each in self.plan.binds}

    @property
    def evicted(self) -> dict[str, EvictionRule]:
        """The tasks that lose their place, and by which rule."""
        return {str(each.task): each.rule for each in self.plan.evictions if not each.moves_to}

    @property
    def moved(self) -> dict[str, str]:
        """The tasks that move, and where to."""
        return {str(each.task): each.moves_to for each in self.plan.evictions if each.moves_to}

    @property
    def held(self) -> dict[str, list[str]]:
        """The gangs for which places are firmly kept, and on which nodes."""
        firm = (each for each in self.plan.holds if each.firm)
        return {str(each.gang): sorted(claim.node for claim in each.claims) for each in firm}

    def hold(self, name: str) -> Hold:
        """What is kept for a gang."""
        return next(each for each in self.plan.holds if each.gang == name)

    def started(self, name: str) -> int:
        """How many tasks of a gang start."""
        return sum(self.cluster.tasks[each.task].gang == name for each in self.plan.binds)

    def nothing_of(self, name: str) -> bool:
        """Does the gang hold nothing at all?"""
        return self.started(name) == 0 and all(each.gang != name for each in self.plan.holds)

    def decision(self, name: str) -> Decision:
        """What was decided for a gang."""
        return next(each for each in self.plan.decisions if each.gang == name)

    def verdict(self, name: str) -> Verdict:
        """The verdict on a gang."""
        return self.decision(name).verdict

    def whys(self, name: str) -> set[ReasonCode]:
        """The kinds of reasons given to a gang."""
        return {each.why for each in self.decision(name).reasons}

    def reason(self, name: str, why: ReasonCode) -> Reason:
        """The reason of that kind given to a gang."""
        return next(each for each in self.decision(name).reasons if each.why == why)

    def carried_out(self) -> Cluster:
        """A copy of the cluster after the plan, with every bound task running."""
        after = Cluster.of(self.cluster.snapshot())
        after.assume(self.plan)
        for each in self.plan.binds:
            after.apply(TaskStarted(each.task))
        return after

    def settled(self, seconds: int = 0) -> Cluster:
        """The same, later: what was on its way out is gone, and its successors wait."""
        after = self.carried_out()
        after.advance(after.now + seconds)
        let_go(after)
        return after


def let_go(there: Cluster, *names: str) -> None:
    """Everything on its way out (or these tasks of it) is gone; its successors wait."""
    for task in list(there.leaving()):
        if not names or task.id in names:
            there.apply(TaskGone(task.id))
            there.apply(TaskSeen(_successor(task)))


def _successor(task: Task) -> Task:
    """The task that its owner makes in its place: `a-0`, then `a-0.1`, `a-0.2`."""
    first, _, number = task.id.partition(".")
    name = TaskId(f"{first}.{int(number or 0) + 1}")
    return Task(name, task.gang, task.shape, task.group, task.labels)


def submit(there: Cluster, *jobs: Job) -> None:
    """Jobs come in now."""
    for each in jobs:
        there.apply(GangSeen(replace(each.gang, created_at=there.now)))
        for task in each.tasks:
            there.apply(TaskSeen(task))


@dataclass(frozen=True)
class Job:
    """A job of one gang, with its tasks."""

    gang: Gang
    tasks: tuple[Task, ...]

    def runs(self, *indexes: int, on: str, devices: Iterable[Slice | int] = ()) -> Job:
        """The same job with some of its tasks running on a node, each on these devices."""
        given = tuple(Slice(each, WHOLE) if isinstance(each, int) else each for each in devices)
        return self.become(*indexes, state=TaskState.RUNNING, node=on, devices=given, started_at=0)

    def ended(self, *indexes: int, succeeded: bool = True) -> Job:
        """The same job with some of its tasks ended."""
        return self.become(*indexes, state=TaskState.SUCCEEDED if succeeded else TaskState.FAILED)

    def become(self, *indexes: int, **fields: Any) -> Job:
        """The same job with fields of some of its tasks replaced."""
        tasks = tuple(
            replace(each, **fields) if i in indexes else each for i, each in enumerate(self.tasks)
        )
        return replace(self, tasks=tasks)


Thing: TypeAlias = Node | Queue | Topology | Job | UserUsage


def node(name: str, gpus: int = 0, model: str = "A100-80GB", **fields: Any) -> Node:
    """A node with equal GPUs (`mig=True` cuts them; or `cards=`) and plenty of everything else."""
    card = Gpu(model, MEMORY_GIB[model] * GIB, mig=fields.pop("mig", False))
    cards = fields.pop("cards", (card,) * gpus)
    labels = {HOSTNAME: name} | fields.pop("labels", {})
    defaults = {"cpu_milli": 64_000, "memory_mib": 512 * GIB, "gpus": cards}
    return Node(name, labels=labels, **(defaults | fields))


def rack(name: str, *names: str, gpus: int, zone: str = "z", **fields: Any) -> tuple[Node, ...]:
    """Nodes that share a rack of the topology `RACKS`."""
    labels = {"zone": zone, "rack": name}
    return tuple(node(each, gpus, labels=labels, **fields) for each in names)


def queue(name: str, parent: str = "", **fields: Any) -> Queue:
    """A queue; `gpus=`, `limit_gpus=` and `lend_gpus=` count whole GPUs for short."""
    for short, field in (("gpus", "guarantee"), ("limit_gpus", "limit"), ("lend_gpus", "lend")):
        if short in fields:
            fields[field] = fields.get(field, {}) | {"gpu": fields.pop(short) * WHOLE}
    return Queue(name, parent, **fields)


def ask(gpus: int = 0, cpu: int = 0, memory: int = 0, **gpu: Any) -> Request:
    """A request; `milli=`, `memory_mib=`, `profile=` and `models=` say how the GPUs are meant."""
    extra = tuple(sorted(gpu.pop("extra", {}).items()))
    wanted = GpuRequest(gpus, **gpu) if gpus else None
    return Request(cpu, memory, wanted, extra)


def job(name: str, tasks: int = 1, request: Request = NOTHING, **fields: Any) -> Job:
    """A gang of equal tasks, all needed unless `minimum=` says fewer; other fields are its own."""
    least = fields.pop("minimum", tasks)
    part = group("", tasks, request, minimum=least, domain=fields.pop("group_domain", None))
    part = replace(part, constraints=fields.pop("constraints", Constraints()))
    return grouped(name, replace(part, labels=pairs(fields.pop("labels", {}))), **fields)


@dataclass(frozen=True)
class Part:
    """One group of a gang and the tasks it has."""

    group: Group
    tasks: int
    request: Request
    constraints: Constraints = Constraints()
    labels: tuple[tuple[str, str], ...] = ()


def group(name: str, tasks: int, request: Request = NOTHING, **fields: Any) -> Part:
    """A group for `grouped`, all of its tasks needed unless `minimum=` says fewer."""
    least = fields.pop("minimum", tasks)
    return Part(Group(name, least, fields.pop("domain", None)), tasks, request, **fields)


def grouped(name: str, *parts: Part, at_least: int = 0, **fields: Any) -> Job:
    """A gang of several groups; its tasks are numbered through, in the order of the groups."""
    gang = Gang(
        GangId(name),
        fields.pop("queue", TEAM),
        JobId(name),
        tuple(each.group for each in parts),
        at_least,
        **fields,
    )
    asked = [part for part in parts for _ in range(part.tasks)]
    return Job(gang, tuple(_task(gang, i, part) for i, part in enumerate(asked)))


def _task(gang: Gang, index: int, part: Part) -> Task:
    shape = Shape(part.request, part.constraints)
    return Task(TaskId(f"{gang.id}-{index}"), gang.id, shape, part.group.name, part.labels)


def within(level: str, required: bool = True) -> Domain:
    """Inside one domain of a level of `RACKS`."""
    return Domain(RACKS.name, level, required)


def where(key: str, *values: str, operator: Operator = Operator.IN) -> Term:
    """A term of one expression."""
    return (Expression(key, operator, values),)


def pods(app: str, per: str = HOSTNAME, **fields: Any) -> PodTerm:
    """Tasks labelled `app`, seen from the domains of a label."""
    return PodTerm(where("app", app), per, **fields)
