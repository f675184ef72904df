"""Records every cycle: called with each plan after it was made, before it is assumed.

A cycle without events is not recorded: the engine answers it with the previous plan
(`engine/plan_cache.py`). The work here is a few references per cycle; the thread of the writer does
what is costly. Only the start of a stretch copies the whole cluster, now and then.

Events and the clock determine the cluster that the next plan finds, holds included. Recordings of
older versions also have the holds where no event explained them (`RecordedCycle.holds`).
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.engine.plan import Plan
from windlass.history.record import StretchStart
from windlass.history.writer import HistoryWriter, NotedCycle
from windlass.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Lengths:
    """The limits of a stretch; beyond one of them the next stretch begins."""

    seconds: int = 3600
    cycles: int = 2000
    times_start: int = 4
    """The most events of a stretch, as a multiple of the nodes, gangs and tasks of its start."""
    idle: int = 1000
    """After this many moves of the clock and nothing else, a cycle is recorded."""


USUAL = Lengths()


class Recorder:
    """Records the cycles of one cluster."""

    def __init__(self, writer: HistoryWriter, lengths: Lengths = USUAL) -> None:
        self._writer, self._lengths = writer, lengths
        self._last: Plan | None = None
        self._number = 0
        self._began: tuple[int, int] | None = None
        """Cycle and second at which the stretch began; None: the next cycle begins one."""
        self._room = 0
        """The number of events that this stretch may still take."""

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """Record a plan and the events since the last one; the cluster is as the plan found it."""
        heard = cluster.heard
        if plan is self._last and heard is not None and len(heard) < self._lengths.idle:
            return
        self._number += 1
        start = None
        if heard is None or self._is_over(cluster.now):
            start = StretchStart.of(cluster)
            self._began = (self._number, cluster.now)
            self._room = self._lengths.times_start * (_size(start) + 250)
        noted = NotedCycle(self._number, cluster.now, tuple(heard or ()), None, plan, start)
        cluster.heard = []
        self._last = plan
        self._room -= len(noted.heard)
        if not self._writer.put(noted):
            self._began = None

    def _is_over(self, now: int) -> bool:
        if self._began is None or self._room <= 0 or self._writer.is_full:
            return True
        cycle, at = self._began
        limit = self._lengths
        return self._number - cycle >= limit.cycles or now - at >= limit.seconds


def _size(start: StretchStart) -> int:
    found = start.snapshot
    return len(found.nodes) + len(found.gangs) + len(found.tasks)
