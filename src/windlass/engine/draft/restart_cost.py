"""The cost of displacing work: the GPU time that has to be spent again, called its harm.

A task that is stopped loses its work since the last checkpoint, or since its start if there is
none, and starting again takes `RESTART_S`. A gang that can save on request loses at most the time
that a save takes (`Gang.saves_within_s`); for a gang that saves by itself the user may state a
bound (`Gang.unsaved_at_most_s`). No other module computes this cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.model.gpu.resources import extra_milli
from windlass.model.jobs import Gang, Task

RESTART_S = 60
"""The seconds that starting again costs even if no work is lost."""


def harm(
    gang: Gang, tasks: Iterable[Task], now: int, stops: bool = True, hurry_s: int | None = None
) -> int:
    """Return the harm of displacing these tasks now, in thousandths of GPUs times seconds.

    A gang that only shrinks (`stops` is False) loses no work. `hurry_s` is the longest time, in
    seconds, that the preemptor gives its victims to save; None: as long as they need.
    """
    lost = 0
    for task in tasks:
        milli = sum([slice_.milli for slice_ in task.devices])
        if task.shape.request.extra:
            milli += extra_milli(task.shape.request)
        lost += milli * (RESTART_S + (unsaved(gang, task, now, hurry_s) if stops else 0))
    return lost


def unsaved(gang: Gang, task: Task, now: int, hurry_s: int | None = None) -> int:
    """Return the seconds of work that a task would lose; 0 if it has not started.

    A gang that saves on request loses at most the time that a save takes, unless that is longer
    than the preemptor waits (`hurry_s`).
    """
    if task.started_at is None:
        return 0
    since = max(0, now - max(task.started_at, gang.saved_at or task.started_at))
    within_s = gang.saves_within_s
    if hurry_s is not None and within_s is not None and within_s > hurry_s:
        within_s = None
    bounds = (within_s, gang.unsaved_at_most_s)
    return min((since, *(bound for bound in bounds if bound is not None)))


def frees_in(gang: Gang, hurry_s: int) -> int:
    """Return the seconds until an evicted gang has left its places, if it gets at most `hurry_s` to
    save."""
    return min(gang.saves_within_s or 0, hurry_s) + gang.terminates_s
