"""A gang on its way through a simulation: its members, and how much of their work is safe.

A crew that saves its work does so every so many seconds of every stretch in which it works. A save
covers all members; whoever goes on later goes on from there.
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
"""What works on a broken node fails after so long."""


@dataclass(slots=True)
class Member:
    """A task that has not ended: as submitted, and where it is now."""

    task: Task
    crew: GangRun
    first: TaskId
    generation: int = 0
    bind: Bind | None = None
    runs: bool = False
    terminates: bool = False
    """It was evicted; it keeps its devices until it is gone."""
    since: int | None = None
    """Since when it does useful work."""
    saved_s: int = 0
    """How much of its run is saved, from all the stretches before this one."""
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
    """When this stretch of work began, or the last one."""
    stretch: int = 0
    asked_at: int | None = None
    """When it was asked for the save that it made last."""
    is_over: bool = False
    """It has run for as long as it may: it ends when the last of its tasks is gone."""

    def saved_at(self, now: int) -> int:
        """When the work of this stretch was last saved; before the first time, its beginning."""
        every = 1 if self.arrival.saves_when_stopped else self.arrival.saves_every_s
        latest = self.began if every is None else now - (now - self.began) % every
        return latest if self.asked_at is None else max(latest, self.asked_at)


class NextSave:
    """When which crew saves its work next, and the stretch of work that this belongs to."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: list[tuple[int, GangId, int]] = []

    def expect(self, crew: GangRun, now: int) -> None:
        """A crew works; if it saves by itself, it will."""
        every = crew.arrival.saves_every_s
        if every is not None:
            at = crew.saved_at(now) + every
            heappush(self._next, (at, crew.record.gang.id, crew.stretch))

    def due(self, now: int, crews: Mapping[GangId, GangRun]) -> Iterator[GangRun]:
        """The crews that have saved until now, once for each time that they did."""
        while self._next and self._next[0][0] <= now:
            _, gang, stretch = heappop(self._next)
            crew = crews.get(gang)
            if crew and crew.works and crew.stretch == stretch:
                yield crew
                self.expect(crew, now)


def is_up(crew: GangRun) -> bool:
    """Does the whole minimum run, or has run?"""
    runs = [each for each in crew.members.values() if each.runs]
    return crew.record.gang.has_minimum(_counted(crew, runs))


def is_whole(crew: GangRun) -> bool:
    """Does the whole minimum have its places, or has run?"""
    keeps = [each for each in crew.members.values() if each.bind and not each.terminates]
    return crew.record.gang.has_minimum(_counted(crew, keeps))


def ends_in(member: Member, on_broken_node: bool) -> tuple[int | None, bool]:
    """In how many seconds of work a member ends, if ever, and whether well."""
    arrival = member.crew.arrival
    if on_broken_node:
        return BREAKS_AFTER_S, False
    left_s = None if arrival.runs_s is None else arrival.runs_s - member.saved_s
    fails_s = arrival.fails_after_s if member.task.id == arrival.tasks[0].id else None
    if fails_s is not None and (left_s is None or fails_s < left_s):
        return fails_s, False
    return left_s, True


def whole_since(gang: Gang, tasks: Iterable[Task]) -> int | None:
    """When as many of the tasks ran as the gang needs; None if nobody ran."""
    started = sorted(each.started_at for each in tasks if each.started_at is not None)
    return started[min(gang.needed(), len(started)) - 1] if started else None


def _counted(crew: GangRun, members: list[Member]) -> dict[str, int]:
    """So many of each group, with those that have succeeded."""
    there = dict(crew.succeeded)
    for member in members:
        there[member.task.group] = there.get(member.task.group, 0) + 1
    return there
