"""Notes every cycle for the record: told of a plan after it was made, before it is assumed.

A cycle in which nothing happened is not worth a note: the engine answers it with the plan it had
(`engine/plan_cache.py`). Everything here is a few references per cycle; what is costly is done by
the writer's thread. Only a start copies the whole cluster, now and then.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.engine.plan import Plan
from windlass.history.record import Heard, StretchStart
from windlass.history.writer import HistoryWriter, Noted
from windlass.model.actions import Hold
from windlass.model.events import GangGone
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long a stretch may become before the next one begins."""

    seconds: int = 3600
    cycles: int = 2000
    times_start: int = 4
    """So many times as much may have happened as the start has nodes, gangs and tasks."""
    idle: int = 1000
    """So many moves of the clock with nothing else are noted as a cycle."""


USUAL = Lengths()


class Recorder:
    """Follows one cluster."""

    def __init__(self, writer: HistoryWriter, lengths: Lengths = USUAL) -> None:
        self._writer, self._lengths = writer, lengths
        self._last: Plan | None = None
        self._number = 0
        self._began: tuple[int, int] | None = None
        """Cycle and second at which the stretch began; None: the next cycle begins one."""
        self._room = 0
        """How much may still happen in this stretch."""
        self._holds: dict[GangId, Hold] = {}

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """A plan was made for this cluster, which is still as the plan found it."""
        heard = cluster.heard
        if plan is self._last and heard is not None and len(heard) < self._lengths.idle:
            return
        self._number += 1
        start = None
        if heard is None or self._is_over(cluster.now):
            start = StretchStart.of(cluster)
            self._began = (self._number, cluster.now)
            self._room = self._lengths.times_start * (_size(start) + 250)
        noted = self._noted(cluster, plan, tuple(heard or ()), start)
        cluster.heard = []
        self._last = plan
        self._holds = {hold.gang: hold for hold in plan.holds}
        self._room -= len(noted.heard)
        if not self._writer.put(noted):
            self._began = None

    def _noted(
        self, cluster: Cluster, plan: Plan, heard: tuple[Heard, ...], start: StretchStart | None
    ) -> Noted:
        for each in heard:
            if isinstance(each, GangGone):
                self._holds.pop(each.gang, None)
        holds = None if cluster.holds == self._holds else tuple(cluster.holds.values())
        return Noted(self._number, cluster.now, heard, holds, plan, start)

    def _is_over(self, now: int) -> bool:
        if self._began is None or self._room <= 0 or self._writer.is_full:
            return True
        cycle, at = self._began
        limit = self._lengths
        return self._number - cycle >= limit.cycles or now - at >= limit.seconds


def _size(start: StretchStart) -> int:
    found = start.snapshot
    return len(found.nodes) + len(found.gangs) + len(found.tasks)
