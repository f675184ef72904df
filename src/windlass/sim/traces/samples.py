"""The course of a replay, for pictures: what was used, useful and stranded, and whose it was.

Instants are kept at equal distances; when there are too many of them every second one is left away
and the distance doubles, so a month and a minute both fit a page.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.sim.run import Simulation

MOST = 720
FIRST_S = 60


@dataclass(frozen=True, slots=True)
class TraceSample:
    """One instant; amounts in thousandths of GPUs."""

    at: int
    capacity: int
    allocated: int
    stranded: int
    """Free, but on nodes that cannot take the trace's typical task."""
    queues: dict[str, int]
    """What each queue has."""
    waiting: int
    """Gangs with tasks that wait."""


class Samples:
    """Looks at a simulation now and then."""

    def __init__(self) -> None:
        self.taken: list[TraceSample] = []
        self._every, self._next = FIRST_S, 0

    def look(self, simulation: Simulation) -> None:
        """Take a sample if it is time for one."""
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
