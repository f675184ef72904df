"""Changes of a job's order and size: queue, priority, preemption, GPUs per task and minimum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from windlass.engine.suggestions.catalog import (
    MOST_ALTERNATIVES,
    ChangeKind,
    Ladder,
    Ladders,
    SuggestedChange,
    WaitingGang,
    resubmitted,
    single_change,
    with_gpu,
)
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Gang, Task

# --- the order among others -----------------------------------------------------------------------


def _queues(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield the other queues, the nearest in the tree first."""
    path = waiting.cluster.accounts.path
    own_path = set(path(waiting.gang.queue))
    others = [queue for queue in waiting.queues if queue != waiting.gang.queue]
    others.sort(key=lambda queue: (-len(own_path & set(path(queue))), queue))
    for name in others[:MOST_ALTERNATIVES]:
        events = resubmitted(waiting, replace(waiting.gang, queue=name))
        yield single_change(ChangeKind.QUEUE, f"in queue {name}", {"queue": name}, events)


def _priorities(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield the higher priorities that matter: those of gangs in its queue, and one above each."""
    gang = waiting.gang
    gangs = waiting.cluster.gangs.values()
    existing = {other.priority for other in gangs if other.queue == gang.queue}
    higher = sorted({n for each in existing for n in (each, each + 1) if n > gang.priority})

    def rung(number: int) -> SuggestedChange:
        priority = higher[number - 1]
        says = f"with priority {priority} instead of {gang.priority}"
        values = {"priority": priority, "before": gang.priority}
        return SuggestedChange(
            ChangeKind.PRIORITY,
            says,
            values,
            resubmitted(waiting, replace(gang, priority=priority)),
        )

    if higher:
        yield Ladder(rung, len(higher))


def _preemptible(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield that the gang may be preempted, if it may not be now."""
    if not waiting.gang.preemptible:
        events = resubmitted(waiting, replace(waiting.gang, preemptible=True))
        yield single_change(ChangeKind.PREEMPTIBLE, "if it could be preempted", {}, events)


def _haste(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield that the gang preempts at once, if it waits for free room first."""
    if waiting.gang.displaces_after_s != 0:
        events = resubmitted(waiting, replace(waiting.gang, displaces_after_s=0))
        says = "if it displaced others at once, instead of waiting for free room first"
        yield single_change(ChangeKind.HASTE, says, {}, events)


# --- the size of the request ----------------------------------------------------------------------


def _gpus(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield fewer GPUs per task: the largest requests are cut to a common bound."""
    counts = {gpu.count for task in waiting.tasks if (gpu := task.shape.request.gpu)}
    most = max(counts, default=0)

    def rung(number: int) -> SuggestedChange:
        left = most - number
        tasks = [with_gpu(task, partial(_at_most, left)) for task in waiting.tasks]
        freed = sum(_milli(a) - _milli(b) for a, b in zip(waiting.tasks, tasks, strict=True))
        bound = "at most " if len(counts) > 1 else ""
        says = f"with {bound}{left} GPU{'s' * (left > 1)} per task instead of {most}"
        values = {"gpus": left, "before": most}
        return SuggestedChange(
            ChangeKind.GPUS, says, values, resubmitted(waiting, tasks=tasks), freed
        )

    if most > 1:
        yield Ladder(rung, most - 1)


def _at_most(count: int, gpu: GpuRequest) -> GpuRequest:
    return replace(gpu, count=min(gpu.count, count))


def _milli(task: Task) -> int:
    """Return the thousandths of GPUs that a task requests."""
    gpu = task.shape.request.gpu
    return gpu.count * gpu.milli if gpu else 0


def _minimums(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield smaller minimums, of each group or of the whole gang; the other tasks join later."""
    gang = waiting.gang
    whole = sum(group.minimum for group in gang.groups)
    for at, group in enumerate(gang.groups):
        if group.minimum > 1:
            yield Ladder(partial(_less_of_group, waiting, at), group.minimum - 1)
    if gang.minimum > max(1, whole):
        yield Ladder(partial(_less_of_all, waiting), gang.minimum - max(1, whole))


def _less_of_group(waiting: WaitingGang, at: int, number: int) -> SuggestedChange:
    gang = waiting.gang
    group = replace(gang.groups[at], minimum=gang.groups[at].minimum - number)
    groups = (*gang.groups[:at], group, *gang.groups[at + 1 :])
    less = replace(gang, groups=groups, minimum=max(0, gang.minimum - number))
    return _with_minimum(waiting, less, gang.groups[at].minimum, group.minimum, group.name)


def _less_of_all(waiting: WaitingGang, number: int) -> SuggestedChange:
    before = waiting.gang.minimum
    less = replace(waiting.gang, minimum=before - number)
    return _with_minimum(waiting, less, before, less.minimum, "")


def _with_minimum(
    waiting: WaitingGang, gang: Gang, before: int, after: int, group: str
) -> SuggestedChange:
    of_group = f" of its {group}" if group else ""
    says = f"with a minimum of {after} task{'s' * (after > 1)}{of_group} instead of {before}"
    values = {"group": group, "minimum": after, "before": before}
    later = sum(map(_milli, waiting.tasks)) * (before - after) // max(1, len(waiting.tasks))
    return SuggestedChange(ChangeKind.MINIMUM, says, values, resubmitted(waiting, gang), later)


JOB_CHANGES: dict[ChangeKind, Ladders] = {
    ChangeKind.QUEUE: _queues,
    ChangeKind.PREEMPTIBLE: _preemptible,
    ChangeKind.HASTE: _haste,
    ChangeKind.PRIORITY: _priorities,
    ChangeKind.GPUS: _gpus,
    ChangeKind.MINIMUM: _minimums,
}
"""The kinds of change, in the order in which they are tried."""
