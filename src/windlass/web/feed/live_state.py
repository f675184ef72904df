"""What is shown now, and a bounded past of cycles: written by one thread, read by any.

Whoever runs cycles calls `note` after each one and `show` when it is worth a look. That takes a
copy of the moment (`look.py`) and no more: documents are made of it only when somebody asks for
them (`pages.py`), in the thread of whoever asks. Only questions about room are answered from the
cluster itself: so whoever changes it after it was shown holds `lock` meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeAlias

from windlass.engine.plan import Plan, Verdict
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster
from windlass.web.documents.cache import Pages, Short, Shown
from windlass.web.documents.decisions import cycle_document, first_gangs
from windlass.web.documents.requested_gpus import is_waiting
from windlass.web.documents.starts import starts
from windlass.web.feed.change_signal import ChangeSignal
from windlass.web.feed.deltas import as_bytes
from windlass.web.feed.replay_source import ReplaySource
from windlass.web.feed.timeseries import Timeseries
from windlass.web.feed.view import Beside, look_at
from windlass.web.schema.cycles import CycleDocument
from windlass.web.schema.documents import RoomDocument, Stamp

MOST_CYCLES = 600

Told: TypeAlias = Callable[[Cluster, Plan, GangId], Sequence[str]]
"""Says in sentences what it would take to make room for a gang."""


class LiveState:
    """The newest moment and the cycles before it."""

    def __init__(self, run: str, played: bool = False, tell_room: Told | None = None) -> None:
        self.bell = ChangeSignal()
        self.lock = Lock()
        self.pages = Pages()
        self._asking = Lock()
        self._seen: tuple[Cluster, Plan] | None = None
        self._tell_room = tell_room
        self._recorded: ReplaySource | None = None
        self._run = run
        self._played = played
        self._cycle = 0
        self._version = 0
        self._shorts: list[Short] = []
        self._cycles: dict[int, bytes] = {}
        self._held: frozenset[GangId] = frozenset()
        self._book = Timeseries()

    @property
    def recorded(self) -> ReplaySource | None:
        """What was recorded of the cycles before those that are remembered, if anything is."""
        return self._recorded

    @recorded.setter
    def recorded(self, record: ReplaySource) -> None:
        self._recorded, self.pages.is_recorded = record, True

    @property
    def stamp(self) -> Stamp | None:
        """Which moment is shown; None before the first."""
        shown = self.pages.shown
        return shown.look.stamp if shown else None

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """Remember what a cycle did; the oldest is forgotten."""
        self._cycle += 1
        document = cycle_document(self._cycle, cluster, plan, self._held)
        self._held = frozenset(hold.gang for hold in plan.holds)
        self._cycles[self._cycle] = as_bytes(document)
        self._shorts.append(_short(document, sum(is_waiting(each) for each in plan.decisions)))
        if len(self._shorts) > MOST_CYCLES:
            del self._cycles[self._shorts.pop(0).cycle]
        self._book.note(cluster, plan)

    def show(self, cluster: Cluster, plan: Plan, beside: Beside | None = None) -> None:
        """Put everything up as it is now, and tell those who look."""
        self._version += 1
        stamp = Stamp(self._run, self._version, self._cycle, cluster.now, self._played)
        before = self.pages.shown.look if self.pages.shown else None
        look = look_at(cluster, plan, stamp, beside, before)
        self.pages.shown = Shown(look, tuple(self._book.samples), tuple(self._shorts))
        self._seen = cluster, plan
        self.bell.ring()

    def room(self, gang: str) -> bytes | None:
        """What it would take to make room for a gang; None if it does not wait for any."""
        with self.lock:
            if self._seen is None or self._tell_room is None:
                return None
            cluster, plan = self._seen
            decision = next((each for each in plan.decisions if each.gang == gang), None)
            if decision is None or not is_waiting(decision) or gang not in cluster.gangs:
                return None
            waits = decision.verdict is Verdict.WAITS
            sentences = list(self._tell_room(cluster, plan, GangId(gang))) if waits else []
            cycle, here = self._cycle, cluster.snapshot()
        # on a copy: nobody waits for the answer but whoever asked
        with self._asking:  # one at a time
            rows, notes = starts(here, GangId(gang))
        return as_bytes(RoomDocument(gang, cycle, sentences, rows, notes))

    def cycles(self) -> list[Short]:
        """The remembered cycles in short, the oldest first."""
        return self._shorts.copy()

    def cycle(self, number: int) -> bytes | None:
        """One remembered cycle in full."""
        return self._cycles.get(number)


def _short(cycle: CycleDocument, waiting: int) -> Short:
    return Short(
        cycle=cycle.cycle,
        at=cycle.at,
        bound=sum(each.milli for each in cycle.placed),
        evicted=sum(each.milli for each in cycle.evicted),
        held=sum(each.milli for each in cycle.held),
        waiting=waiting,
        gangs=first_gangs(cycle),
    )
