"""Writes what was noted, in a thread of its own: a slow database never keeps a cycle waiting.

cycles --put--> a queue with room for so much --batch--> encoded --one transaction--> the database

What finds no room in the queue is lost and counted; the stretch ends there, and the next cycle that
finds room begins another. While the database does not answer, the batch is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Condition, Thread
from time import monotonic
from typing import TypeAlias

from windlass import __version__
from windlass.engine.plan import Plan, Verdict
from windlass.history.location import HistoryError
from windlass.history.record import (
    DecisionChange,
    Heard,
    RecordedCycle,
    StretchStart,
    digest_of,
    start_to_bytes,
    to_bytes,
)
from windlass.history.store import CycleRow, HistoryStore, Keep, Stretch
from windlass.model.actions import Hold
from windlass.model.jobs import GangId

MOST_WAITING = 500_000
"""So many events, decisions and parts of starts wait to be written at most."""
AT_ONCE = 100
"""So many cycles are written in one transaction at most."""
AGAIN_S = (0.5, 1, 2, 5, 10, 30)
"""How long to wait before a failed write is tried again: first, then, ... and from there on."""
GATHER_S = 1.0
"""So long cycles are gathered for a transaction."""
STRETCHES_IN_RING = 4
"""A stretch is ended before it takes a larger part of the ring than one in so many."""

Tell: TypeAlias = Callable[[str], None]
"""Says a sentence to whoever runs this."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A cycle as the recorder saw it."""

    number: int
    at: int
    heard: tuple[Heard, ...]
    holds: tuple[Hold, ...] | None
    plan: Plan
    start: StretchStart | None
    """With it a stretch begins."""

    @property
    def weight(self) -> int:
        """How much of the queue it takes."""
        found = 1 + len(self.heard) + len(self.plan.decisions) + len(self.plan.actions)
        if self.start is not None:
            snapshot = self.start.snapshot
            found += len(snapshot.nodes) + len(snapshot.gangs) + len(snapshot.tasks)
        return found


class HistoryWriter:
    """The thread and its queue."""

    def __init__(
        self, store: HistoryStore, name: str, keep: Keep, tell: Tell, most: int = MOST_WAITING
    ) -> None:
        self.lost = 0
        """Cycles that found no room."""
        self.written = 0
        self.is_full = False
        """The stretch should end here."""
        self._store, self._keep, self._tell, self._most = store, keep, tell, most
        self._waiting: list[Noted] = []
        self._weight = 0
        self._changed = Condition()
        self._closing_at: float | None = None
        self._batch = _Batch(name, keep.bytes // STRETCHES_IN_RING)
        self._thread = Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def put(self, noted: Noted) -> bool:
        """Take a cycle, if there is room; never waits."""
        with self._changed:
            # an empty queue takes anything: else a cluster could be too large to begin with
            if self._waiting and self._weight + noted.weight > self._most:
                self.lost += 1
                return False
            if noted.start is not None:
                self.is_full = False
            self._waiting.append(noted)
            self._weight += noted.weight
            self._changed.notify()
            return True

    def close(self, patience_s: float = 5.0) -> None:
        """Write what waits, as far as that is possible in time, and stop."""
        with self._changed:
            self._closing_at = monotonic() + patience_s
            self._changed.notify()
        self._thread.join(patience_s + 1)
        if left := len(self._waiting):
            self._tell(f"{left} cycles were not written to the history")

    # -- the thread

    def _run(self) -> None:
        try:
            self._write_all()
        except Exception as error:
            # a mistake of ours: the record ends, the queue takes nothing more, and cycles go on
            self._most = 0
            self._tell(f"the history ends here, which is a bug: {type(error).__name__}: {error}")
            raise

    def _write_all(self) -> None:
        is_ready, failures = False, 0
        while (noted := self._next()) is not None:
            try:
                if not is_ready:
                    self._store.prepare()
                    is_ready = True
                self._write(noted)
            except HistoryError as error:
                if not failures:
                    self._tell(f"the history cannot be written; it is tried again: {error}")
                failures += 1
                if not self._pause(AGAIN_S[min(failures, len(AGAIN_S)) - 1]):
                    return
            else:
                if failures:
                    self._tell("the history is written again")
                failures = 0

    def _next(self) -> list[Noted] | None:
        with self._changed:
            while not self._waiting:
                if self._closing_at is not None:
                    return None
                self._changed.wait()
            self._wait_until(monotonic() + GATHER_S, lambda: len(self._waiting) >= AT_ONCE)
            return self._waiting[:AT_ONCE]

    def _write(self, noted: list[Noted]) -> None:
        batch = self._batch.with_all(noted, self.lost)
        self._store.write(batch.stretches, batch.rows, self._keep)
        self._batch = batch.kept()
        with self._changed:
            del self._waiting[: len(noted)]
            self._weight -= sum(each.weight for each in noted)
            self.written += len(noted)
            self.is_full = self._batch.is_full
        if self.lost > self._batch.lost_told:
            self._tell(
                f"{self.lost - self._batch.lost_told} cycles came faster than the history could "
                "be written and are missing in it"
            )
            self._batch.lost_told = self.lost

    def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; False if there will be none."""
        with self._changed:
            if self._closing_at is None:
                self._wait_until(monotonic() + seconds, lambda: False)
            else:
                self._changed.wait(min(seconds, self._closing_at - monotonic()))
            return self._closing_at is None or monotonic() < self._closing_at

    def _wait_until(self, end: float, is_enough: Callable[[], bool]) -> None:
        """Wait to a moment, or until something is so, or until all is to be closed."""
        while self._closing_at is None and not is_enough() and (left := end - monotonic()) > 0:
            self._changed.wait(left)


class _Batch:
    """Encodes cycles; each attempt works on a copy, so that a failed one can be repeated."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self.stretches: list[tuple[Stretch, bytes | None]] = []
        self.rows: list[CycleRow] = []
        self.lost_told = 0
        self._name, self._most_bytes = name, most_bytes
        self._said: dict[GangId, tuple[Verdict, tuple[str, ...]]] = {}

    @property
    def is_full(self) -> bool:
        return self.stretches[-1][0].bytes > self._most_bytes

    def with_all(self, noted: Iterable[Noted], lost: int) -> _Batch:
        """These cycles after what was written before."""
        made = _Batch(self._name, self._most_bytes)
        made.stretches, made.lost_told, made._said = (
            list(self.stretches),
            self.lost_told,
            self._said,
        )
        for each in noted:
            made._add(each, lost)
        return made

    def kept(self) -> _Batch:
        """What must be known for the next batch: the stretch that goes on, and what was said."""
        kept = _Batch(self._name, self._most_bytes)
        kept.stretches = [(self.stretches[-1][0], None)]
        kept.lost_told, kept._said = self.lost_told, self._said
        return kept

    def _add(self, noted: Noted, lost: int) -> None:
        if noted.start is not None:
            body, before = start_to_bytes(noted.start), self._lost_before(noted.number)
            stretch = Stretch(
                self._name, noted.number, noted.at, noted.at, 0, len(body), __version__, before
            )
            self.stretches.append((stretch, body))
            self._said = {}
        body = to_bytes(self._cycle(noted))
        stretch, start = self.stretches[-1]
        longer = replace(
            stretch, until=noted.at, cycles=stretch.cycles + 1, bytes=stretch.bytes + len(body)
        )
        self.stretches[-1] = (longer, start)
        plan = noted.plan
        self.rows.append(
            CycleRow(
                noted.number,
                stretch.first,
                noted.at,
                len(plan.binds),
                len(plan.evictions),
                _waiting(plan),
                body,
            )
        )

    def _lost_before(self, number: int) -> int:
        if not self.stretches:
            return 0
        last = self.stretches[-1][0]
        return number - last.first - last.cycles

    def _cycle(self, noted: Noted) -> RecordedCycle:
        plan = noted.plan
        now = {
            each.gang: (each.queue, each.verdict, tuple(str(why.why) for why in each.reasons))
            for each in plan.decisions
        }
        before, self._said = self._said, {gang: (v, w) for gang, (_, v, w) in now.items()}
        return RecordedCycle(
            number=noted.number,
            at=noted.at,
            heard=noted.heard,
            holds=noted.holds,
            actions=plan.actions,
            changes=tuple(
                DecisionChange(gang, queue, verdict, whys)
                for gang, (queue, verdict, whys) in now.items()
                if before.get(gang) != (verdict, whys)
            ),
            gone=tuple(gang for gang in before if gang not in now),
            waiting=_waiting(plan),
            digest=digest_of(plan),
        )


def _waiting(plan: Plan) -> int:
    return sum(each.verdict in (Verdict.WAITS, Verdict.NEVER) for each in plan.decisions)
