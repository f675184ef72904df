"""A cluster of 10,000 nodes with eight GPUs each, full of work that comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.events import GangGone, GangSeen, TaskGone, TaskSeen
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, Slice
from windlass.model.jobs import Gang, GangId, JobId, Shape, Task, TaskId, TaskState
from windlass.model.nodes import Node, Topology
from windlass.model.queues import GPU, Queue
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import Request
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

GPUS, ROW, RACK, BLOCK = 8, 16, 32, 1024
MODELS = ("H100-80GB", "A100-80GB", "L40S-48GB")
TEAMS = ("research", "product", "serving", "robotics")
Job: TypeAlias = tuple[Gang, Task]


class Large:
    """The cluster, and a plan in which many wait."""

    def __init__(self, nodes: int = 10_000, waiting: int = 5_000) -> None:
        self.now = 86_400
        self.nodes = [_node(number) for number in range(nodes)]
        running = [job for number, node in enumerate(self.nodes) for job in _on(number, node.name)]
        line = [_job(f"wait-{number:06}", number) for number in range(waiting)]
        self.cluster = Cluster.of(
            Snapshot(
                now=self.now,
                nodes=tuple(self.nodes),
                topologies=(Topology("net", ("block", "rack")),),
                queues=tuple(_queues(nodes * GPUS)),
                gangs=tuple({gang.id: gang for gang, _ in (*running, *line)}.values()),
                tasks=tuple(task for _, task in (*running, *line)),
            )
        )
        reason = Reason(ReasonCode.NO_ROOM, {"need": 1, "shape": f"{GPUS} GPUs", "room": 0})
        self.plan = Plan(
            decisions=tuple(
                Decision(gang.id, gang.queue, Verdict.WAITS, (reason,), position)
                for position, (gang, _) in enumerate(line, 1)
            )
        )
        self._alone = [job for job in running if job[0].id.startswith("single")]
        self._moved = 0

    def move(self, changes: int = 200) -> None:
        """End some jobs, and start others in their places."""
        self.now += 10
        self.cluster.advance(self.now)
        for _ in range(changes):
            self._moved += 1
            at = self._moved * 37 % len(self._alone)
            gang, task = self._alone[at]
            self.cluster.apply(TaskGone(task.id))
            self.cluster.apply(GangGone(gang.id))
            self._alone[at] = _job(f"new-{self._moved:06}", self._moved, task.node, task.devices)
            self.cluster.apply(GangSeen(self._alone[at][0]))
            self.cluster.apply(TaskSeen(self._alone[at][1]))


def _node(number: int) -> Node:
    return Node(
        name=f"node-{number:05}",
        cpu_milli=256_000,
        memory_mib=2_000_000,
        pods=110,
        gpus=(Gpu(MODELS[number // BLOCK % len(MODELS)], 80 * 1024),) * GPUS,
        labels={"block": f"block-{number // BLOCK:02}", "rack": f"rack-{number // RACK:03}"},
    )


def _queues(gpus: int) -> Iterator[Queue]:
    for team in TEAMS:
        yield Queue(team, guarantee={GPU: gpus * WHOLE // len(TEAMS)})
        for part in "abcd":
            yield Queue(f"{team}-{part}", team, guarantee={GPU: gpus * WHOLE // len(TEAMS) // 4})


def _on(number: int, node: str) -> Iterator[Job]:
    """Yield the jobs of a node: large gangs, jobs of several sizes, or fractions with free GPUs."""
    row = number // ROW
    if row * 5 % 7 < 4:
        yield _job(f"train-{row:04}", row, node, _whole(0, GPUS), member=number % ROW)
    elif row * 5 % 7 == 4:
        for first, size in ((0, 4), (4, 2), (6, 1), (7, 1)):
            yield _job(f"single-{number:05}-{first}", number, node, _whole(first, size))
    elif row * 5 % 7 == 5:
        for part in range(4):
            devices = (Slice(part // 2, WHOLE // 2),)
            yield _job(f"half-{number:05}-{part}", number + part, node, devices)
    else:
        for first in range(GPUS):
            yield _job(f"single-{number:05}-{first}", number + first, node, _whole(first, 1))


def _whole(first: int, size: int) -> tuple[Slice, ...]:
    return tuple(Slice(first + each, WHOLE) for each in range(size))


def _job(
    name: str, number: int, node: str = "", devices: tuple[Slice, ...] = (), member: int = 0
) -> Job:
    queue = f"{TEAMS[number // 7 % len(TEAMS)]}-{'abcd'[number % 4]}"
    gang = Gang(GangId(name), queue, JobId(name), user=f"user-{number % 40}", priority=number % 3)
    milli = devices[0].milli if devices else WHOLE
    gpu = GpuRequest(count=len(devices) or GPUS, milli=milli)
    task = Task(
        id=TaskId(f"{name}-{member}"),
        gang=gang.id,
        shape=Shape(Request(cpu_milli=1000, gpu=gpu)),
        state=TaskState.RUNNING if node else TaskState.WAITING,
        node=node,
        devices=devices,
        started_at=number % 80_000 if node else None,
    )
    return gang, task
