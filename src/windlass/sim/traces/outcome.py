"""The outcome of a trace: completion and waiting times of jobs, lost work, and fairness between
teams.

The *wait* of a job is all the time in which it did no lasting work: from submission to its end,
without its own run time. The bounded slowdown of a job is its completion time divided by its run
time, where runs below ten seconds count as ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from windlass.model.gpus import WHOLE
from windlass.sim.records import GangRecord, GangStage
from windlass.sim.run import Simulation
from windlass.sim.traces.rows import TraceJob

BOUND_S = 10
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class TraceOutcome:
    """The numbers; the names are the keys of `windlass simulate --trace --json`."""

    jobs: int
    avg_jct_s: int
    avg_wait_s: int
    wait_p50_s: int
    wait_p90_s: int
    wait_p99_s: int
    makespan_s: int
    utilization: float
    preemptions: int
    lost_gpu_hours: float
    jain: float
    """Jain's index of the teams' mean bounded slowdowns."""
    median_slowdown: float
    finished: int


@dataclass(frozen=True, slots=True)
class Done:
    """A job and its result."""

    job: TraceJob
    record: GangRecord

    @property
    def took_s(self) -> int:
        """The seconds from submission to its end."""
        return (self.record.ended or 0) - self.record.submitted

    @property
    def wait_s(self) -> int:
        """The part of that time that was not its own run, in seconds."""
        return max(0, self.took_s - self.job.runs_s)

    @property
    def slowdown(self) -> float:
        """The bounded slowdown: its completion time as a multiple of its run time."""
        return max(1.0, self.took_s / max(self.job.runs_s, BOUND_S))


def outcome(simulation: Simulation, jobs: Sequence[TraceJob], restart_s: int) -> TraceOutcome:
    """Return the numbers of a trace that was played to its end."""
    done = done_of(simulation, jobs)
    waits = sorted(each.wait_s for each in done)
    took, count = sum(each.took_s for each in done), max(1, len(done))
    past = simulation.meter.past_ground
    useful = sum(each.useful for each in simulation.meter.past.values())
    slowdowns = sorted(each.slowdown for each in done)
    lost = restart_s * sum(each.record.stops * each.job.gpus * each.job.milli for each in done)
    return TraceOutcome(
        jobs=len(jobs),
        avg_jct_s=took // count,
        avg_wait_s=sum(waits) // count,
        wait_p50_s=_at(waits, 50),
        wait_p90_s=_at(waits, 90),
        wait_p99_s=_at(waits, 99),
        makespan_s=max((each.record.ended or 0 for each in done), default=0),
        utilization=round(useful / past.capacity, 4) if past.capacity else 0.0,
        preemptions=sum(each.record.stops for each in done),
        lost_gpu_hours=round(lost / WHOLE / 3600, 1),
        jain=round(jain(_means(done)), 4),
        median_slowdown=round(_at(slowdowns, 50), 2),
        finished=len(done),
    )


def done_of(simulation: Simulation, jobs: Sequence[TraceJob]) -> list[Done]:
    """Return the finished jobs, in the order of the trace."""
    arrivals = zip(jobs, simulation.workload.arrivals, strict=True)
    pairs = ((job, simulation.records.get(arrival.gang.id)) for job, arrival in arrivals)
    return [Done(job, found) for job, found in pairs if found and found.stage is GangStage.FINISHED]


def jain(values: Sequence[float]) -> float:
    """Return Jain's index: 1 if all values are equal, 1/n if one has everything."""
    squares = sum(each * each for each in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _means(done: Iterable[Done]) -> list[float]:
    teams: dict[str, list[float]] = {}
    for each in done:
        teams.setdefault(each.job.team, []).append(each.slowdown)
    return [sum(some) / len(some) for _, some in sorted(teams.items())]


def _at(ranked: Sequence[Number], percent: int) -> Number | int:
    """Return the smallest value that this percentage of values does not exceed."""
    return ranked[-(-len(ranked) * percent // 100) - 1] if ranked else 0
