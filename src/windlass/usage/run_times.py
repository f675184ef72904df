"""Run times of finished work by queue, user, name and size, and estimates for similar work.

Run times spread over many orders of magnitude, so the mean and variance of their binary logarithms
are kept: an estimate is a median, and its error a factor. The narrowest group with enough runs
gives the estimate. Digits at the end of a name are dropped, since they only number the attempts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

from windlass.model.jobs import Gang, Task, TaskState

ENOUGH = 3
"""The runs that a group needs to give an estimate."""
MOST = 10_000
"""The most groups that are kept; of more, those without a run for the longest time are dropped."""
_SCALE = 1000
"""Logarithms are kept as integers in thousandths, so that snapshots hold them without loss."""


class WorkGroup(NamedTuple):
    """A group of similar work; an empty field matches everything."""

    queue: str = ""
    user: str = ""
    name: str = ""
    gpu_milli: int = 0

    @classmethod
    def of(cls, gang: Gang, members: Collection[Task]) -> WorkGroup:
        """Return the narrowest group of a gang, by the GPUs of its members."""
        requests = (task.shape.request.gpu for task in members)
        milli = sum(gpu.count * gpu.milli for gpu in requests if gpu is not None)
        return cls(gang.queue, gang.user, gang.job, milli)


class Estimate(NamedTuple):
    """An expected run time, and the factor by which it is usually wrong, in thousandths."""

    seconds: int
    error: int


class RunGroup(NamedTuple):
    """The statistics of a group: number of runs, sum of logarithms, sum of their squares."""

    runs: int = 0
    total: int = 0
    squares: int = 0


class Runs:
    """The statistics of all groups."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[WorkGroup, RunGroup] = {}
        """The group that learned last stands last."""

    def note_end(self, gang: Gang, members: Collection[Task], task: Task, now: int) -> None:
        """Learn from the first member of a gang that succeeds; later ones are ignored."""
        is_first = all(member.state != TaskState.SUCCEEDED for member in members)
        if is_first and task.started_at is not None:
            self.learn(WorkGroup.of(gang, members), gang.served_s + now - task.started_at)

    def learn(self, who: WorkGroup, seconds: int) -> None:
        """Add a successful run of some seconds to a group and all wider ones."""
        log = round(math.log2(max(1, seconds)) * _SCALE)
        for group in _wider(who):
            known = self._groups.pop(group, RunGroup())
            squares = known.squares + log * log // _SCALE
            self._groups[group] = RunGroup(known.runs + 1, known.total + log, squares)
        while len(self._groups) > MOST:
            del self._groups[next(iter(self._groups))]

    def estimate(self, who: WorkGroup) -> Estimate | None:
        """Return the estimate of the narrowest group with enough runs; None if there is none."""
        for group in _wider(who):
            known = self._groups.get(group)
            if known is not None and known.runs >= ENOUGH:
                mean = known.total // known.runs
                spread = max(0, known.squares // known.runs - mean * mean // _SCALE)
                factor = 2 ** math.sqrt(spread / _SCALE)
                return Estimate(round(2 ** (mean / _SCALE)), round(factor * 1000))
        return None

    def restore(self, who: WorkGroup, group: RunGroup) -> None:
        """Set the statistics of a group, from a snapshot."""
        self._groups[who] = group

    def __iter__(self) -> Iterator[tuple[WorkGroup, RunGroup]]:
        return iter(self._groups.items())


def _wider(who: WorkGroup) -> tuple[WorkGroup, ...]:
    """Return the group, then wider and wider ones."""
    queue, user, name, size = who
    name = name.rstrip("0123456789.-_")
    return (
        WorkGroup(queue, user, name, size),
        WorkGroup(queue, "", name, size),
        WorkGroup(queue, user, "", size),
        WorkGroup(queue, "", "", size),
        WorkGroup(),
    )
