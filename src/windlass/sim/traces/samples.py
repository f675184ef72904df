"""Samples of a replay over time, for plots: used, useful and stranded GPUs, by queue.

Samples are kept at equal distances. When there are too many, every second one is dropped and the
distance doubles, so that a month and a minute both fit a page.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.sim.run import Simulation

MOST = 720
FIRST_S = 60


@dataclass(frozen=True, slots=True)
class TraceSample:
    """One sample; amounts in milli-GPU."""

    at: int
    capacity: int
    allocated: int
    stranded: int
    """Free, but on nodes that cannot take the trace's typical task."""
    queues: dict[str, int]
    """The allocation of each queue."""
    waiting: int
    """The number of gangs with waiting tasks."""


class Samples:
    """Takes samples of a simulation at regular distances."""

    def __init__(self) -> None:
        self.taken: list[TraceSample] = []
        self._every, self._next = FIRST_S, 0

    def look(self, simulation: Simulation) -> None:
        """Take a sample if one is due."""
        now, meter = simulation.cluster.now, simulation.meter
        if now < self._next:
            return
        queues = {name: each.allocated for name, each in meter.present.items()}
        waiting = sum(len(line) for line in simulation.cluster.waiting.values())
        ground = meter.ground
        self.taken.append(
            TraceSample(
                now, ground.capacity, sum(queues.values()), ground.stranded, queues, waiting
            )
        )
        if len(self.taken) > MOST:
            self.taken = self.taken[::2]
            self._every *= 2
        self._next = now + self._every
