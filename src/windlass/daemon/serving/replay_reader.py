"""Read the history for the dashboard: recorded cycles in short, and one in full by replay.

Reasons are not recorded, because the engine can compute them again (`history/replay.py`). So the
recorded stretch of the requested cycle is replayed up to it, with pauses, for one viewer at a time;
its cycles are cached until another stretch is requested.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock

from windlass.history.location import HistoryError
from windlass.history.replay import replay_stretch
from windlass.history.store import Brief, HistoryStore, Stretch
from windlass.web.documents import cycle_document
from windlass.web.feed import MOST_CYCLES, ReplayUnavailable
from windlass.web.schema import CycleDocument, RecordedCycles, RecordedDocument

PAUSES = 4
"""The pause after each replayed cycle, as a multiple of its CPU time: work for viewers must not
slow the scheduler down."""
PATIENCE_S = 15.0
"""Seconds after which a request gives up; the next one goes on where it stopped."""
NOT_YET = "That time is still being played again; ask again in a moment."
OTHERWISE = (
    "This version of Windlass decides otherwise than the one that recorded this, from cycle "
    "{first} on; `windlass replay` says more."
)


class ReplayReader:
    """Reads recorded cycles; its methods block, and are called in threads."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._lock = Lock()
        """Held during a replay: one at a time."""
        self._replay: _StretchReplay | None = None
        """The stretch that was requested last; guarded by `_lock`."""

    def window(self, since: int | None, until: int | None) -> RecordedDocument:
        """Return the first recorded cycles from `since` on or, if it is None, the last ones up to
        `until`. Both are seconds. Raises `ReplayUnavailable` if the history cannot be read.
        """
        try:
            stretches = self._store.stretches()
            if since is not None:
                briefs = self._store.from_on(since, MOST_CYCLES)
            else:
                briefs = self._store.up_to(until or 0, MOST_CYCLES)
        except HistoryError as error:
            raise ReplayUnavailable(f"The record cannot be read: {error}") from None
        return RecordedDocument(
            began=min((stretch.began for stretch in stretches), default=0),
            until=max((stretch.until for stretch in stretches), default=0),
            cycles=_columns(briefs),
        )

    def cycle(self, key: str) -> CycleDocument | None:
        """Return one cycle in full by its key, `number~writer`; None if it is not recorded.

        Raises `ReplayUnavailable` if it cannot be replayed, or not in time.
        """
        number, _, writer = key.partition("~")
        if not number.isdecimal():
            return None
        with self._lock:
            try:
                return self._replayed(writer, int(number))
            except HistoryError as error:
                raise ReplayUnavailable(f"The record cannot be read: {error}") from None

    def _replayed(self, writer: str, number: int) -> CycleDocument | None:
        if self._replay is None or not self._replay.has(writer, number):
            stretch = self._stretch(writer, number)
            if stretch is None:
                return None
            self._replay = _StretchReplay(self._store, stretch)
        return self._replay.until(number)

    def _stretch(self, writer: str, number: int) -> Stretch | None:
        for stretch in self._store.stretches():
            end = stretch.first + stretch.cycles
            if stretch.writer == writer and stretch.first <= number < end:
                return stretch
        return None


class _StretchReplay:
    """The replay of one stretch, as far as it has been requested."""

    def __init__(self, store: HistoryStore, stretch: Stretch) -> None:
        self._stretch = stretch
        self._rest = self._play(store)
        """Yields the documents of the cycles that have not been replayed yet."""
        self._documents: dict[int, CycleDocument] = {}
        """The documents of the replayed cycles by number."""

    def has(self, writer: str, number: int) -> bool:
        first = self._stretch.first
        return writer == self._stretch.writer and first <= number < first + self._stretch.cycles

    def until(self, number: int) -> CycleDocument | None:
        """Replay up to a cycle and return its document.

        Raise `ReplayUnavailable` if that does not end in time.
        """
        deadline = time.monotonic() + PATIENCE_S
        while number not in self._documents:
            began = time.thread_time()
            document = next(self._rest, None)
            if document is None:
                first = self._stretch.first + len(self._documents)
                raise ReplayUnavailable(OTHERWISE.format(first=first))
            self._documents[document.cycle] = document
            time.sleep(PAUSES * (time.thread_time() - began))
            if time.monotonic() > deadline and number not in self._documents:
                raise ReplayUnavailable(NOT_YET)
        return self._documents[number]

    def _play(self, store: HistoryStore) -> Iterator[CycleDocument]:
        for replayed in replay_stretch(store.start(self._stretch), store.cycles(self._stretch)):
            if replayed.is_same or replayed.acts_the_same:
                cluster = replayed.cluster
                yield cycle_document(replayed.cycle.number, cluster, replayed.plan, cluster.holds)


def _columns(briefs: list[Brief]) -> RecordedCycles:
    return RecordedCycles(
        key=[f"{brief.number}~{brief.writer}" for brief in briefs],
        at=[brief.at for brief in briefs],
        bound=[brief.binds for brief in briefs],
        evicted=[brief.evictions for brief in briefs],
        waiting=[brief.waiting for brief in briefs],
    )
