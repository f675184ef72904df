"""A gang on its way through a simulation: its members, and how much of their work is safe.

A crew that saves its work does so every so many seconds of every stretch in which it works. A save
covers all members; whoever goes on later goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.model.actions import Bind
from windlass.model.jobs import Task, TaskId
from windlass.sim.records import Record
from windlass.sim.workload import Arrival


@dataclass(slots=True)
class Member:
    """A task that has not ended: as submitted, and where it is now."""

    task: Task
    crew: Crew
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
class Crew:
    """A gang that has not ended, with its members."""

    arrival: Arrival
    record: Record
    members: dict[TaskId, Member] = field(default_factory=_no_members)
    succeeded: dict[str, int] = field(default_factory=_no_counts)
    works: bool = False
    began: int = 0
    """When this stretch of work began, or the last one."""
    stretch: int = 0

    def saved_at(self, now: int) -> int:
        """When the work of this stretch was last saved; before the first time, its beginning."""
        every = self.arrival.saves_every_s
        return self.began if every is None else now - (now - self.began) % every


def is_up(crew: Crew) -> bool:
    """Does the whole minimum run, or has run?"""
    return has_enough(crew, _counted(crew, [each for each in crew.members.values() if each.runs]))


def is_whole(crew: Crew) -> bool:
    """Does the whole minimum have its places, or has run?"""
    keeps = [each for each in crew.members.values() if each.bind and not each.terminates]
    return has_enough(crew, _counted(crew, keeps))


def has_enough(crew: Crew, there: dict[str, int]) -> bool:
    """Do so many tasks per group make up the minimum?"""
    gang = crew.record.gang
    if sum(there.values()) < gang.needed():
        return False
    return all(there.get(group.name, 0) >= group.minimum for group in gang.groups)


def _counted(crew: Crew, members: list[Member]) -> dict[str, int]:
    """So many of each group, with those that have succeeded."""
    there = dict(crew.succeeded)
    for member in members:
        there[member.task.group] = there.get(member.task.group, 0) + 1
    return there
