"""ETAs beside the cycle: forecasts on copies of the cluster, a small part of the time.

`look` is called after every cycle, in its thread: it learns, and takes a copy when the last
forecast is done and a while has passed. `run` works on the copy, one cycle of a run forward at a
time, and rests after each for so long that all of it stays a small part of one core. What was said
stands until it is off by much, so that conditions do not flap.
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
"""Of one core, at most."""
EVERY_S = 60
"""No forecast begins sooner after the last one began."""
MOST_WAITING = 1000
"""With more gangs in line a forecast would be old before it is done: nothing is said then."""


class Forecaster:
    """What is expected of everything that waits."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self.etas: dict[GangId, StartEta] = {}
        """As last said; some may have started since."""
        self.told: dict[GangId, str] = {}
        """The same in words for pods."""
        self._complain = complain
        self._experience = Experience()
        self._forecast: Forecast | None = None
        self._begun_at: int | None = None
        self._now = 0

    def look(self, cluster: Cluster) -> None:
        """Learn from a cycle; ask for a forecast if one is due."""
        self._experience.look(cluster)
        self._now = cluster.now
        waiting = sum(len(line) for line in cluster.waiting.values())
        rested = self._begun_at is None or cluster.now >= self._begun_at + EVERY_S
        if self._forecast is None and rested and 0 < waiting <= MOST_WAITING:
            self._begun_at = cluster.now
            self._forecast = Forecast(cluster.snapshot(), self._experience)

    async def run(self) -> None:
        """Work on what was asked for, until cancelled."""
        while True:
            if self._forecast is None:
                await asyncio.sleep(1)
                continue
            try:
                await _work(self._forecast)
            except Exception as error:  # no forecast is worth a leader
                self._complain(repr(error))
            else:
                now = self._now
                self.etas = settled(self.etas, self._forecast.etas(), now)
                self.told = {gang: eta_by_the_clock(eta, now) for gang, eta in self.etas.items()}
            self._forecast = None


async def _work(forecast: Forecast) -> None:
    steps = forecast.steps()
    took_s: float | None = 0.0
    while took_s is not None:
        await asyncio.sleep(took_s * (1 / CPU_PART - 1))
        took_s = await asyncio.to_thread(_step, steps)


def _step(steps: Iterator[None]) -> float | None:
    """One cycle of a run forward: the seconds of a core that it took; None: all is done."""
    began = time.thread_time()
    for _ in steps:
        return time.thread_time() - began
    return None


def settled(
    said: Mapping[GangId, StartEta], found: Mapping[GangId, StartEta], now: int
) -> dict[GangId, StartEta]:
    """What to say from now on: as before, unless it is off by much."""
    return {
        gang: eta if gang not in said or _is_off(said[gang], eta, now) else said[gang]
        for gang, eta in found.items()
    }


def _is_off(said: StartEta, found: StartEta, now: int) -> bool:
    """Is the new middle outside the old band, or off by a quarter of the time that is left?"""
    if said.at is None or found.at is None:
        return said.at is not found.at
    if said.at <= now or (said.late is not None and said.late <= now):
        return True  # time has overtaken it
    if said.late is not None and not said.early <= found.at <= said.late:
        return True
    return abs(found.at - said.at) > max(120, (found.at - now) // 4)
