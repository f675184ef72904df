"""A week of two teams: their usage in the hours in which both had work, and in all.

The cluster has six GPUs. `steady` always has work waiting; `bursty` comes on every second day with
more than there is room for, and takes back at midnight what is left. Jobs run for about four hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import pytest

from tests.given import ask, job, node, queue
from tests.support.small_workloads import arrives, work
from windlass.model.queues import GPU
from windlass.model.settings import Settings
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, Workload

HOUR = 3600
DAY = 24 * HOUR
WEEK = 7 * DAY
GPUS = 6


def jobs(team: str, days: range) -> Iterator[Arrival]:
    """On these days as many jobs of one GPU and about four hours as six GPUs can do."""
    for day in days:
        for number in range(6 * GPUS):
            at = day * DAY + number // GPUS * 4 * HOUR
            runs = 4 * HOUR - 300 * (number % 7)
            what = job(f"{team}{day}x{number}", 1, ask(gpus=1), queue=team, duration_s=runs)
            yield arrives(what, at=at, runs=runs, deleted_at=(day + 1) * DAY)


def week(weights: tuple[int, int], bursty_days: range, settings: Settings) -> Workload:
    """Both teams through a week."""
    teams = queue("steady", weight=weights[0]), queue("bursty", weight=weights[1])
    arrivals = [*jobs("steady", range(7)), *jobs("bursty", bursty_days)]
    arrivals.sort(key=lambda each: (each.at, each.gang.id))
    there = work(*teams, node("n1", gpus=GPUS), *arrivals, until=WEEK)
    return replace(there, settings=replace(settings, search_again_s=HOUR, epoch_s=HOUR // 4))


@dataclass
class Hours:
    """GPU-hours per team: in all, and while both teams had work to do."""

    in_all: dict[str, float]
    together: dict[str, float]

    def ratio(self) -> float:
        """How much `steady` used for each GPU-hour of `bursty`, while both had work."""
        return self.together["steady"] / self.together["bursty"]


@cache
def played(
    weights: tuple[int, int],
    bursty_days: range,
    from_hour: int = 0,
    usage_effect: int = 1000,
    half_life_s: int = WEEK,
) -> Hours:
    """What was used in a week; together counts from that hour of each day on."""
    settings = Settings(usage_effect=usage_effect, half_life_s=half_life_s)
    workload = week(weights, bursty_days, settings)
    hours = Hours({"steady": 0.0, "bursty": 0.0}, {"steady": 0.0, "bursty": 0.0})
    seen: list[tuple[int, dict[str, int], bool]] = []
    for moment in Simulation(workload).moments():
        there = moment.cluster
        held = {name: there.allocated(name, GPU) for name in hours.in_all}
        wanting = all(held[name] or there.waiting.get(name) for name in held)
        seen.append((moment.now, held, wanting))
    for (at, held, wanting), (until, _, _) in pairwise(seen):
        for name, milli in held.items():
            hours.in_all[name] += milli * (until - at) / 1000 / HOUR
            counts = wanting and at % DAY >= from_hour * HOUR
            hours.together[name] += counts * milli * (until - at) / 1000 / HOUR
    return hours


ALWAYS, EVERY_SECOND = range(7), range(0, 7, 2)
WEIGHTS = [(1, 1), (2, 1)]
CLOSE = 0.04
"""Gangs are whole GPUs and come and go: so far hours may lie from the weights."""


@pytest.mark.parametrize("weights", WEIGHTS)
def test_teams_that_always_have_work_use_the_cluster_by_their_weights(weights: tuple[int, int]):
    hours = played(weights, ALWAYS)
    assert sum(hours.in_all.values()) == pytest.approx(GPUS * WEEK / HOUR, rel=0.01)
    assert hours.ratio() == pytest.approx(weights[0] / weights[1], rel=CLOSE)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_without_usage_effect_a_team_gets_its_weight_whenever_it_has_work(weights: tuple[int, int]):
    hours = played(weights, EVERY_SECOND, usage_effect=0)
    assert hours.ratio() == pytest.approx(weights[0] / weights[1], rel=CLOSE)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_with_usage_effect_a_team_that_was_idle_catches_up(weights: tuple[int, int]):
    """It has more than its weight while both work, and the week as a whole comes closer to it."""
    forgets = played(weights, EVERY_SECOND, usage_effect=0)
    remembers = played(weights, EVERY_SECOND)
    assert remembers.ratio() < 0.75 * weights[0] / weights[1]
    due = weights[0] / weights[1]
    assert due < in_all(remembers) < 0.9 * in_all(forgets)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_with_a_short_half_life_hours_converge_to_the_weights(weights: tuple[int, int]):
    """What `steady` used before counts little once both have worked for three half-lives."""
    hours = played(weights, EVERY_SECOND, from_hour=12, half_life_s=4 * HOUR)
    assert hours.ratio() == pytest.approx(weights[0] / weights[1], rel=3 * CLOSE)


def in_all(hours: Hours) -> float:
    """How much `steady` used for each GPU-hour of `bursty` in the whole week."""
    return hours.in_all["steady"] / hours.in_all["bursty"]
