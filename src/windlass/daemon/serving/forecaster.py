"""Estimate the start of waiting gangs by simulation on copies of the cluster, in the background.

`look` is called after every cycle, in its thread: it learns run times, and takes a copy of the
cluster when the last forecast is done and a while has passed. `run` simulates the copy, one cycle
at a time, and pauses after each cycle, so that all of it takes only a small part of one core. An
estimate is published again only if it has changed much, so that conditions do not flap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

from windlass.forecast.eta import Forecast, StartEta
from windlass.forecast.experience import Experience
from windlass.forecast.text import eta_by_the_clock
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster

CPU_PART = 0.05
"""The part of one core that forecasts take at most."""
EVERY_S = 60
"""The time from the begin of one forecast to the begin of the next, at least."""
MOST_WAITING = 1000
"""With more waiting gangs there is no forecast: it would be outdated before it is done."""


class Forecaster:
    """The expected start of all gangs that wait."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self.etas: dict[GangId, StartEta] = {}
        """The published estimates. Some of these gangs may have started since. Replaced as a whole,
        never changed: other threads read it."""
        self.texts: dict[GangId, str] = {}
        """The same estimates as text for the conditions of pods."""
        self._complain = complain
        self._experience = Experience()
        self._forecast: Forecast | None = None
        """The forecast in progress. `look` sets it in the thread of the step, and only `run` clears
        it: so both never work on it at once."""
        self._begun_at: int | None = None
        """The second at which the last forecast began; None before the first."""
        self._now = 0
        """The second of the last cycle."""

    def look(self, cluster: Cluster) -> None:
        """Learn from a cycle, and begin a forecast if one is due."""
        self._experience.look(cluster)
        self._now = cluster.now
        waiting = sum(len(line) for line in cluster.waiting.values())
        rested = self._begun_at is None or cluster.now >= self._begun_at + EVERY_S
        if self._forecast is None and rested and 0 < waiting <= MOST_WAITING:
            self._begun_at = cluster.now
            self._forecast = Forecast(cluster.snapshot(), self._experience)

    async def run(self) -> None:
        """Carry out forecasts until cancelled."""
        while True:
            if self._forecast is None:
                await asyncio.sleep(1)
                continue
            try:
                await _work(self._forecast)
            except Exception as error:  # a failed forecast must not end the term
                self._complain(repr(error))
            else:
                now = self._now
                self.etas = settled(self.etas, self._forecast.etas(), now)
                self.texts = {gang: eta_by_the_clock(eta, now) for gang, eta in self.etas.items()}
            self._forecast = None


async def _work(forecast: Forecast) -> None:
    steps = forecast.steps()
    took_s: float | None = 0.0
    while took_s is not None:
        await asyncio.sleep(took_s * (1 / CPU_PART - 1))
        took_s = await asyncio.to_thread(_step, steps)


def _step(steps: Iterator[None]) -> float | None:
    """Simulate one cycle; return the CPU seconds that it took, None if the forecast is done."""
    began = time.thread_time()
    for _ in steps:
        return time.thread_time() - began
    return None


def settled(
    published: Mapping[GangId, StartEta], fresh: Mapping[GangId, StartEta], now: int
) -> dict[GangId, StartEta]:
    """Return the estimates to publish: the old one of a gang, unless the new one differs much."""
    return {
        gang: eta
        if gang not in published or _is_off(published[gang], eta, now)
        else published[gang]
        for gang, eta in fresh.items()
    }


def _is_off(published: StartEta, fresh: StartEta, now: int) -> bool:
    """Return whether the new estimate differs much from the published one.

    It does if it lies outside the published range, or differs by more than a quarter of the
    remaining time (at least two minutes).
    """
    if published.at is None or fresh.at is None:
        return published.at is not fresh.at
    if published.at <= now or (published.late is not None and published.late <= now):
        return True  # the published time has passed
    if published.late is not None and not published.early <= fresh.at <= published.late:
        return True
    return abs(fresh.at - published.at) > max(120, (fresh.at - now) // 4)
