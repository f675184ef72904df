"""How long work ran, learned from what has ended: by team, user, name and size.

Run times spread over many orders of magnitude, so their logarithms are averaged: an estimate is a
middle value, and its error a factor. The narrowest group that has seen enough speaks; numbers at
the end of a name are left away, since they only count the tries.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

from windlass.model.jobs import Gang, Task, TaskState

ENOUGH = 3
"""So many runs make a group worth asking."""
MOST = 10_000
"""Groups that are remembered; of more, those that were heard of longest ago are forgotten."""
_SCALE = 1000


class WorkGroup(NamedTuple):
    """A group of like work; what is empty is not looked at."""

    queue: str = ""
    user: str = ""
    name: str = ""
    gpu_milli: int = 0

    @classmethod
    def of(cls, gang: Gang, members: Collection[Task]) -> WorkGroup:
        """The like of which a gang is."""
        asked = (each.shape.request.gpu for each in members)
        milli = sum(gpu.count * gpu.milli for gpu in asked if gpu is not None)
        return cls(gang.queue, gang.user, gang.job, milli)


class Estimate(NamedTuple):
    """An expected run time, and by which factor it is usually wrong, in thousandths."""

    seconds: int
    error: int


class RunGroup(NamedTuple):
    """What is known of a group: runs, and their logarithms and squares of these, in thousandths."""

    runs: int = 0
    total: int = 0
    squares: int = 0


class Runs:
    """Everything learned so far."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[WorkGroup, RunGroup] = {}

    def note_end(self, gang: Gang, members: Collection[Task], task: Task, now: int) -> None:
        """The first member of a gang that succeeds tells how long such work runs."""
        is_first = all(each.state != TaskState.SUCCEEDED for each in members)
        if is_first and task.started_at is not None:
            self.learn(WorkGroup.of(gang, members), gang.served_s + now - task.started_at)

    def learn(self, who: WorkGroup, seconds: int) -> None:
        """A piece of work has ended well, after so long."""
        log = round(math.log2(max(1, seconds)) * _SCALE)
        for each in _wider(who):
            known = self._groups.pop(each, RunGroup())
            more = known.squares + log * log // _SCALE
            self._groups[each] = RunGroup(known.runs + 1, known.total + log, more)
        while len(self._groups) > MOST:
            del self._groups[next(iter(self._groups))]

    def estimate(self, who: WorkGroup) -> Estimate | None:
        """How long such work runs, as the narrowest group that has seen enough tells it."""
        for each in _wider(who):
            known = self._groups.get(each)
            if known is not None and known.runs >= ENOUGH:
                mean = known.total // known.runs
                spread = max(0, known.squares // known.runs - mean * mean // _SCALE)
                factor = 2 ** math.sqrt(spread / _SCALE)
                return Estimate(round(2 ** (mean / _SCALE)), round(factor * 1000))
        return None

    def restore(self, who: WorkGroup, group: RunGroup) -> None:
        """Take over what was written down."""
        self._groups[who] = group

    def __iter__(self) -> Iterator[tuple[WorkGroup, RunGroup]]:
        return iter(self._groups.items())


def _wider(who: WorkGroup) -> tuple[WorkGroup, ...]:
    """The group, then wider and wider ones."""
    queue, user, name, size = who
    name = name.rstrip("0123456789.-_")
    return (
        WorkGroup(queue, user, name, size),
        WorkGroup(queue, "", name, size),
        WorkGroup(queue, user, "", size),
        WorkGroup(queue, "", "", size),
        WorkGroup(),
    )
