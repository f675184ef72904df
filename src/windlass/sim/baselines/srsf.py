"""Shortest remaining service first, as in textbooks: a baseline for replays of traces.

At every event all jobs are sorted anew by the GPU time they still need, which it must be told, and
given places in that order; whoever fits may pass one that does not. A job that runs stays where
it is if its node has that many GPUs left after those before it, whichever they are; else it is
stopped, and starts again elsewhere if there is room. Small tasks go to the fullest node that takes
them. Queues are not looked at, nor anything of nodes but their healthy GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from windlass.engine.plan import Plan
from windlass.model.actions import Action, Bind, Evict, EvictionRule
from windlass.model.gpus import WHOLE, Slice
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, Task, TaskState
from windlass.model.nodes import Node
from windlass.state.cluster import Cluster

Room: TypeAlias = dict[str, int]
"""Per node, how many GPUs are left."""
Place: TypeAlias = tuple[Task, str]


def srsf(cluster: Cluster) -> Plan:
    """Stop whoever is not among the first that fit; start those that are, once there is room."""
    wanted = {name: len(_healthy(node)) for name, node in sorted(cluster.nodes.items())}
    free = _now_free(cluster)
    actions: list[Action] = []
    for gang in sorted(cluster.gangs.values(), key=lambda each: _left(cluster, each)):
        tasks = list(cluster.members(gang.id))
        runs = all(task.state in ACTIVE for task in tasks)
        if runs and _take(wanted, [(task, task.node) for task in tasks]):
            continue
        places = _fit(tasks, wanted)
        if runs:
            actions += [Evict(task.id, EvictionRule.ORDER) for task in tasks]
        elif all(task.state is TaskState.WAITING for task in tasks):
            actions += _bind(places, free)
    return Plan(actions=tuple(actions))


def _left(cluster: Cluster, gang: Gang) -> tuple[int, int, str]:
    """The GPU time it still needs; then age."""
    tasks = cluster.members(gang.id)
    starts = [task.started_at for task in tasks if task.state is TaskState.RUNNING]
    ran = max((cluster.now - at for at in starts if at is not None), default=0)
    left_s = (gang.duration_s or 0) - gang.served_s - ran
    return left_s * sum(map(_gpus, tasks)), gang.created_at, gang.id


def _now_free(cluster: Cluster) -> dict[str, list[int]]:
    """Per node, the devices that nobody has."""
    taken: dict[str, set[int]] = {}
    for task in cluster.tasks.values():
        if task.state in OCCUPYING:
            taken.setdefault(task.node, set()).update(each.device for each in task.devices)
    return {
        name: [device for device in _healthy(node) if device not in taken.get(name, ())]
        for name, node in cluster.nodes.items()
    }


def _healthy(node: Node) -> list[int]:
    return [device for device, gpu in enumerate(node.gpus) if gpu.healthy]


def _take(room: Room, places: Iterable[Place]) -> bool:
    """Take these places, or none if there is too little room for one."""
    need: Room = {}
    for task, node in places:
        need[node] = need.get(node, 0) + _gpus(task)
    if any(room[node] < gpus for node, gpus in need.items()):
        return False
    for node, gpus in need.items():
        room[node] -= gpus
    return True


def _fit(tasks: list[Task], room: Room) -> list[Place]:
    """Places for all tasks of a job, which are taken, or none."""
    places: list[Place] = []
    for task in sorted(tasks, key=lambda each: (-_gpus(each), each.id)):
        rooms = [(left, name) for name, left in room.items() if left >= _gpus(task)]
        if not rooms:
            for each, node in places:
                room[node] += _gpus(each)
            return []
        name = min(rooms)[1]
        room[name] -= _gpus(task)
        places.append((task, name))
    return places


def _bind(places: list[Place], free: dict[str, list[int]]) -> list[Bind]:
    """Its places, unless they are still those of a job that is stopped just now."""
    if not _take({name: len(devices) for name, devices in free.items()}, places):
        return []
    binds: list[Bind] = []
    for task, node in places:
        slices = tuple(Slice(device, WHOLE) for device in free[node][: _gpus(task)])
        del free[node][: _gpus(task)]
        binds.append(Bind(task.id, node, slices))
    return binds


def _gpus(task: Task) -> int:
    gpu = task.shape.request.gpu
    return gpu.count if gpu else 0
