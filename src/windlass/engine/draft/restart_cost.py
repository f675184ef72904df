"""What displacing work would cost: the GPU time that has to be spent again.

Everything since the last save is lost, or since the start where nothing was saved, and starting
again takes a while. Who can be asked to save before it goes, or saves by itself, loses little more
than that. This is the one place that prices harm: who knows more (a node about to leave) adds it
here.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.model.gpu_resources import extra_milli
from windlass.model.jobs import Gang, Task

RESTART_S = 60
"""What starting again costs even if nothing is lost."""


def harm(
    gang: Gang, tasks: Iterable[Task], now: int, stops: bool = True, hurry_s: int | None = None
) -> int:
    """Thousandth GPU-seconds lost if these tasks are displaced now.

    A gang that only shrinks, and does not stop, goes on with what it has done. For somebody in a
    hurry others may have less time to save than they need.
    """
    lost = 0
    for task in tasks:
        milli = sum([each.milli for each in task.devices])
        if task.shape.request.extra:
            milli += extra_milli(task.shape.request)
        lost += milli * (RESTART_S + (unsaved(gang, task, now, hurry_s) if stops else 0))
    return lost


def unsaved(gang: Gang, task: Task, now: int, hurry_s: int | None = None) -> int:
    """Seconds of work that would be lost: of what saves when asked, what that takes at most.

    Whoever is in a hurry does not wait for those that may take longer.
    """
    if task.started_at is None:
        return 0
    since = max(0, now - max(task.started_at, gang.saved_at or task.started_at))
    within_s = gang.saves_within_s
    if hurry_s is not None and within_s is not None and within_s > hurry_s:
        within_s = None
    bounds = (within_s, gang.unsaved_at_most_s)
    return min((since, *(each for each in bounds if each is not None)))


def frees_in(gang: Gang, hurry_s: int) -> int:
    """Seconds until its places are free at the latest, for somebody in a hurry."""
    return min(gang.saves_within_s or 0, hurry_s) + gang.terminates_s
