"""The thread that writes cycles to the history, so that a slow database never delays a cycle.

    cycles --put--> bounded queue --batch--> encoded --one transaction--> database

A cycle that finds no room in the queue is lost and counted. The stretch ends there, and the next
cycle that finds room starts another. While the database fails, the batch is retried with backoff.
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
"""The capacity of the queue: events, decisions, actions, and objects in starts."""
AT_ONCE = 100
"""The most cycles in one transaction."""
AGAIN_S = (0.5, 1, 2, 5, 10, 30)
"""The backoff in seconds after each failed write; the last value repeats."""
GATHER_S = 1.0
"""The seconds for which cycles are collected for a transaction."""
STRETCHES_IN_RING = 4
"""The least number of stretches in a full ring: a stretch ends when it is larger than its part."""

Tell: TypeAlias = Callable[[str], None]
"""Logs a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class NotedCycle:
    """A cycle as the recorder hands it over, not encoded yet."""

    number: int
    at: int
    heard: tuple[Heard, ...]
    holds: tuple[Hold, ...] | None
    plan: Plan
    start: StretchStart | None
    """The start of a new stretch with this cycle; None: it continues the last one."""

    @property
    def weight(self) -> int:
        """Return the room that the cycle takes in the queue."""
        weight = 1 + len(self.heard) + len(self.plan.decisions) + len(self.plan.actions)
        if self.start is not None:
            snapshot = self.start.snapshot
            weight += len(snapshot.nodes) + len(snapshot.gangs) + len(snapshot.tasks)
        return weight


class HistoryWriter:
    """The queue of cycles, and the thread that writes them."""

    def __init__(
        self, store: HistoryStore, name: str, keep: Keep, tell: Tell, most: int = MOST_WAITING
    ) -> None:
        self.lost = 0
        """The number of cycles that found no room."""
        self.written = 0
        """The number of cycles in the database."""
        self.is_full = False
        """True if the current stretch is large enough, and the next cycle should start another."""
        self._store, self._keep, self._tell, self._most = store, keep, tell, most
        self._waiting: list[NotedCycle] = []
        """The queue. Cycles stay in it until they are committed. Guarded by `_changed`, like
        `_weight`, `is_full` and `_closing_at`."""
        self._weight = 0
        """The sum of the weights in `_waiting`."""
        self._changed = Condition()
        self._closing_at: float | None = None
        """The monotonic time at which the thread gives up; None until `close`."""
        self._batch = _Batch(name, keep.bytes // STRETCHES_IN_RING)
        self._thread = Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def put(self, noted: NotedCycle) -> bool:
        """Queue a cycle and return True, or return False if there is no room; never blocks."""
        with self._changed:
            # An empty queue takes a cycle of any weight: the start of a large cluster may exceed
            # it.
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
        """Write the queued cycles, for at most `patience_s` seconds, and end the thread."""
        with self._changed:
            self._closing_at = monotonic() + patience_s
            self._changed.notify()
        self._thread.join(patience_s + 1)
        if left := len(self._waiting):
            self._tell(f"{left} cycles were not written to the history")

    # -- inside the thread

    def _run(self) -> None:
        try:
            self._write_all()
        except Exception as error:
            # A bug: recording ends and the queue accepts nothing more, but scheduling continues.
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

    def _next(self) -> list[NotedCycle] | None:
        """Wait for cycles and return the next ones to write; None if the thread must end."""
        with self._changed:
            while not self._waiting:
                if self._closing_at is not None:
                    return None
                self._changed.wait()
            self._wait_until(monotonic() + GATHER_S, lambda: len(self._waiting) >= AT_ONCE)
            return self._waiting[:AT_ONCE]

    def _write(self, noted: list[NotedCycle]) -> None:
        batch = self._batch.with_all(noted)
        self._store.write(batch.stretches, batch.rows, self._keep)
        self._batch = batch.kept()
        with self._changed:
            del self._waiting[: len(noted)]
            self._weight -= sum(cycle.weight for cycle in noted)
            self.written += len(noted)
            self.is_full = self._batch.is_full
        if self.lost > self._batch.lost_told:
            self._tell(
                f"{self.lost - self._batch.lost_told} cycles came faster than the history could "
                "be written and are missing in it"
            )
            self._batch.lost_told = self.lost

    def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; return False if the time to close is over."""
        with self._changed:
            if self._closing_at is None:
                self._wait_until(monotonic() + seconds, lambda: False)
            else:
                self._changed.wait(min(seconds, self._closing_at - monotonic()))
            return self._closing_at is None or monotonic() < self._closing_at

    def _wait_until(self, end: float, is_enough: Callable[[], bool]) -> None:
        """Wait until the time `end`, until `is_enough` returns True, or until `close` is called."""
        while self._closing_at is None and not is_enough() and (left := end - monotonic()) > 0:
            self._changed.wait(left)


class _Batch:
    """The encoder of cycles. Each attempt works on a copy, so that a failed one can be repeated."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self.stretches: list[tuple[Stretch, bytes | None]] = []
        """The stretches to write; the first has no start if the database has it already."""
        self.rows: list[CycleRow] = []
        self.lost_told = 0
        """The number of lost cycles that was reported to the operator."""
        self._name, self._most_bytes = name, most_bytes
        self._last_decisions: dict[GangId, tuple[Verdict, tuple[str, ...]]] = {}
        """The verdict and reason codes of each gang in the last cycle; empty at a stretch's
        start."""

    @property
    def is_full(self) -> bool:
        return self.stretches[-1][0].bytes > self._most_bytes

    def with_all(self, noted: Iterable[NotedCycle]) -> _Batch:
        """Return a batch that continues this one with more cycles."""
        batch = _Batch(self._name, self._most_bytes)
        batch.stretches = list(self.stretches)
        batch.lost_told = self.lost_told
        batch._last_decisions = self._last_decisions  # replaced, never changed in place
        for cycle in noted:
            batch._add(cycle)
        return batch

    def kept(self) -> _Batch:
        """Return the basis of the next batch: the last stretch, without its cycles and start."""
        kept = _Batch(self._name, self._most_bytes)
        kept.stretches = [(self.stretches[-1][0], None)]
        kept.lost_told, kept._last_decisions = self.lost_told, self._last_decisions
        return kept

    def _add(self, noted: NotedCycle) -> None:
        if noted.start is not None:
            body, before = start_to_bytes(noted.start), self._lost_before(noted.number)
            stretch = Stretch(
                self._name, noted.number, noted.at, noted.at, 0, len(body), __version__, before
            )
            self.stretches.append((stretch, body))
            self._last_decisions = {}  # so that a stretch can be read without the one before
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
        """Return the number of lost cycles between the last stretch and the cycle `number`."""
        if not self.stretches:
            return 0
        last = self.stretches[-1][0]
        return number - last.first - last.cycles

    def _cycle(self, noted: NotedCycle) -> RecordedCycle:
        plan = noted.plan
        now = {
            decision.gang: (
                decision.queue,
                decision.verdict,
                tuple(str(reason.why) for reason in decision.reasons),
            )
            for decision in plan.decisions
        }
        before = self._last_decisions
        self._last_decisions = {gang: (verdict, whys) for gang, (_, verdict, whys) in now.items()}
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
    return sum(decision.verdict in (Verdict.WAITS, Verdict.NEVER) for decision in plan.decisions)
