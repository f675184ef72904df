"""What displacing work would cost: the GPU time that has to be spent again.

Everything since the last save is lost, or since the start where nothing was saved, and starting
again takes a while. This is the one place that prices harm: who knows more (a checkpoint being
written, a node about to leave) adds it here.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.model.jobs import Gang, Task

RESTART_S = 60
"""What starting again costs even if nothing is lost."""


def harm(gang: Gang, tasks: Iterable[Task], now: int, stops: bool = True) -> int:
    """Thousandth GPU-seconds lost if these tasks are displaced now, and whether the gang stops.

    A gang that only shrinks goes on with what it has done.
    """
    lost = 0
    for task in tasks:
        milli = sum([each.milli for each in task.devices])
        lost += milli * (RESTART_S + (unsaved(gang, task, now) if stops else 0))
    return lost


def unsaved(gang: Gang, task: Task, now: int) -> int:
    """Seconds of work that exist nowhere but in the running task."""
    if task.started_at is None:
        return 0
    return max(0, now - max(task.started_at, gang.saved_at or task.started_at))
