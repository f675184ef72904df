"""The accuracy of ETAs: days are played, forecasts made on the way and compared with the real
starts.

Users' estimates are wrong by a log-normal factor, and some users give none. The moments of
forecasts are drawn at random over the day. A forecast counts for every gang that waits then and
waits for more than five minutes in all, so a long wait counts more than once. Its error is the
distance of the median from the real start, as a part of the whole wait; and, which is harder, of
the rest of the wait, where that is more than five minutes too.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median

from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.forecast.eta import RUNS, Forecast, StartEta
from windlass.forecast.experience import Experience
from windlass.model.jobs import GangId
from windlass.sim.generate import generate
from windlass.sim.records import GangRecord
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, Workload
from windlass.state.cluster import Cluster

LONG_S = 300
"""Shorter waits, in seconds, are not counted."""
WARM_UP_S = 3 * 3600
"""The seconds of learning before the first forecast."""
SET_UP_S = 900
"""Gangs that arrive in these first seconds of a generated day are old work: nothing is learned from
them."""


@dataclass(frozen=True, slots=True)
class Day:
    """The day to play, and the moments of forecasts."""

    seed: int
    nodes: int = 12
    hours: int = 24
    sigma: float = 0.7
    """The sigma of the log-normal factor by which estimates are wrong."""
    every_s: int = 3600
    """The mean distance of the moments in seconds."""
    runs: int = RUNS


@dataclass(frozen=True, slots=True)
class EtaSample:
    """One forecast for one gang."""

    gang: GangId
    at: int
    eta: StartEta | None


@dataclass(frozen=True, slots=True)
class EtaComparison:
    """A forecast beside the real start."""

    wait_s: int
    left_s: int
    off_s: int
    """The distance of the median from the real start, in seconds."""
    silent: bool
    """True if it had no median, only the earliest start, which then counts as the median."""
    covered: bool

    @property
    def of_wait(self) -> float:
        """The error as a part of the whole wait."""
        return self.off_s / self.wait_s

    @property
    def of_left(self) -> float:
        """The error as a part of the rest of the wait."""
        return self.off_s / self.left_s


@dataclass(frozen=True, slots=True)
class EtaAccuracy:
    """The accuracy of all forecasts."""

    answers: int
    silent: int
    """The number of forecasts without a median: later than the forecast reaches."""
    error: float
    error_left: float
    coverage: float


def ask_day(day: Day) -> list[EtaComparison]:
    """Play a day, forecast, and compare."""
    simulation, asked = _play(day)
    return [
        found
        for each in asked
        if (found := _judge(each, simulation.records[each.gang])) is not None
    ]


def figures(judged: Sequence[EtaComparison]) -> EtaAccuracy:
    """Return the accuracy of all forecasts."""
    left = [each.of_left for each in judged if each.left_s > LONG_S]
    return EtaAccuracy(
        answers=len(judged),
        silent=sum(each.silent for each in judged),
        error=median(each.of_wait for each in judged),
        error_left=median(left) if left else 0.0,
        coverage=sum(each.covered for each in judged) / len(judged),
    )


def misstated(workload: Workload, seed: int, sigma: float) -> Workload:
    """Return the same work with estimates that are wrong by a log-normal factor."""
    chance = Random(f"misstated {seed}")

    def wrong(arrival: Arrival) -> Arrival:
        factor, stated = chance.lognormvariate(0, sigma), arrival.gang.duration_s
        if stated is None or arrival.runs_s is None:
            return arrival
        said = max(60, int(arrival.runs_s * factor))
        return replace(arrival, gang=replace(arrival.gang, duration_s=said))

    return replace(workload, arrivals=tuple(wrong(each) for each in workload.arrivals))


def _play(day: Day) -> tuple[Simulation, list[EtaSample]]:
    experience = Experience()

    def watched(cluster: Cluster) -> Plan:
        if cluster.now >= SET_UP_S:
            experience.look(cluster)
        return plan(cluster)

    workload = misstated(generate(day.seed, day.hours, day.nodes), day.seed, day.sigma)
    simulation = Simulation(workload, watched)
    asked: list[EtaSample] = []
    for at in _moments(day):
        simulation.run(until=at)
        cluster = simulation.cluster
        in_line = {gang for line in cluster.waiting.values() for gang in line}
        waiting = [name for name, each in simulation.records.items() if _waits(each, in_line)]
        if waiting:
            forecast = Forecast(cluster.snapshot(), experience, day.runs)
            for _ in forecast.steps():
                pass
            etas = forecast.etas()
            asked += [EtaSample(gang, at, etas.get(gang)) for gang in waiting]
    simulation.run()
    return simulation, asked


def _moments(day: Day) -> Iterator[int]:
    chance, at = Random(f"asked {day.seed}"), float(WARM_UP_S)
    while at < (day.hours - 2) * 3600:
        yield int(at)
        at += chance.uniform(0.5, 1.5) * day.every_s


def _waits(record: GangRecord, in_line: Container[GangId]) -> bool:
    """Return whether a gang has neither run nor got its places."""
    return record.started is None and record.ended is None and record.gang.id in in_line


def _judge(asked: EtaSample, record: GangRecord) -> EtaComparison | None:
    """Compare a forecast with the record; None if the gang did not wait for long, or never
    started."""
    start, eta = record.started, asked.eta
    if start is None or start - record.submitted <= LONG_S:
        return None
    if eta is None:  # it said nothing: as wrong as can be
        return EtaComparison(start - record.submitted, start - asked.at, start, True, False)
    middle = eta.early if eta.at is None else eta.at
    return EtaComparison(
        wait_s=start - record.submitted,
        left_s=start - asked.at,
        off_s=abs(middle - start),
        silent=eta.at is None,
        covered=eta.early <= start <= (start if eta.late is None else eta.late),
    )
