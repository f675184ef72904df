"""One run forward: what the engine would do if the future were as it was drawn.

Virtual time, real engine, on a copy of the cluster. Time goes in steps that grow with the distance,
because a start in three hours need not be known to the second: everything that happens within a
step is applied before the engine plans once. Tasks that are bound run at once; what is evicted is
gone with the next step. Nodes neither come nor go.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.engine.preemption.repeat_protection import DisplacedGangs
from windlass.forecast.experience import Experience, size_of, started_at
from windlass.forecast.sampling import FOR_EVER, Draws, Luck
from windlass.model.events import GangGone, GangSeen, TaskGone, TaskSeen, TaskStarted
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

LEAST_STEP_S = 30
STEP_PART = 10
"""A step is this part of the time that has gone by."""
LEAVES_AFTER_S = 10
"""How long evicted tasks keep their devices."""

SAVES_EVERY_S = 900
"""How often those save their work of whom it is known that they do."""


@dataclass(frozen=True, slots=True)
class Comes:
    """A gang is submitted."""

    gang: Gang
    tasks: list[Task]


@dataclass(frozen=True, slots=True)
class RunEnds:
    """A gang has done its work, unless it was stopped since (`turn`)."""

    gang: GangId
    turn: int


@dataclass(frozen=True, slots=True)
class TaskLeaves:
    """An evicted task is gone."""

    task: TaskId


Happening: TypeAlias = Comes | RunEnds | TaskLeaves


class Ahead:
    """A copy of the cluster on its way into one of its futures."""

    def __init__(self, snapshot: Snapshot, experience: Experience, until: int, luck: Luck) -> None:
        self.started: dict[GangId, int] = {}
        """When those started that waited or came."""
        self.cluster = Cluster.of(snapshot)
        """The copy, as far as it has come."""
        self._draws, self._luck = Draws(self.cluster, experience), luck
        self._began, self._until = snapshot.now, until
        self._heap: list[tuple[int, int, Happening]] = []
        self._sequence = 0
        self._displaced = DisplacedGangs()
        self._runs_s: dict[GangId, int] = {}
        self._turns: dict[GangId, int] = {}
        self._done_s = {gang: experience.saved_s(gang) for gang in self.cluster.gangs}
        """How much of its run each has behind it and safe."""
        self._since: dict[GangId, int] = {}
        self._set_out()

    def steps(self) -> Iterator[None]:
        """Go on, step by step, until all that waited have started or the time is over."""
        waiting = {gang for line in self.cluster.waiting.values() for gang in line}
        waiting -= self._since.keys()
        at: int | None = self.cluster.now
        while at is not None and at <= self._until and not waiting <= self.started.keys():
            around = self._happen_until(at)
            self.cluster.advance(at)
            self._save()
            for gang in self._displaced.changes(self.cluster):
                self.cluster.apply(GangSeen(gang))
            found = plan(self.cluster)
            self._carry_out(found, around)
            yield
            at = self._next(found)

    def _next(self, found: Plan) -> int | None:
        """The end of the next step in which something can change."""
        now = self.cluster.now
        instants = [self._heap[0][0]] if self._heap else []
        if found.wake_at is not None:
            instants.append(found.wake_at)
        if found.actions:
            instants.append(now)
        step_s = max(LEAST_STEP_S, (now - self._began) // STEP_PART)
        return max(min(instants), now + step_s) if instants else None

    # -- what happens

    def _set_out(self) -> None:
        """Draw when what runs will end, and who will come."""
        cluster = self.cluster
        for name in sorted(cluster.active):
            members = cluster.members(name)
            began = started_at(members)
            if name not in cluster.broken:
                self._begin(cluster.gangs[name], cluster.now if began is None else began)
        for task in cluster.leaving():
            self._later(cluster.now + LEAVES_AFTER_S, TaskLeaves(task.id))
        for at, gang, tasks in self._draws.arrivals(self._until, self._luck):
            self._later(at, Comes(gang, tasks))

    def _later(self, at: int, happening: Happening) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (at, self._sequence, happening))

    def _happen_until(self, at: int) -> int:
        """Let everything happen that happens by then; answers when, on average."""
        instants: list[int] = []
        while self._heap and self._heap[0][0] <= at:
            when, _, happening = heapq.heappop(self._heap)
            if self._happen(happening):
                instants.append(when)
        return sum(instants) // len(instants) if instants else at

    def _happen(self, happening: Happening) -> bool:
        cluster = self.cluster
        match happening:
            case Comes(gang, tasks):
                cluster.apply(GangSeen(gang))
                for each in tasks:
                    cluster.apply(TaskSeen(each))
            case RunEnds(name, turn):
                if self._turns.get(name) != turn:
                    return False
                cluster.apply(GangGone(name))
                self._displaced.forget(name)
                self._since.pop(name, None)
            case TaskLeaves(task):
                if task not in cluster.tasks:
                    return False
                gone = cluster.tasks[task]
                cluster.apply(TaskGone(task))
                cluster.apply(TaskSeen(successor(gone, cluster)))
        return True

    def _save(self) -> None:
        """Who saves its work goes on doing so: what displacing it costs does not grow for ever."""
        cluster = self.cluster
        for name in list(self._since):
            gang = cluster.gangs[name]
            if gang.saved_at is not None and cluster.now - gang.saved_at >= SAVES_EVERY_S:
                cluster.apply(GangSeen(replace(gang, saved_at=cluster.now)))

    # -- what the engine does about it

    def _carry_out(self, found: Plan, around: int) -> None:
        cluster = self.cluster
        cluster.assume(found)
        gangs = {cluster.tasks[bind.task].gang: None for bind in found.binds}
        for bind in found.binds:
            cluster.apply(TaskStarted(bind.task))
        for name in gangs:
            if name not in self._since and name not in cluster.broken:
                self.started.setdefault(name, around)
                self._begin(cluster.gangs[name], cluster.now)
        losers = {cluster.tasks[each.task].gang: None for each in found.going}
        for each in found.going:
            self._later(cluster.now + LEAVES_AFTER_S, TaskLeaves(each.task))
        for name in losers:
            if name in cluster.broken or name not in cluster.active:
                self._stop(name)

    def _begin(self, gang: Gang, since: int) -> None:
        """A gang works; its end is drawn once and for all."""
        name = gang.id
        done_s = self._done_s.get(name, 0)
        if name not in self._runs_s:
            size = size_of(self.cluster.members(name))
            so_far_s = done_s + self.cluster.now - since
            self._runs_s[name] = self._draws.run_s(gang, size, so_far_s, self._luck)
        self._since[name] = since
        self._turns[name] = turn = self._turns.get(name, 0) + 1
        if self._runs_s[name] < FOR_EVER:
            self._later(since + self._runs_s[name] - done_s, RunEnds(name, turn))

    def _stop(self, name: GangId) -> None:
        """A gang was displaced; it goes on from its last save, if it makes any."""
        since = self._since.pop(name, None)
        self._turns[name] = self._turns.get(name, 0) + 1
        self._displaced.note(name, (task.node for task in self.cluster.members(name) if task.node))
        if since is not None and self.cluster.gangs[name].saved_at is not None:
            self._done_s[name] = self._done_s.get(name, 0) + self.cluster.now - since


def successor(task: Task, cluster: Cluster) -> Task:
    """The task that its owner would make in the place of one that is gone."""
    number = 1
    while (name := TaskId(f"{task.id}.r{number}")) in cluster.tasks:
        number += 1
    return task.successor(name)
