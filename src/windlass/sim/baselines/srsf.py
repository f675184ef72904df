"""Shortest remaining service first, as in textbooks: a baseline for replays of traces.

At every event all jobs are sorted by the GPU time they still need, which must be known, and get
places in that order; a job that fits may pass one that does not. A running job stays where it is if
its node has enough GPUs left after the jobs before it, whichever devices they are; otherwise it is
stopped, and starts again elsewhere if there is room. Small tasks go to the fullest node that takes
them. Queues are ignored, and of nodes only the healthy GPUs count.
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
"""The number of GPUs left, by node."""
Place: TypeAlias = tuple[Task, str]


def srsf(cluster: Cluster) -> Plan:
    """Return a plan that stops the running jobs that are not among the first that fit, and starts
    the others when there is room."""
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
    """Return the sort key of a gang: the GPU time that it still needs, then age."""
    tasks = cluster.members(gang.id)
    starts = [task.started_at for task in tasks if task.state is TaskState.RUNNING]
    ran = max((cluster.now - at for at in starts if at is not None), default=0)
    left_s = (gang.duration_s or 0) - gang.served_s - ran
    return left_s * sum(map(_gpus, tasks)), gang.created_at, gang.id


def _now_free(cluster: Cluster) -> dict[str, list[int]]:
    """Return the devices that no task occupies, by node."""
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
    """Take these places and return True, or take none and return False if the room does not
    suffice."""
    need: Room = {}
    for task, node in places:
        need[node] = need.get(node, 0) + _gpus(task)
    if any(room[node] < gpus for node, gpus in need.items()):
        return False
    for node, gpus in need.items():
        room[node] -= gpus
    return True


def _fit(tasks: list[Task], room: Room) -> list[Place]:
    """Take places for all tasks of a job and return them; return no place if one does not fit."""
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
    """Return the binds, or none if the places are still occupied by a job that is being stopped."""
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
