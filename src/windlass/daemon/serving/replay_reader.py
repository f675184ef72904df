"""The record for the dashboard: recorded cycles in short, and one in full by playing it again.

Reasons are not recorded, because the engine gives them back (`history/replay.py`). So the stretch
of a cycle that is asked for is decided again up to it, with pauses, for one who asks at a time; its
cycles are kept until another stretch is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock

from windlass.history.location import HistoryError
from windlass.history.replay import again
from windlass.history.store import Brief, HistoryStore, Stretch
from windlass.web.documents.decisions import cycle_document
from windlass.web.feed.replay_source import MOST_CYCLES, CannotTell
from windlass.web.schema.cycles import CycleDocument, RecordedCycles, RecordedDocument

PAUSES = 4
"""So many times as long as it works it rests, as everything for viewers does."""
PATIENCE_S = 15.0
"""So long one who asks is kept waiting; the next one finds what was played meanwhile."""
NOT_YET = "That time is still being played again; ask again in a moment."
OTHERWISE = (
    "This version of Windlass decides otherwise than the one that recorded this, from cycle "
    "{first} on; `windlass replay` says more."
)


class ReplayReader:
    """A record that viewers can ask."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._asking = Lock()
        self._played: _Played | None = None

    def window(self, since: int | None, until: int | None) -> RecordedDocument:
        """The first cycles from a second on, or the last ones up to one."""
        try:
            stretches = self._store.stretches()
            if since is not None:
                found = self._store.from_on(since, MOST_CYCLES)
            else:
                found = self._store.up_to(until or 0, MOST_CYCLES)
        except HistoryError as error:
            raise CannotTell(f"The record cannot be read: {error}") from None
        return RecordedDocument(
            began=min((each.began for each in stretches), default=0),
            until=max((each.until for each in stretches), default=0),
            cycles=_columns(found),
        )

    def cycle(self, key: str) -> CycleDocument | None:
        """One of them in full; None if it is not kept."""
        number, _, writer = key.partition("~")
        if not number.isdecimal():
            return None
        with self._asking:
            try:
                return self._found(writer, int(number))
            except HistoryError as error:
                raise CannotTell(f"The record cannot be read: {error}") from None

    def _found(self, writer: str, number: int) -> CycleDocument | None:
        if self._played is None or not self._played.has(writer, number):
            stretch = self._stretch(writer, number)
            if stretch is None:
                return None
            self._played = _Played(self._store, stretch)
        return self._played.until(number)

    def _stretch(self, writer: str, number: int) -> Stretch | None:
        for each in self._store.stretches():
            if each.writer == writer and each.first <= number < each.first + each.cycles:
                return each
        return None


class _Played:
    """A stretch that is being played again."""

    def __init__(self, store: HistoryStore, stretch: Stretch) -> None:
        self._stretch = stretch
        self._rest = self._play(store)
        self._told: dict[int, CycleDocument] = {}

    def has(self, writer: str, number: int) -> bool:
        first = self._stretch.first
        return writer == self._stretch.writer and first <= number < first + self._stretch.cycles

    def until(self, number: int) -> CycleDocument | None:
        """Go on to a cycle, as far as that is possible in time."""
        until = time.monotonic() + PATIENCE_S
        while number not in self._told:
            began = time.thread_time()
            told = next(self._rest, None)
            if told is None:
                raise CannotTell(OTHERWISE.format(first=self._stretch.first + len(self._told)))
            self._told[told.cycle] = told
            time.sleep(PAUSES * (time.thread_time() - began))
            if time.monotonic() > until and number not in self._told:
                raise CannotTell(NOT_YET)
        return self._told[number]

    def _play(self, store: HistoryStore) -> Iterator[CycleDocument]:
        for each in again(store.start(self._stretch), store.cycles(self._stretch)):
            if each.is_same or each.acts_the_same:
                yield cycle_document(each.cycle.number, each.cluster, each.plan, each.cluster.holds)


def _columns(briefs: list[Brief]) -> RecordedCycles:
    return RecordedCycles(
        key=[f"{each.number}~{each.writer}" for each in briefs],
        at=[each.at for each in briefs],
        bound=[each.binds for each in briefs],
        evicted=[each.evictions for each in briefs],
        waiting=[each.waiting for each in briefs],
    )
