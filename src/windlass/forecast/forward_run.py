"""One forward run: the decisions of the engine in one randomly drawn future.

It uses virtual time and the real engine on a copy of the cluster. Time advances in steps that grow
with the distance, because a start in three hours need not be known to the second: all that happens
within a step is applied before the engine plans once. Bound tasks run at once; evicted tasks are
gone with the next step. Nodes do not change.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.engine.preemption import DisplacedGangs
from windlass.forecast.experience import Experience, size_of, started_at
from windlass.forecast.sampling import FOR_EVER, Draws, RunRandomness
from windlass.model.events import GangGone, GangSeen, TaskGone, TaskSeen, TaskStarted
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

LEAST_STEP_S = 30
"""The shortest step."""
STEP_PART = 10
"""A step is the virtual time since the start divided by this."""
LEAVES_AFTER_S = 10
"""The time for which evicted tasks keep their devices."""

SAVES_EVERY_S = 900
"""The assumed interval between checkpoints of gangs that are known to write them."""


@dataclass(frozen=True, slots=True)
class GangComes:
    """The submission of a gang."""

    gang: Gang
    tasks: list[Task]


@dataclass(frozen=True, slots=True)
class RunEnds:
    """The end of a gang's work; void if the gang was stopped since, which changes its `turn`."""

    gang: GangId
    turn: int


@dataclass(frozen=True, slots=True)
class TaskLeaves:
    """The end of an evicted task."""

    task: TaskId


Happening: TypeAlias = GangComes | RunEnds | TaskLeaves


class ForwardRun:
    """A copy of the cluster, and one of its futures."""

    def __init__(
        self, snapshot: Snapshot, experience: Experience, until: int, randomness: RunRandomness
    ) -> None:
        self.started: dict[GangId, int] = {}
        """The start of each gang that was waiting or arrived; the first start only."""
        self.cluster = Cluster.of(snapshot)
        """The copy, at the current virtual time."""
        self._draws, self._randomness = Draws(self.cluster, experience), randomness
        self._began, self._until = snapshot.now, until
        self._heap: list[tuple[int, int, Happening]] = []
        """The future: time, sequence number (to keep the order of equal times), happening."""
        self._sequence = 0
        self._displaced = DisplacedGangs()
        self._runs_s: dict[GangId, int] = {}
        """The drawn total run time of each gang; drawn once, at its first start."""
        self._turns: dict[GangId, int] = {}
        """A counter per gang that rises at each start and stop; voids old `RunEnds`."""
        self._done_s = {gang: experience.saved_s(gang) for gang in self.cluster.gangs}
        """The run time of earlier runs whose work each gang kept by checkpoints."""
        self._since: dict[GangId, int] = {}
        """The start of the current run of each gang that works with its minimum."""
        self._draw_future()

    def steps(self) -> Iterator[None]:
        """Advance one cycle per step, until all waiting gangs have started or the time is over."""
        waiting = {gang for gangs in self.cluster.waiting.values() for gang in gangs}
        waiting -= self._since.keys()
        at: int | None = self.cluster.now
        while at is not None and at <= self._until and not waiting <= self.started.keys():
            around = self._apply_until(at)
            self.cluster.advance(at)
            self._write_checkpoints()
            for gang in self._displaced.changes(self.cluster):
                self.cluster.apply(GangSeen(gang))
            decided = plan(self.cluster)
            self._carry_out(decided, around)
            yield
            at = self._next(decided)

    def _next(self, decided: Plan) -> int | None:
        """Return the end of the next step in which something can change; None: nothing will."""
        now = self.cluster.now
        instants = [self._heap[0][0]] if self._heap else []
        if decided.wake_at is not None:
            instants.append(decided.wake_at)
        if decided.actions:
            instants.append(now)
        step_s = max(LEAST_STEP_S, (now - self._began) // STEP_PART)
        return max(min(instants), now + step_s) if instants else None

    # -- events of the drawn future

    def _draw_future(self) -> None:
        """Draw the ends of running gangs and the arrivals of new ones."""
        cluster = self.cluster
        for name in sorted(cluster.active):
            members = cluster.members(name)
            start = started_at(members)
            if name not in cluster.broken:
                self._begin(cluster.gangs[name], cluster.now if start is None else start)
        for task in cluster.leaving():
            self._later(cluster.now + LEAVES_AFTER_S, TaskLeaves(task.id))
        for at, gang, tasks in self._draws.arrivals(self._until, self._randomness):
            self._later(at, GangComes(gang, tasks))

    def _later(self, at: int, happening: Happening) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (at, self._sequence, happening))

    def _apply_until(self, at: int) -> int:
        """Apply everything that happens until a time; return the mean of the times, else `at`."""
        instants: list[int] = []
        while self._heap and self._heap[0][0] <= at:
            when, _, happening = heapq.heappop(self._heap)
            if self._apply(happening):
                instants.append(when)
        return sum(instants) // len(instants) if instants else at

    def _apply(self, happening: Happening) -> bool:
        """Apply a happening to the cluster; return whether it was still valid."""
        cluster = self.cluster
        match happening:
            case GangComes(gang, tasks):
                cluster.apply(GangSeen(gang))
                for new in tasks:
                    cluster.apply(TaskSeen(new))
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

    def _write_checkpoints(self) -> None:
        """Advance the checkpoints of gangs that write them; this bounds their restart cost."""
        cluster = self.cluster
        for name in list(self._since):
            gang = cluster.gangs[name]
            if gang.saved_at is not None and cluster.now - gang.saved_at >= SAVES_EVERY_S:
                cluster.apply(GangSeen(replace(gang, saved_at=cluster.now)))

    # -- decisions of the engine

    def _carry_out(self, decided: Plan, around: int) -> None:
        """Carry out a plan. Starts count as of `around`, the mean time of this step's events."""
        cluster = self.cluster
        cluster.assume(decided)
        gangs = {cluster.tasks[bind.task].gang: None for bind in decided.binds}
        for bind in decided.binds:
            cluster.apply(TaskStarted(bind.task))
        for name in gangs:
            if name not in self._since and name not in cluster.broken:
                self.started.setdefault(name, around)
                self._begin(cluster.gangs[name], cluster.now)
        victims = {cluster.tasks[eviction.task].gang: None for eviction in decided.going}
        for eviction in decided.going:
            self._later(cluster.now + LEAVES_AFTER_S, TaskLeaves(eviction.task))
        for name in victims:
            if name in cluster.broken or name not in cluster.active:
                self._stop(name)

    def _begin(self, gang: Gang, since: int) -> None:
        """Start a gang's work and schedule its end; its run time is drawn at the first start."""
        name = gang.id
        done_s = self._done_s.get(name, 0)
        if name not in self._runs_s:
            size = size_of(self.cluster.members(name))
            so_far_s = done_s + self.cluster.now - since
            self._runs_s[name] = self._draws.run_s(gang, size, so_far_s, self._randomness)
        self._since[name] = since
        self._turns[name] = turn = self._turns.get(name, 0) + 1
        if self._runs_s[name] < FOR_EVER:
            self._later(since + self._runs_s[name] - done_s, RunEnds(name, turn))

    def _stop(self, name: GangId) -> None:
        """Stop an evicted gang; it resumes from its last checkpoint, if it writes any."""
        since = self._since.pop(name, None)
        self._turns[name] = self._turns.get(name, 0) + 1
        self._displaced.note(name, (task.node for task in self.cluster.members(name) if task.node))
        if since is not None and self.cluster.gangs[name].saved_at is not None:
            self._done_s[name] = self._done_s.get(name, 0) + self.cluster.now - since


def successor(task: Task, cluster: Cluster) -> Task:
    """Return the task that its owner would make in place of one that is gone."""
    number = 1
    while (name := TaskId(f"{task.id}.r{number}")) in cluster.tasks:
        number += 1
    return task.successor(name)
