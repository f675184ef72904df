"""A gang in a simulation: its members, their saved work, and the account of their useful work.

A gang that saves by itself does so at a fixed period within each stretch of work. A checkpoint
covers all members, and a restart continues from it. From its bind on, the devices of a member count
as allocated to its queue: as useful while it works, as idle until then. When it stops before its
end, only the saved part remains useful; the rest is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from windlass.model.actions import Bind
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.model.nodes import Node
from windlass.sim.metrics import Meter, worth
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


class Effort:
    """Counts the GPU time of members for their queues and their gangs."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def take(self, member: Member, bind: Bind, node: Node) -> None:
        """Allocate devices of a node to a member."""
        member.bind = bind
        member.asked = worth(member.task.shape.request.gpu, node, bind.devices)
        member.given = sum(each.milli for each in bind.devices)
        self._meter.take(bind.node, bind.devices)
        self._count(member, 1)

    def work(self, member: Member, since: int | None) -> None:
        """Set since when a member works; None if it does not work any more."""
        self._count(member, -1)
        member.since = since
        self._count(member, 1)

    def stop(self, member: Member, now: int, displaced: bool) -> None:
        """Stop the work of a member and keep only the saved part of this stretch."""
        crew = member.crew
        member.turn += 1
        if member.since is None:
            return
        saved_at = max(member.since, crew.saved_at(now))
        self.note(member, now if crew.arrival.runs_s is None else saved_at)
        if crew.arrival.runs_s is not None:
            member.saved_s += saved_at - member.since
            spent = (now - saved_at) * member.asked
            self._meter.lose(crew.record.gang.queue, spent, displaced)
        self.work(member, None)

    def note(self, member: Member, until: int) -> None:
        """Add the work of a member in this stretch to its gang."""
        if member.since is not None:
            since = max(member.since, member.crew.arrival.at)
            member.crew.record.worked += max(0, until - since) * member.asked

    def give_back(self, member: Member, now: int, to_node: bool) -> None:
        """Return the devices of a member that is over, if their node still exists."""
        self.note(member, now)
        self._count(member, -1)
        if member.bind and to_node:
            self._meter.take(member.bind.node, member.bind.devices, -1)

    def _count(self, member: Member, sign: int) -> None:
        """Add (sign 1) or remove (sign -1) the devices of a member in the tally of its queue."""
        tally = self._meter.of(member.crew.record.gang.queue)
        tally.allocated += sign * member.given
        if member.since is not None:
            tally.useful += sign * member.asked
        else:
            tally.idle += sign * member.given
