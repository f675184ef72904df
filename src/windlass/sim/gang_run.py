"""A gang in a simulation: its members, and how much of their work is saved.

A gang that saves by itself does so at a fixed period within each stretch of work. A checkpoint
covers all members, and a restart continues from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from windlass.model.actions import Bind
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.sim.records import GangRecord
from windlass.sim.workload import Arrival

BREAKS_AFTER_S = 30
"""The time in seconds after which a task on a broken node fails."""


@dataclass(slots=True)
class Member:
    """A task that has not ended: its description as submitted, and its current place."""

    task: Task
    crew: GangRun
    first: TaskId
    generation: int = 0
    bind: Bind | None = None
    runs: bool = False
    terminates: bool = False
    """True after its eviction; it keeps its devices until it is gone."""
    since: int | None = None
    """The time since which it does useful work; None if it does none."""
    saved_s: int = 0
    """The saved part of its run in seconds, from all earlier stretches of work."""
    turn: int = 0
    asked: int = 0
    given: int = 0


def _no_members() -> dict[TaskId, Member]:
    return {}


def _no_counts() -> dict[str, int]:
    return {}


@dataclass(slots=True)
class GangRun:
    """A gang that has not ended, with its members."""

    arrival: Arrival
    record: GangRecord
    members: dict[TaskId, Member] = field(default_factory=_no_members)
    succeeded: dict[str, int] = field(default_factory=_no_counts)
    works: bool = False
    began: int = 0
    """The time at which the current or the last stretch of work began."""
    stretch: int = 0
    asked_at: int | None = None
    """The time of the checkpoint request that it answered last; None if there was none."""
    is_over: bool = False
    """True after its maximum run time: it ends when its last task is gone."""

    def saved_at(self, now: int) -> int:
        """Return the time of the last checkpoint of this stretch, or its beginning if there is
        none."""
        every = 1 if self.arrival.saves_when_stopped else self.arrival.saves_every_s
        latest = self.began if every is None else now - (now - self.began) % every
        return latest if self.asked_at is None else max(latest, self.asked_at)


class NextSave:
    """The times of the next periodic checkpoint of each gang, with the stretch of work they belong
    to."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: list[tuple[int, GangId, int]] = []

    def expect(self, crew: GangRun, now: int) -> None:
        """Schedule the next periodic checkpoint of a gang that works, if it makes any."""
        every = crew.arrival.saves_every_s
        if every is not None:
            at = crew.saved_at(now) + every
            heappush(self._next, (at, crew.record.gang.id, crew.stretch))

    def due(self, now: int, crews: Mapping[GangId, GangRun]) -> Iterator[GangRun]:
        """Yield each gang that has made a checkpoint until now, once for each checkpoint."""
        while self._next and self._next[0][0] <= now:
            _, gang, stretch = heappop(self._next)
            crew = crews.get(gang)
            if crew and crew.works and crew.stretch == stretch:
                yield crew
                self.expect(crew, now)


def is_up(crew: GangRun) -> bool:
    """Return whether the whole minimum runs or has succeeded."""
    runs = [each for each in crew.members.values() if each.runs]
    return crew.record.gang.has_minimum(_counted(crew, runs))


def is_whole(crew: GangRun) -> bool:
    """Return whether the whole minimum has its places or has succeeded."""
    keeps = [each for each in crew.members.values() if each.bind and not each.terminates]
    return crew.record.gang.has_minimum(_counted(crew, keeps))


def ends_in(member: Member, on_broken_node: bool) -> tuple[int | None, bool]:
    """Return after how many seconds of work a member ends (None if never), and whether it
    succeeds."""
    arrival = member.crew.arrival
    if on_broken_node:
        return BREAKS_AFTER_S, False
    left_s = None if arrival.runs_s is None else arrival.runs_s - member.saved_s
    fails_s = arrival.fails_after_s if member.task.id == arrival.tasks[0].id else None
    if fails_s is not None and (left_s is None or fails_s < left_s):
        return fails_s, False
    return left_s, True


def whole_since(gang: Gang, tasks: Iterable[Task]) -> int | None:
    """Return the time since which the minimum has run; None if no task has started."""
    started = sorted(each.started_at for each in tasks if each.started_at is not None)
    return started[min(gang.needed(), len(started)) - 1] if started else None


def _counted(crew: GangRun, members: list[Member]) -> dict[str, int]:
    """Return the number of members of each group, succeeded ones included."""
    there = dict(crew.succeeded)
    for member in members:
        there[member.task.group] = there.get(member.task.group, 0) + 1
    return there
