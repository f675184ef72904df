"""A large cluster with a large backlog, for benchmarks, from a seed.

Several GPU models, three levels of queues near their limits, gangs beside single tasks, some gangs
inside one rack, part of the cluster in use already.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from windlass.model.gpus import Gpu, GpuRequest, Slice
from windlass.model.jobs import Domain, Gang, GangId, Group, JobId, Shape, Task, TaskId, TaskState
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.model.resources import Request
from windlass.state.snapshot import Snapshot

NETWORK = Topology("network", ("block", "rack"))
MODELS = (
    ("H100-80GB", 81920, 30),
    ("A100-80GB", 81920, 25),
    ("A100-40GB", 40960, 20),
    ("L40S-48GB", 49152, 15),
    ("T4-16GB", 16384, 10),
)
OPEN = "open"
"""A queue without limits, for measuring single gangs."""
GPUS_PER_NODE = 8
NODES_PER_RACK = 20
RACKS_PER_BLOCK = 25
GANG = 8
BUSY = 60
"""The percentage of nodes that run something already."""
ONE_GPU = Shape(Request(2_000, 8_192, GpuRequest(1)))
WHOLE_NODE = Shape(Request(8_000, 65_536, GpuRequest(GPUS_PER_NODE)))


@dataclass(frozen=True, slots=True)
class Load:
    """The size of the cluster and of the backlog."""

    nodes: int
    pods: int
    shapes: int
    seed: int = 1


def load(size: Load) -> Snapshot:
    """Return the cluster and its backlog."""
    random = Random(size.seed)
    nodes = tuple(_node(random, at) for at in range(size.nodes))
    queues = _queues(size)
    teams = [queue.name for queue in queues if queue.parent.count("/") == 1]
    shapes = [_shape(random, at, size.shapes) for at in range(size.shapes)]
    gangs: list[Gang] = []
    tasks: list[Task] = []
    _fill(random, nodes, teams, gangs, tasks)
    _wait(random, size, shapes, teams, gangs, tasks)
    return Snapshot(0, nodes, (NETWORK,), queues, tuple(gangs), tuple(tasks))


def single(name: str, queue: str) -> tuple[Gang, list[Task]]:
    """Return one pod with one GPU."""
    return many(name, queue, 1)


def many(name: str, queue: str, size: int) -> tuple[Gang, list[Task]]:
    """Return a gang of pods with one GPU each."""
    return _gang(name, queue, [ONE_GPU] * size, None)


def whole_nodes(name: str, queue: str, size: int) -> tuple[Gang, list[Task]]:
    """Return a gang of pods that each take all GPUs of a node."""
    return _gang(name, queue, [WHOLE_NODE] * size, None)


def _node(random: Random, at: int) -> Node:
    model, memory, _ = random.choices(MODELS, [weight for *_, weight in MODELS])[0]
    rack, block = at // NODES_PER_RACK, at // NODES_PER_RACK // RACKS_PER_BLOCK
    return Node(
        name=f"node-{at:05}",
        cpu_milli=128_000,
        memory_mib=1 << 20,
        gpus=_GPUS.setdefault(model, (Gpu(model, memory),) * GPUS_PER_NODE),
        labels={"block": f"b{block:03}", "rack": f"r{rack:04}", "gpu": model},
    )


_GPUS: dict[str, tuple[Gpu, ...]] = {}


def _queues(size: Load) -> tuple[Queue, ...]:
    """Return four divisions with five departments each and five teams each; the limits bind some of
    them."""
    all_gpus = size.nodes * GPUS_PER_NODE * 1000
    queues = [Queue(OPEN)]
    for d in range(4):
        division = f"d{d}"
        queues.append(Queue(division, limit={"gpu": all_gpus * 2 // 5}))
        for p in range(5):
            department = f"{division}/p{p}"
            limit = {"gpu": all_gpus // 10, "gpu/H100-80GB": all_gpus // 25}
            queues.append(Queue(department, division, limit=limit))
            for t in range(5):
                guarantee = {"gpu": all_gpus // 200}
                limit = {"gpu": all_gpus // 40}
                team = f"{department}/t{t}"
                queues.append(Queue(team, department, guarantee, limit, weight=1 + t % 3))
    return tuple(queues)


def _shape(random: Random, at: int, count: int) -> Shape:
    """Return a shape with a fraction or whole GPUs, some with a required model, each with its own
    CPU and memory."""
    kind = at % 16
    if kind < 4:
        gpu = GpuRequest(1, (250, 500, 250, 750)[kind])
    else:
        models = (random.choice(MODELS)[0],) if kind % 4 == 0 else ()
        gpu = GpuRequest((1, 1, 2, 4, 8, 1, 2, 1, 1, 4, 1, 2)[kind - 4], models=models)
    step = at // 16
    cpu = 500 + step * (7_000 // max(1, count // 16))
    return Shape(Request(cpu, 2_048 + 16 * step, gpu))


def _fill(
    random: Random, nodes: tuple[Node, ...], teams: list[str], gangs: list[Gang], tasks: list[Task]
) -> None:
    shape = Shape(Request(4_000, 32_768, GpuRequest(1)))
    for node in nodes:
        if random.randrange(100) >= BUSY:
            continue
        size = random.randint(1, GPUS_PER_NODE)
        gang, members = _gang(f"run-{node.name}", random.choice(teams), [shape] * size, None)
        gangs.append(gang)
        for device, task in enumerate(members):
            given = (Slice(device, 1000),)
            tasks.append(
                Task(
                    task.id,
                    gang.id,
                    shape,
                    state=TaskState.RUNNING,
                    node=node.name,
                    devices=given,
                    started_at=0,
                )
            )


def _wait(
    random: Random,
    size: Load,
    shapes: list[Shape],
    teams: list[str],
    gangs: list[Gang],
    tasks: list[Task],
) -> None:
    left = at = 0
    while left < size.pods:
        members = GANG if random.randrange(4) == 0 and size.pods - left >= GANG else 1
        if size.shapes < size.pods:
            wanted = [random.choice(shapes)] * members
        else:
            wanted = shapes[left : left + members]
        close = members > 1 and random.randrange(2) == 0
        domain = Domain("network", "rack") if close else None
        gang, some = _gang(f"wait-{at:06}", random.choice(teams), wanted, domain)
        gangs.append(gang)
        tasks += some
        left, at = left + members, at + 1


def _gang(
    name: str, queue: str, shapes: list[Shape], domain: Domain | None
) -> tuple[Gang, list[Task]]:
    gang = Gang(GangId(name), queue, JobId(name), groups=(Group("", len(shapes)),), domain=domain)
    tasks = [Task(TaskId(f"{name}-{i}"), gang.id, shape) for i, shape in enumerate(shapes)]
    return gang, tasks
