"""The simulator: plays a workload against a scheduler in virtual time.

At each instant all events of that instant are applied, the scheduler plans once, and its binds and
evictions are carried out; then the clock jumps to the next instant. The clock counts seconds.
Events of the same second are applied in the order in which they were scheduled, so that a run can
be repeated exactly.

A scheduler is a function from the cluster to a plan: the engine, or a baseline to compare with.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan, Verdict
from windlass.model import events
from windlass.model.jobs import GangId
from windlass.model.nodes import Node
from windlass.sim.events import Happening
from windlass.sim.metrics import ClusterCapacity, Meter, QueueTally, typical_gpus
from windlass.sim.records import GangRecord, GangStage, RunNote, What
from windlass.sim.workload import Before, Workload
from windlass.sim.world import SimulatedWorld
from windlass.state.checkpoint_requests import CheckpointRequests
from windlass.state.cluster import Cluster
from windlass.usage.ledger import Holder

Scheduler: TypeAlias = Callable[[Cluster], Plan]

IDLE_CYCLES = 20
"""The largest number of consecutive cycles that only time triggers and in which nothing happens;
then the simulation rests."""
CYCLES_PER_INSTANT = 1000
"""The largest number of cycles without a move of the clock; more are an endless loop."""


class SimulationError(RuntimeError):
    """A scheduler keeps the simulation from going on; the message says how."""


@dataclass(frozen=True, slots=True)
class SimulationFigures:
    """The numbers of one instant and of the time up to it."""

    ground: ClusterCapacity
    past_ground: ClusterCapacity
    queues: dict[str, QueueTally]
    past_queues: dict[str, QueueTally]
    stages: dict[GangStage, int]
    """The number of gangs in each stage."""


@dataclass(frozen=True, slots=True)
class SimulationMoment:
    """The input of a view: the cluster after a cycle, the plan, figures and the latest notes.

    The cluster is the live object; use it before the simulation goes on.
    """

    cluster: Cluster
    plan: Plan
    figures: SimulationFigures
    notes: tuple[RunNote, ...]
    away: tuple[Node, ...]

    @property
    def now(self) -> int:
        """The seconds since the simulation began."""
        return self.cluster.now


class Simulation:
    """One workload under one scheduler."""

    def __init__(self, workload: Workload, scheduler: Scheduler = plan, start_s: int = 5) -> None:
        self.workload = workload
        self.cluster = Cluster(settings=workload.settings, now=0)
        self.meter = Meter(typical_gpus(workload.arrivals))
        self.plan = Plan()
        self.cycles = 0
        self.note: Callable[[Cluster, Plan], None] | None = None
        """A callback that receives every plan before it is carried out; None if nothing records."""
        self._scheduler = scheduler
        self.world = SimulatedWorld(self.cluster, self.meter, self.later, start_s)
        self._heap: list[tuple[int, int, Happening]] = []
        self._sequence = 0
        self._wake_at: int | None = None
        self._idle_wakes = 0
        self._end = workload.until
        """The time at which the run stops; None: it runs until it rests."""
        self._here = 0
        self._prepare()

    @property
    def records(self) -> dict[GangId, GangRecord]:
        """The record of every gang submitted so far."""
        return self.world.records

    def run(self, until: int | None = None) -> None:
        """Run until a time, or to the workload's end, or until it rests."""
        for _ in self._steps(until):
            pass

    def moments(self, until: int | None = None) -> Iterator[SimulationMoment]:
        """Run in the same way and yield the moment after every cycle."""
        for _ in self._steps(until):
            yield self.moment()

    def next_at(self) -> int | None:
        """Return the next instant at which something can change; None at rest."""
        while self._heap and self.world.is_stale(self._heap[0][2]):
            heapq.heappop(self._heap)
        if self._heap:
            at = self._heap[0][0]
            return at if self._wake_at is None else min(at, self._wake_at)
        rests = self._end is None and self._idle_wakes > self._patience()
        return None if rests else self._wake_at

    def step(self) -> None:
        """Move to the next instant, apply all its events, and plan once."""
        at = self.next_at()
        if at is not None:
            self._move_to(at)
            self._apply_all(at)
            self.world.tell_spared()
            self.world.quarantine()
            self._schedule()

    def later(self, at: int, happening: Happening) -> None:
        """Schedule an event at a time, or now if that time is past."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(at, self.cluster.now), self._sequence, happening))

    def take_over(self, cluster: Cluster) -> None:
        """Continue with another scheduler's cluster; the simulated work is not affected."""
        self.cluster = cluster
        self.world.take_over(cluster)
        self._schedule()

    def moment(self) -> SimulationMoment:
        """Return the current moment for a view."""
        figures = SimulationFigures(
            replace(self.meter.ground),
            replace(self.meter.past_ground),
            {queue: replace(each) for queue, each in self.meter.present.items()},
            {queue: replace(each) for queue, each in self.meter.past.items()},
            dict(Counter(each.stage for each in self.records.values())),
        )
        away = tuple(self.world.away.values())
        return SimulationMoment(
            self.cluster, self.plan, figures, tuple(self.world.diary.notes), away
        )

    def _prepare(self) -> None:
        for topology in self.workload.topologies:
            self.cluster.apply(events.TopologySeen(topology))
        for queue in self.workload.queues:
            self.cluster.apply(events.QueueSeen(queue))
            self.meter.of(queue.name)
        for node in self.workload.nodes:
            self.cluster.apply(events.NodeSeen(node))
            self.meter.node_seen(node)
        self._bring_along(self.workload.before)
        for change in (*self.workload.node_changes, *self.workload.told):
            self.later(change.at, change)
        for arrival in self.workload.arrivals:
            self.later(arrival.at, arrival)

    def _bring_along(self, before: Before) -> None:
        for each in before.usage:
            holder = Holder(each.queue, each.user, each.model)
            self.cluster.ledger.restore(holder, each.milli_seconds, self.cluster.now)
        self.cluster.epoch_usage = before.epoch_usage
        self.cluster.holds = {hold.gang: hold for hold in before.holds}
        self.cluster.searched = before.searched
        self.cluster.partings = CheckpointRequests(before.partings)

    def _patience(self) -> int:
        """Return how many cycles, triggered by time alone, may still change something.

        A hold that expires or a protection that ends can change something; but a hopeless gang may
        get a reservation again and again, so the number is bounded.
        """
        return min(IDLE_CYCLES, 4 * (len(self.plan.holds) + len(self.plan.decisions)))

    def _steps(self, until: int | None) -> Iterator[None]:
        end = self._end = self.workload.until if until is None else until
        while (at := self.next_at()) is not None and (end is None or at <= end):
            self.step()
            yield
        if end is not None:
            self._move_to(end)

    def _move_to(self, at: int) -> None:
        if at <= self.cluster.now:
            return
        self.meter.pass_time(at - self.cluster.now)
        self.cluster.advance(at)
        self.world.tell_saves()
        self._here = 0

    def _apply_all(self, at: int) -> None:
        self._idle_wakes += 1
        while self._heap and self._heap[0][0] <= at:
            happening = heapq.heappop(self._heap)[2]
            if not self.world.is_stale(happening):
                self.world.happen(happening)
                self._idle_wakes = 0

    def _schedule(self) -> None:
        self._guard()
        self.plan = self._scheduler(self.cluster)
        if self.note is not None:
            self.note(self.cluster, self.plan)
        self.cluster.assume(self.plan)
        self.world.evict(self.plan.evictions)
        self.world.ask(self.plan.asks)
        for bind in self.plan.binds:
            self.world.bind(bind)
        if self.plan.actions:
            self._idle_wakes = 0
        self.meter.take_shares(self.plan.shares)
        self._wake_at = self.plan.wake_at
        self._note_binds()
        self.cycles += 1
        if self._wake_at is not None and self._wake_at <= self.cluster.now:
            raise SimulationError(
                f"at {self.cluster.now} s the scheduler asked to be woken at {self._wake_at} s; "
                "it must name an instant in the future, or none"
            )

    def _note_binds(self) -> None:
        grew = {each.gang for each in self.plan.decisions if each.verdict is Verdict.GREW}
        for gang, binds in self.cluster.by_gang(self.plan.binds).items():
            what = What.GREW if gang in grew else What.PLACED
            nodes = tuple(dict.fromkeys(bind.node for bind in binds))
            self.world.diary.tell(
                self.cluster.now, what, self.records[gang].gang, nodes, len(binds)
            )

    def _guard(self) -> None:
        self._here += 1
        if self._here > CYCLES_PER_INSTANT:
            raise SimulationError(
                f"{CYCLES_PER_INSTANT} cycles at {self.cluster.now} s and still something to do; "
                "tasks that run for 0 s and start again would look like this"
            )
