"""The newest view and a bounded past of cycles: written by one thread, read by any.

Whoever runs cycles calls `note` after each one and `show` when viewers should see the result. That
copies the moment (`feed/view.py`) and no more: documents are made of it only on request
(`documents/cache.py`), in the thread of the request. Only questions about room are answered from
the cluster itself: whoever changes the cluster after it was shown must hold `lock` meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeAlias

from windlass.engine.plan import Plan, Verdict
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster
from windlass.web.documents.cache import DocumentCache, ShownMoment
from windlass.web.documents.decisions import CycleSummary, cycle_document, summarize
from windlass.web.documents.jobs import start_rows
from windlass.web.feed import (
    ChangeSignal,
    ReplaySource,
    Timeseries,
    ViewExtras,
    as_bytes,
    is_waiting,
    take_view,
)
from windlass.web.schema import RoomDocument, Stamp

MOST_CYCLES = 600
"""The remembered cycles; the oldest is forgotten."""

RoomExplainer: TypeAlias = Callable[[Cluster, Plan, GangId], Sequence[str]]
"""A function that says in sentences what it would take to make room for a gang."""


class LiveState:
    """The state behind the dashboard: the newest view, and the cycles before it."""

    def __init__(
        self, run: str, played: bool = False, tell_room: RoomExplainer | None = None
    ) -> None:
        self.change_signal = ChangeSignal()
        self.lock = Lock()
        """Held by whoever changes the cluster that was shown, and while `room` reads it."""
        self.documents = DocumentCache()
        self._asking = Lock()
        """Held while suggestions are computed: one computation at a time."""
        self._seen: tuple[Cluster, Plan] | None = None
        """The live cluster that was shown last, not a copy: read it only with `lock` held."""
        self._tell_room = tell_room
        self._recorded: ReplaySource | None = None
        self._run = run
        self._played = played
        self._cycle = 0
        self._version = 0
        # Invariant: `_shorts` and `_cycles` describe the same cycles, at most MOST_CYCLES.
        self._shorts: list[CycleSummary] = []
        self._cycles: dict[int, bytes] = {}
        """The documents by cycle, kept encoded to save memory."""
        self._held: frozenset[GangId] = frozenset()
        """The gangs with a hold after the last cycle: a hold is told only when it is new."""
        self._book = Timeseries()

    @property
    def recorded(self) -> ReplaySource | None:
        """The record of the cycles before the remembered ones; None if nothing is recorded."""
        return self._recorded

    @recorded.setter
    def recorded(self, record: ReplaySource) -> None:
        self._recorded, self.documents.is_recorded = record, True

    @property
    def stamp(self) -> Stamp | None:
        """The stamp of the moment that is shown; None before the first."""
        shown = self.documents.shown
        return shown.view.stamp if shown else None

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """Remember the actions of a cycle; forget the oldest cycle beyond `MOST_CYCLES`."""
        self._cycle += 1
        document = cycle_document(self._cycle, cluster, plan, self._held)
        self._held = frozenset(hold.gang for hold in plan.holds)
        self._cycles[self._cycle] = as_bytes(document)
        waiting = sum(is_waiting(decision) for decision in plan.decisions)
        self._shorts.append(summarize(document, waiting))
        if len(self._shorts) > MOST_CYCLES:
            del self._cycles[self._shorts.pop(0).cycle]
        self._book.note(cluster, plan)

    def show(self, cluster: Cluster, plan: Plan, beside: ViewExtras | None = None) -> None:
        """Take a view of the cluster as it is now, and notify all viewers."""
        self._version += 1
        stamp = Stamp(self._run, self._version, self._cycle, cluster.now, self._played)
        before = self.documents.shown.view if self.documents.shown else None
        view = take_view(cluster, plan, stamp, beside, before)
        self.documents.shown = ShownMoment(view, tuple(self._book.samples), tuple(self._shorts))
        self._seen = cluster, plan
        self.change_signal.ring()

    def room(self, gang: str) -> bytes | None:
        """Return what it would take to make room for a gang; None if the gang does not wait."""
        with self.lock:
            if self._seen is None or self._tell_room is None:
                return None
            cluster, plan = self._seen
            decision = next((entry for entry in plan.decisions if entry.gang == gang), None)
            if decision is None or not is_waiting(decision) or gang not in cluster.gangs:
                return None
            waits = decision.verdict is Verdict.WAITS
            sentences = list(self._tell_room(cluster, plan, GangId(gang))) if waits else []
            cycle, snapshot = self._cycle, cluster.snapshot()
        # The rest takes long, so it works on a copy: the scheduler need not wait for it.
        with self._asking:
            rows, notes = start_rows(snapshot, GangId(gang))
        return as_bytes(RoomDocument(gang, cycle, sentences, rows, notes))

    def cycles(self) -> list[CycleSummary]:
        """Return the remembered cycles in short, the oldest first."""
        return self._shorts.copy()

    def cycle(self, number: int) -> bytes | None:
        """Return the document of one remembered cycle; None if it is forgotten."""
        return self._cycles.get(number)
