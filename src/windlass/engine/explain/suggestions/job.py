"""Changes of a job that stays where it may run: its place in line, and how much it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from windlass.engine.explain.suggestions.catalog import (
    MOST_ALTERNATIVES,
    ChangeKind,
    Ladder,
    Ladders,
    SuggestedChange,
    WaitingGang,
    again,
    once,
    with_gpu,
)
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Gang, Task

# --- where it stands in line ----------------------------------------------------------------------


def _queues(asked: WaitingGang) -> Iterator[Ladder]:
    """Another queue, the nearest in the tree first."""
    path = asked.cluster.accounts.path
    mine = set(path(asked.gang.queue))
    others = [each for each in asked.queues if each != asked.gang.queue]
    others.sort(key=lambda each: (-len(mine & set(path(each))), each))
    for name in others[:MOST_ALTERNATIVES]:
        events = again(asked, replace(asked.gang, queue=name))
        yield once(ChangeKind.QUEUE, f"in queue {name}", {"queue": name}, events)


def _priorities(asked: WaitingGang) -> Iterator[Ladder]:
    """As much as one of its queue has, or one more; nothing else makes a difference."""
    gang = asked.gang
    mates = {each.priority for each in asked.cluster.gangs.values() if each.queue == gang.queue}
    higher = sorted({n for each in mates for n in (each, each + 1) if n > gang.priority})

    def rung(number: int) -> SuggestedChange:
        priority = higher[number - 1]
        says = f"with priority {priority} instead of {gang.priority}"
        values = {"priority": priority, "before": gang.priority}
        return SuggestedChange(
            ChangeKind.PRIORITY, says, values, again(asked, replace(gang, priority=priority))
        )

    if higher:
        yield Ladder(rung, len(higher))


def _preemptible(asked: WaitingGang) -> Iterator[Ladder]:
    if not asked.gang.preemptible:
        events = again(asked, replace(asked.gang, preemptible=True))
        yield once(ChangeKind.PREEMPTIBLE, "if it could be preempted", {}, events)


def _haste(asked: WaitingGang) -> Iterator[Ladder]:
    if asked.gang.displaces_after_s != 0:
        events = again(asked, replace(asked.gang, displaces_after_s=0))
        says = "if it displaced others at once, instead of waiting for free room first"
        yield once(ChangeKind.HASTE, says, {}, events)


# --- how much it asks for -------------------------------------------------------------------------


def _gpus(asked: WaitingGang) -> Iterator[Ladder]:
    """Fewer GPUs per task: whoever has more than so many gets so many."""
    counts = {gpu.count for task in asked.tasks if (gpu := task.shape.request.gpu)}
    most = max(counts, default=0)

    def rung(number: int) -> SuggestedChange:
        left = most - number
        tasks = [with_gpu(task, partial(_at_most, left)) for task in asked.tasks]
        freed = sum(_asks(a) - _asks(b) for a, b in zip(asked.tasks, tasks, strict=True))
        bound = "at most " if len(counts) > 1 else ""
        says = f"with {bound}{left} GPU{'s' * (left > 1)} per task instead of {most}"
        values = {"gpus": left, "before": most}
        return SuggestedChange(ChangeKind.GPUS, says, values, again(asked, tasks=tasks), freed)

    if most > 1:
        yield Ladder(rung, most - 1)


def _at_most(count: int, gpu: GpuRequest) -> GpuRequest:
    return replace(gpu, count=min(gpu.count, count))


def _asks(task: Task) -> int:
    gpu = task.shape.request.gpu
    return gpu.count * gpu.milli if gpu else 0


def _minimums(asked: WaitingGang) -> Iterator[Ladder]:
    """A smaller minimum, of each group or of the gang as a whole; the others join later."""
    gang = asked.gang
    whole = sum(group.minimum for group in gang.groups)
    for at, group in enumerate(gang.groups):
        if group.minimum > 1:
            yield Ladder(partial(_less_of_group, asked, at), group.minimum - 1)
    if gang.minimum > max(1, whole):
        yield Ladder(partial(_less_of_all, asked), gang.minimum - max(1, whole))


def _less_of_group(asked: WaitingGang, at: int, number: int) -> SuggestedChange:
    gang = asked.gang
    group = replace(gang.groups[at], minimum=gang.groups[at].minimum - number)
    groups = (*gang.groups[:at], group, *gang.groups[at + 1 :])
    less = replace(gang, groups=groups, minimum=max(0, gang.minimum - number))
    return _with_minimum(asked, less, gang.groups[at].minimum, group.minimum, group.name)


def _less_of_all(asked: WaitingGang, number: int) -> SuggestedChange:
    before = asked.gang.minimum
    less = replace(asked.gang, minimum=before - number)
    return _with_minimum(asked, less, before, less.minimum, "")


def _with_minimum(
    asked: WaitingGang, gang: Gang, before: int, after: int, group: str
) -> SuggestedChange:
    of = f" of its {group}" if group else ""
    says = f"with a minimum of {after} task{'s' * (after > 1)}{of} instead of {before}"
    values = {"group": group, "minimum": after, "before": before}
    later = sum(map(_asks, asked.tasks)) * (before - after) // max(1, len(asked.tasks))
    return SuggestedChange(ChangeKind.MINIMUM, says, values, again(asked, gang), later)


OF_THE_JOB: dict[ChangeKind, Ladders] = {
    ChangeKind.QUEUE: _queues,
    ChangeKind.PREEMPTIBLE: _preemptible,
    ChangeKind.HASTE: _haste,
    ChangeKind.PRIORITY: _priorities,
    ChangeKind.GPUS: _gpus,
    ChangeKind.MINIMUM: _minimums,
}
"""In the order in which they are tried."""
