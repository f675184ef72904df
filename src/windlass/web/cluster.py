"""Every GPU and what is on it, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from windlass.engine.plan import Plan
from windlass.model.constraints import HOSTNAME
from windlass.model.gpus import WHOLE, Slice
from windlass.model.jobs import OCCUPYING, GangId, Task, TaskState
from windlass.model.mig import GEOMETRIES, profile_of
from windlass.model.nodes import Node
from windlass.state.cluster import Cluster
from windlass.web.columns import Gangs, Given, Held, Nodes, Racks, Tasks
from windlass.web.documents import ClusterDocument, Stamp
from windlass.web.tree import in_order

IN_SERVICE, CORDONED, GONE = 0, 1, 2

Thing = TypeVar("Thing")


class _Numbers(Generic[Thing]):
    """Gives each different thing the next number."""

    def __init__(self, things: Iterable[Thing] = ()) -> None:
        self.of: dict[Thing, int] = {}
        for thing in things:
            self.number(thing)

    def number(self, thing: Thing) -> int:
        return self.of.setdefault(thing, len(self.of))

    def __iter__(self) -> Iterator[Thing]:
        return iter(self.of)


def cluster_document(
    stamp: Stamp, cluster: Cluster, plan: Plan, away: Sequence[Node] = ()
) -> ClusterDocument:
    """The whole map; nodes that were there before are shown as gone."""
    queues = _Numbers(queue.name for queue, _ in in_order(cluster.queues))
    models, users, gangs = _Numbers[str](), _Numbers[str](), _Numbers[GangId]()
    racks, nodes, placed = _lay_out(cluster, away, models)
    tasks, given = _given(cluster, placed, gangs)
    held = _held(cluster, plan, placed, gangs)
    return ClusterDocument(
        stamp=stamp,
        gangs=_gangs(cluster, gangs, queues, users),
        queues=list(queues),
        models=list(models),
        users=list(users),
        racks=racks,
        nodes=nodes,
        tasks=tasks,
        given=given,
        held=held,
        unhealthy=[
            first + device
            for name, first in placed.items()
            if name in cluster.nodes
            for device, gpu in enumerate(cluster.nodes[name].gpus)
            if not gpu.healthy
        ],
    )


def _lay_out(
    cluster: Cluster, away: Sequence[Node], models: _Numbers[str]
) -> tuple[Racks, Nodes, dict[str, int]]:
    """Racks, nodes rack by rack, and the number of each node's first GPU."""
    block_key, rack_key = _levels(cluster)
    racks = _Numbers[tuple[str, str]]()
    nodes, placed, gpus = Nodes([], [], [], [], [], []), dict[str, int](), 0

    def place(node: Node) -> tuple[str, str, str]:
        return node.labels.get(block_key, ""), node.labels.get(rack_key, ""), node.name

    gone = [node for node in away if node.name not in cluster.nodes]
    for node in sorted((*cluster.nodes.values(), *gone), key=place):
        if not node.gpus:
            continue
        state = CORDONED if node.cordoned else IN_SERVICE
        nodes.name.append(node.name)
        nodes.rack.append(racks.number(place(node)[:2]))
        nodes.model.append(models.number(node.gpus[0].model))
        nodes.first.append(gpus)
        nodes.gpus.append(len(node.gpus))
        nodes.state.append(state if node.name in cluster.nodes else GONE)
        placed[node.name] = gpus
        gpus += len(node.gpus)
    names = [name for _, name in racks]
    return Racks(names, [block for block, _ in racks]), nodes, placed


def _levels(cluster: Cluster) -> tuple[str, str]:
    """The labels of the narrowest domain of several nodes, and of the next wider one."""
    keys = [key for each in cluster.topologies.values() for key in each.levels if key != HOSTNAME]
    return (keys[-2] if len(keys) > 1 else ""), (keys[-1] if keys else "")


def _given(
    cluster: Cluster, placed: dict[str, int], gangs: _Numbers[GangId]
) -> tuple[Tasks, Given]:
    tasks, given = Tasks([], [], [], []), Given([], [], [], [], [], [])
    for task in cluster.tasks.values():
        if task.state not in OCCUPYING or not task.devices or task.node not in placed:
            continue
        number = len(tasks.name)
        tasks.name.append(task.id)
        tasks.gang.append(gangs.number(task.gang))
        tasks.started.append(-1 if task.started_at is None else task.started_at)
        tasks.leaving.append(int(task.state is TaskState.RELEASING))
        first = placed[task.node]
        for each, count in _runs(task.devices):
            left, width = _place_on_device(cluster, task, each)
            given.gpu.append(first + each.device)
            given.count.append(count)
            given.task.append(number)
            given.milli.append(each.milli)
            given.left.append(left)
            given.width.append(width)
    return tasks, given


def _held(cluster: Cluster, plan: Plan, placed: dict[str, int], gangs: _Numbers[GangId]) -> Held:
    held = Held([], [], [], [], [])
    for hold in plan.holds:
        for claim in hold.claims if hold.gang in cluster.gangs else ():
            for each, count in _runs(claim.devices) if claim.node in placed else ():
                held.gpu.append(placed[claim.node] + each.device)
                held.count.append(count)
                held.gang.append(gangs.number(hold.gang))
                held.milli.append(each.milli)
                held.later.append(int(hold.starts_at > cluster.now))
    return held


def _runs(slices: Sequence[Slice]) -> Iterator[tuple[Slice, int]]:
    """Neighbouring devices given in the same way, as their first and how many."""
    begun: Slice | None = None
    count = 0
    for each in sorted(slices):
        follows = begun is not None and not each.profile and not begun.profile
        if follows and begun and (begun.device + count, begun.milli) == (each.device, each.milli):
            count += 1
            continue
        if begun is not None:
            yield begun, count
        begun, count = each, 1
    if begun is not None:
        yield begun, count


def _place_on_device(cluster: Cluster, task: Task, each: Slice) -> tuple[int, int]:
    """Where a MIG instance lies and how wide it is, in thousandths; -1 without MIG."""
    node = cluster.nodes.get(task.node)
    if not each.profile or node is None or each.device >= len(node.gpus):
        return -1, 0
    model = node.gpus[each.device].model
    profile = profile_of(model, each.profile)
    if profile is None:
        return -1, 0
    units = GEOMETRIES[model].units
    return each.start * WHOLE // units, profile.size * WHOLE // units


def _gangs(
    cluster: Cluster, gangs: _Numbers[GangId], queues: _Numbers[str], users: _Numbers[str]
) -> Gangs:
    known = [cluster.gangs[gang] for gang in gangs]
    return Gangs(
        name=[str(gang.id) for gang in known],
        job=[str(gang.job) for gang in known],
        queue=[queues.number(gang.queue) for gang in known],
        user=[users.number(gang.user) for gang in known],
        priority=[gang.priority for gang in known],
    )
