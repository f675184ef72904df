"""In which order the parts of a gang are placed, and its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from windlass.engine.queueing.progress import TaskBatch
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Task

Some = TypeVar("Some")


def hardest_first(parts: Sequence[TaskBatch]) -> list[TaskBatch]:
    """Groups that want a domain, then large requests, then many tasks."""
    if len(parts) == 1:
        return list(parts)
    return sorted(parts, key=_ease)


def largest_first(tasks: Sequence[Task]) -> Sequence[Task]:
    """Tasks of different shapes by what they ask of GPUs: models by name, then the most."""
    if len(tasks) == 1 or all(task.shape is tasks[0].shape for task in tasks):
        return tasks
    return sorted(tasks, key=_size, reverse=True)


def one_by_one(
    some: Iterable[Some],
    place: Callable[[Some], bool],
    seeks: Callable[[Some], bool],
    look: Callable[[Some], object] = id,
) -> bool:
    """Place all; who seeks others, and finds no place yet, comes after them.

    Where one found no place, the next that looks the same is not tried.
    """
    left = list(some)
    while left:
        later: list[Some] = []
        for each in left:
            if not (later and look(later[-1]) == look(each)) and place(each):
                continue
            if not seeks(each):
                return False
            later.append(each)
        if len(later) == len(left):
            return False
        left = later
    return True


def look_of(task: Task) -> object:
    """What decides where a task may go, in one gang."""
    return task.shape, task.labels


def _size(task: Task) -> tuple[bool, int, int]:
    gpu = task.shape.request.gpu
    return bool(gpu and gpu.models), _milli(gpu), task.shape.request.cpu_milli


def _ease(part: TaskBatch) -> tuple[bool, int, int, str]:
    gpu = part.tasks[0].shape.request.gpu
    return part.group.domain is None, -_milli(gpu), -len(part.tasks), part.group.name


def _milli(gpu: GpuRequest | None) -> int:
    """Thousandths; memory and MIG instances, which depend on the device, fit beside others."""
    if gpu is None:
        return 0
    return gpu.count if gpu.memory_mib or gpu.profile else gpu.count * gpu.milli
