"""The report of a simulation: the numbers of one run, and of two runs side by side.

All numbers come from the sums of the meter and the records of the gangs; nothing is estimated. The
field names are the keys of `windlass simulate --json`, see docs/reference/simulate.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windlass.model.gpus import WHOLE, Gpu
from windlass.model.queues import GPU, Queue, guaranteed
from windlass.sim.metrics import QueueTally, requested
from windlass.sim.records import GangRecord, GangStage
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, Workload

GPU_HOUR = WHOLE * 3600
"""One GPU-hour in milli-GPU-seconds."""


@dataclass(frozen=True, slots=True)
class Times:
    """Percentiles and mean of durations, in seconds."""

    count: int
    p50: int
    p90: int
    p99: int
    mean: int


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU time, in GPU-hours."""

    capacity: float
    allocated: float
    useful: float
    idle: float
    lost: float
    """Work that was repeated because a task or a node failed."""
    displaced: float
    """Work that was repeated because of evictions and moves."""


@dataclass(frozen=True, slots=True)
class GangReport:
    """The number of gangs in each stage."""

    submitted: int
    finished: int
    running: int
    waiting: int
    deleted: int
    overran: int
    """Gangs that were ended at their maximum run time."""
    half_started: int
    """Waiting gangs that hold GPUs which they cannot use."""
    restarts: int


@dataclass(frozen=True, slots=True)
class DisplacementReport:
    """The evictions and moves for other gangs, and their cost."""

    tasks_evicted: int
    gangs_stopped: int
    """The number of times that a gang was left without its minimum and waited again."""
    tasks_moved: int
    """Tasks evicted to a place that was held for them; not counted above."""
    gangs_moved: int
    gpu_hours_lost: float
    """Work of evicted and moved gangs that was repeated."""


@dataclass(frozen=True, slots=True)
class QueueReport:
    """One queue with all queues below it; GPUs are averages over the window."""

    name: str
    parent: str
    guarantee_gpus: float
    share_gpus: float
    allocated_gpus: float
    useful_gpus: float
    gangs: int
    wait_seconds: Times
    displaced: DisplacementReport


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run."""

    scheduler: str
    window_seconds: int
    nodes: int
    gpus: int
    cycles: int
    utilisation: float
    """Useful GPU time, as a part of the capacity."""
    allocation: float
    fragmentation: float
    """Stranded GPU time, as a part of the free GPU time."""
    stranded: float
    """Stranded GPU time, as a part of the capacity."""
    typical_gpus: int
    gpu_hours: GpuHours
    gangs: GangReport
    displaced: DisplacementReport
    wait_seconds: Times
    """For every gang, from submission until its whole minimum runs."""
    gang_wait_seconds: Times
    """For gangs that need more than one task."""
    completion_seconds: Times
    """For finished gangs, from submission to the end."""
    queues: tuple[QueueReport, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same work under two schedulers, over the same window."""

    offered_gpu_hours: float
    """The GPU time that would have been used if every gang had started at its submission."""
    ours: Report
    theirs: Report

    @property
    def gain(self) -> float:
        """The useful GPU time of ours, divided by that of the other."""
        return self.ours.gpu_hours.useful / max(self.theirs.gpu_hours.useful, 0.001)

    @property
    def gang_wait_ratio(self) -> float:
        """The ninetieth percentile of gang waits of ours, divided by that of the other."""
        return self.ours.gang_wait_seconds.p90 / max(self.theirs.gang_wait_seconds.p90, 1)

    @property
    def harm_ratio(self) -> float:
        """The GPU time lost to displacement of ours, divided by that of the other; 0 if the other
        lost none."""
        theirs = self.theirs.displaced.gpu_hours_lost
        return self.ours.displaced.gpu_hours_lost / theirs if theirs else 0.0

    @property
    def gpus_saved(self) -> int:
        """The number of additional GPUs that the other would need for the same work, if it grew in
        proportion."""
        return max(0, round(self.ours.gpus * (self.gain - 1)))


def report(simulation: Simulation, scheduler: str) -> Report:
    """Return the numbers of a run up to now."""
    meter, now = simulation.meter, simulation.cluster.now
    ground, total = meter.past_ground, _sum(meter.past.values())
    records = list(simulation.records.values())
    ended = [each for each in records if each.stage is GangStage.FINISHED]
    return Report(
        scheduler=scheduler,
        window_seconds=now,
        nodes=len(simulation.workload.nodes),
        gpus=sum(len(node.gpus) for node in simulation.workload.nodes),
        cycles=simulation.cycles,
        utilisation=_part(total.useful, ground.capacity),
        allocation=_part(total.allocated, ground.capacity),
        fragmentation=_part(ground.stranded, ground.free),
        stranded=_part(ground.stranded, ground.capacity),
        typical_gpus=meter.typical_gpus,
        gpu_hours=_hours(total, ground.capacity),
        gangs=_gangs(simulation, records),
        displaced=_displaced(total, records),
        wait_seconds=times(each.waited(now) for each in records),
        gang_wait_seconds=times(each.waited(now) for each in records if each.gang.needed() > 1),
        completion_seconds=times((each.ended or 0) - each.submitted for each in ended),
        queues=tuple(_queue(simulation, queue) for queue in simulation.workload.queues),
    )


def compare(ours: Simulation, theirs: Simulation, name: str = "default") -> Comparison:
    """Compare two runs over one window; the one that ended earlier is extended to the end of the
    other."""
    end = max(ours.cluster.now, theirs.cluster.now)
    for each in (ours, theirs):
        each.run(until=end)
    offered = offered_milli_seconds(ours.workload, end)
    return Comparison(_gpu_hours(offered), report(ours, "windlass"), report(theirs, name))


def times(values: Iterable[int]) -> Times:
    """Return percentiles by nearest rank: the smallest value that the given percentage of values
    does not exceed."""
    ranked = sorted(values)
    if not ranked:
        return Times(0, 0, 0, 0, 0)
    count = len(ranked)
    p50, p90, p99 = (ranked[-(-count * percent // 100) - 1] for percent in (50, 90, 99))
    return Times(count, p50, p90, p99, sum(ranked) // count)


def offered_milli_seconds(workload: Workload, window: int) -> int:
    """Return the requested GPU time of a window, if no gang ever waited."""
    cards = list(dict.fromkeys(gpu for node in workload.nodes for gpu in node.gpus))
    return sum(_offered(arrival, cards, window) for arrival in workload.arrivals)


def _offered(arrival: Arrival, cards: Sequence[Gpu], window: int) -> int:
    ends = [window]
    if arrival.runs_s is not None:
        ends.append(arrival.at + arrival.runs_s)
    if arrival.deleted_at is not None:
        ends.append(arrival.deleted_at)
    milli = sum(requested(task.shape.request.gpu, cards) for task in arrival.tasks)
    return milli * max(0, min(ends) - arrival.at)


def _gangs(simulation: Simulation, records: Sequence[GangRecord]) -> GangReport:
    counts = {stage: sum(each.stage is stage for each in records) for stage in GangStage}
    return GangReport(
        submitted=len(records),
        finished=counts[GangStage.FINISHED],
        running=counts[GangStage.RUNNING],
        waiting=counts[GangStage.WAITING],
        deleted=counts[GangStage.DELETED],
        overran=counts[GangStage.OVERRAN],
        half_started=sum(1 for _ in simulation.world.half_started()),
        restarts=sum(each.restarts for each in records),
    )


def _queue(simulation: Simulation, queue: Queue) -> QueueReport:
    meter, now = simulation.meter, simulation.cluster.now
    below = _with_all_below(queue.name, simulation.workload.queues)
    total = _sum(tally for name, tally in meter.past.items() if name in below)
    records = [each for each in simulation.records.values() if each.gang.queue in below]
    return QueueReport(
        name=queue.name,
        parent=queue.parent,
        guarantee_gpus=guaranteed(queue, GPU) / WHOLE,
        share_gpus=_average(meter.past[queue.name].share, now),
        allocated_gpus=_average(total.allocated, now),
        useful_gpus=_average(total.useful, now),
        gangs=len(records),
        wait_seconds=times(each.waited(now) for each in records),
        displaced=_displaced(total, records),
    )


def _displaced(total: QueueTally, records: Sequence[GangRecord]) -> DisplacementReport:
    return DisplacementReport(
        tasks_evicted=sum(each.evictions for each in records),
        gangs_stopped=sum(each.stops for each in records),
        tasks_moved=sum(each.moves for each in records),
        gangs_moved=sum(each.journeys for each in records),
        gpu_hours_lost=_gpu_hours(total.displaced),
    )


def _with_all_below(name: str, queues: Sequence[Queue]) -> frozenset[str]:
    below = {name}
    while found := {each.name for each in queues if each.parent in below} - below:
        below |= found
    return frozenset(below)


def _sum(tallies: Iterable[QueueTally]) -> QueueTally:
    total = QueueTally()
    for each in tallies:
        total.allocated += each.allocated
        total.useful += each.useful
        total.idle += each.idle
        total.lost += each.lost
        total.displaced += each.displaced
    return total


def _hours(total: QueueTally, capacity: int) -> GpuHours:
    had = (total.allocated, total.useful, total.idle, total.lost, total.displaced)
    return GpuHours(*(_gpu_hours(each) for each in (capacity, *had)))


def _gpu_hours(milli_seconds: int) -> float:
    return round(milli_seconds / GPU_HOUR, 1)


def _average(milli_seconds: int, seconds: int) -> float:
    return round(milli_seconds / (WHOLE * seconds), 2) if seconds else 0.0


def _part(amount: int, whole: int) -> float:
    return round(amount / whole, 4) if whole else 0.0
