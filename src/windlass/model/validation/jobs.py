"""Checks of gangs and tasks: that they belong together, and that running tasks have real places.

A gang whose queue or topology is missing, or whose tasks have not all been seen, is normal in a
live cluster: such problems are marked `passing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from windlass.model.gpu.mig import offered_by, profile_of
from windlass.model.gpus import WHOLE, Gpu, Slice
from windlass.model.jobs import OCCUPYING, Domain, Gang, GangId, Shape, Task
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.model.validation.problems import (
    InputProblem,
    Path,
    check_name,
    check_range,
    check_unique,
    join_names,
)
from windlass.model.validation.shapes import check_profile, check_shape

MOST_TASKS = 1_000_000
MOST_PRIORITY = 2**31 - 1

_LEAST = {
    "duration_s": 0,
    "displaces_after_s": 0,
    "stale_after_s": -1,
    "saved_at": 0,
    "saves_within_s": 0,
    "unsaved_at_most_s": 0,
    "hurry_s": 0,
}
"""The smallest value of each optional number of a gang; -1 means never."""


def check_gangs(
    gangs: Sequence[Gang], queues: Sequence[Queue], topologies: Sequence[Topology]
) -> Iterator[InputProblem]:
    """Yield the problems of gangs by themselves, and of their queues and topologies."""
    levels = {topology.name: topology.levels for topology in topologies}
    parents = {queue.parent for queue in queues}
    names = {queue.name for queue in queues}
    yield from check_unique("gangs", "id", "gang", (gang.id for gang in gangs))
    for index, gang in enumerate(gangs):
        path = ("gangs", index)
        yield from check_name((*path, "id"), "gang", gang.id)
        yield from _gang_numbers(path, gang)
        yield from _groups(path, gang)
        yield from _queue(path, gang, names, parents)
        yield from _domain((*path, "domain"), gang.id, gang.domain, levels)
        for at, group in enumerate(gang.groups):
            yield from _domain((*path, "groups", at, "domain"), gang.id, group.domain, levels)


def check_tasks(
    tasks: Sequence[Task], gangs: Sequence[Gang], nodes: Sequence[Node]
) -> Iterator[InputProblem]:
    """Yield the problems of tasks, given all gangs and nodes."""
    groups = {gang.id: {group.name for group in gang.groups} for gang in gangs}
    by_name = {node.name: node for node in nodes}
    models = sorted({gpu.model for node in nodes for gpu in node.gpus})
    yield from check_unique("tasks", "id", "task", (task.id for task in tasks))
    seen: dict[Shape, list[InputProblem]] = {}
    for index, task in enumerate(tasks):
        path = ("tasks", index)
        yield from check_name((*path, "id"), "task", task.id)
        yield from _membership(path, task, groups)
        if task.shape not in seen:  # most tasks share a few shapes
            seen[task.shape] = [*check_shape(task.shape), *check_profile(task.shape, models)]
        for problem in seen[task.shape]:
            at = (*path, "shape", *problem.path)
            yield InputProblem(at, f'task "{task.id}": {problem.sentence}', problem.passing)
        yield from _place(path, task, by_name)


def check_complete(gangs: Sequence[Gang], tasks: Sequence[Task]) -> Iterator[InputProblem]:
    """Yield the gangs that need more tasks than exist; in a live cluster more may arrive."""
    counts: dict[tuple[str, str], int] = {}
    totals: dict[str, int] = {}
    for task in tasks:
        counts[task.gang, task.group] = counts.get((task.gang, task.group), 0) + 1
        totals[task.gang] = totals.get(task.gang, 0) + 1
    for index, gang in enumerate(gangs):
        path = ("gangs", index)
        for at, group in enumerate(gang.groups):
            there = counts.get((gang.id, group.name), 0)
            if group.minimum > there:
                where = f'group "{group.name}" of gang' if group.name else "gang"
                fault = f'{where} "{gang.id}": minimum {group.minimum}'
                yield _incomplete((*path, "groups", at, "minimum"), fault, there)
        if gang.minimum > totals.get(gang.id, 0):
            fault = f'gang "{gang.id}": minimum {gang.minimum}'
            yield _incomplete((*path, "minimum"), fault, totals.get(gang.id, 0))


def check_slices(
    path: Path, owner: str, slices: Sequence[Slice], node: Node
) -> Iterator[InputProblem]:
    """Yield a problem for each slice that the devices of the node cannot have."""
    for index, part in enumerate(slices):
        at = (*path, index)
        if not 0 <= part.device < len(node.gpus):
            yield InputProblem(
                (*at, "device"),
                f'{owner} is on GPU {part.device} of node "{node.name}", which has '
                f"{len(node.gpus)}, counted from 0; correct the index",
            )
            continue
        yield from _slice(at, owner, part, node.gpus[part.device])


def _gang_numbers(path: Path, gang: Gang) -> Iterator[InputProblem]:
    name = f'gang "{gang.id}"'
    priority = (*path, "priority")
    yield from check_range(
        priority, f"{name}: priority", gang.priority, -MOST_PRIORITY, MOST_PRIORITY
    )
    yield from check_range((*path, "created_at"), f"{name}: created_at", gang.created_at, 0)
    yield from check_range((*path, "minimum"), f"{name}: minimum", gang.minimum, 0, MOST_TASKS)
    for field, least in _LEAST.items():
        value: int | None = getattr(gang, field)
        if value is not None:
            yield from check_range((*path, field), f"{name}: {field}", value, least)


def _groups(path: Path, gang: Gang) -> Iterator[InputProblem]:
    name = f'gang "{gang.id}"'
    names = [group.name for group in gang.groups]
    if len(set(names)) < len(names):
        yield InputProblem((*path, "groups"), f"{name}: two groups have one name; rename one")
    for index, group in enumerate(gang.groups):
        at = (*path, "groups", index, "minimum")
        yield from check_range(at, f"{name}: minimum", group.minimum, 0, MOST_TASKS)
    if gang.needed() < 1:
        yield InputProblem(
            (*path, "minimum"), f"{name}: it starts with no task at all; give a minimum from 1 on"
        )


def _queue(path: Path, gang: Gang, names: set[str], parents: set[str]) -> Iterator[InputProblem]:
    at = (*path, "queue")
    if gang.queue not in names:
        sentence = f'gang "{gang.id}": queue "{gang.queue}" does not exist; name one that does'
        yield InputProblem(at, sentence, passing=True, wrong=gang.queue, known=names)
    elif gang.queue in parents:
        yield InputProblem(
            at,
            f'gang "{gang.id}": queue "{gang.queue}" has queues below it and takes no jobs; '
            "name one of those",
            passing=True,
        )


def _domain(
    path: Path, gang: GangId, domain: Domain | None, levels: Mapping[str, tuple[str, ...]]
) -> Iterator[InputProblem]:
    if domain is None:
        return
    if domain.topology not in levels:
        yield InputProblem(
            (*path, "topology"),
            f'gang "{gang}": topology "{domain.topology}" does not exist; '
            + (f"there is {join_names(levels)}" if levels else "describe it first"),
            passing=True,
        )
    elif domain.level not in levels[domain.topology]:
        yield InputProblem(
            (*path, "level"),
            f'gang "{gang}": topology "{domain.topology}" has no level "{domain.level}"; '
            f"its levels are {join_names(levels[domain.topology])}",
            passing=True,
        )


def _membership(
    path: Path, task: Task, groups: Mapping[GangId, set[str]]
) -> Iterator[InputProblem]:
    if task.gang not in groups:
        yield InputProblem(
            (*path, "gang"),
            f'task "{task.id}": gang "{task.gang}" does not exist; add it or remove the task',
        )
    elif task.group not in groups[task.gang]:
        yield InputProblem(
            (*path, "group"),
            f'task "{task.id}": gang "{task.gang}" has no group "{task.group}"; '
            f"its groups are {join_names(sorted(map(repr, groups[task.gang])))}",
        )


def _place(path: Path, task: Task, nodes: Mapping[str, Node]) -> Iterator[InputProblem]:
    if task.state not in OCCUPYING:
        return
    for field in ("started_at", "releasing_since"):
        value: int | None = getattr(task, field)
        if value is not None:
            yield from check_range((*path, field), f'task "{task.id}": {field}', value, 0)
    if task.node not in nodes:
        yield InputProblem(
            (*path, "node"),
            f'task "{task.id}" is {task.state.value.lower()} on node "{task.node}", which does not '
            "exist; add the node or let the task wait",
        )
        return
    owner = f'task "{task.id}"'
    yield from check_slices((*path, "devices"), owner, task.devices, nodes[task.node])


def _slice(path: Path, owner: str, part: Slice, gpu: Gpu) -> Iterator[InputProblem]:
    if part.profile:
        profile = profile_of(gpu.model, part.profile) if gpu.mig else None
        if profile is None or part.start not in profile.starts:
            offers = offered_by(gpu.model) if gpu.mig else ()
            yield InputProblem(
                (*path, "profile"),
                f'{owner} has MIG instance "{part.profile}" at {part.start} of {gpu.model}, which '
                + (f"offers {join_names(offers)}" if offers else "is not cut by MIG")
                + "; correct it",
            )
    elif gpu.mig:
        yield InputProblem(
            (*path, "profile"),
            f"{owner} has a share of a {gpu.model} that is cut by MIG; name its profile",
        )
    else:
        yield from check_range((*path, "milli"), f"{owner}: thousandths", part.milli, 1, WHOLE)


def _incomplete(path: Path, fault: str, tasks: int) -> InputProblem:
    return InputProblem(
        path, f"{fault} is above its {tasks} tasks; lower it or add tasks", passing=True
    )
