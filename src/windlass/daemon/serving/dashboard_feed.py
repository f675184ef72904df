"""Bring the state of a live cluster into the dashboard, while it is viewed and at a limited cost.

    thread of the step   `step`: decide, with the lock of the board held; note the cycle
    event loop           `look`: a viewer asks; wakes `run`
    another thread       `_show`: make the documents, with the same lock; then `run` pauses for
                         four times as long, so that viewers take at most a fifth of the time

While nobody views the dashboard, only cycles with actions are noted, and no document is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from windlass.daemon.decide import SchedulerStep, StepOutput
from windlass.engine.plan import Plan
from windlass.web.auth import AccessDenied
from windlass.web.documents import LiveState
from windlass.web.feed import ViewExtras, bounded_etas
from windlass.web.redact import NOT_YET
from windlass.web.schema import FinishedJob

EVERY_S = 1.0
"""The documents are made at most so often, and at most every `PAUSES` times their making takes."""
PAUSES = 4
"""The pause after making documents, as a multiple of the time that took."""
LOOKING_S = 45.0
"""Viewers count as present for so long after their last request; event streams ask every 15 s."""
PATIENCE_S = 10.0
"""A viewer waits so long for fresh documents, and then gets 503."""
NOTE_AT_LEAST_S = 60
"""A cycle without actions is noted if the last note is at least so old."""


class DashboardFeed:
    """The board of the dashboard, and whether anybody views it."""

    def __init__(self, board: LiveState, trouble: Callable[[], str]) -> None:
        self.board = board
        self._trouble = trouble
        """Returns why there is nothing to show, in a sentence; empty if there is."""
        self._seen: tuple[SchedulerStep, Plan] | None = None
        """The latest step and its plan. Written and read only with `board.lock` held, as are
        `_steps` and `_shown`."""
        self._steps = self._shown = 0
        """The number of steps so far, and its value when the documents were last made."""
        self._noted: Plan | None = None
        self._noted_at = 0
        self._looked_at = float("-inf")
        """Monotonic seconds of the last request of a viewer."""
        self._wanted, self._is_fresh = asyncio.Event(), asyncio.Event()
        """Both are set while there are viewers; `_is_fresh` once documents have been made."""

    def step(self, scheduler: SchedulerStep, decide: Callable[[], StepOutput]) -> StepOutput:
        """Run one scheduler step with the lock held, so that no reader sees a half-made state."""
        with self.board.lock:
            output = decide()
            self._seen = (scheduler, output.plan)
            self._steps += 1
            if self._is_worth_a_note(output.plan, scheduler.cluster.now):
                self._noted, self._noted_at = output.plan, scheduler.cluster.now
                self.board.note(scheduler.cluster, output.plan)
        return output

    async def look(self) -> None:
        """Note that there is a viewer, and wait for fresh documents.

        Raises `AccessDenied` with 503 if there is nothing to show, or not in time.
        """
        if trouble := self._trouble():
            raise AccessDenied(503, trouble)
        self._looked_at = time.monotonic()
        self._wanted.set()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._is_fresh.wait()
        except TimeoutError:
            raise AccessDenied(503, NOT_YET) from None

    async def run(self) -> None:
        """Make documents while there are viewers, until cancelled."""
        while True:
            await self._wanted.wait()
            began = time.monotonic()
            await asyncio.to_thread(self._show)
            self._is_fresh.set()
            await asyncio.sleep(max(EVERY_S, PAUSES * (time.monotonic() - began)))
            if time.monotonic() > self._looked_at + LOOKING_S:
                self._wanted.clear()
                self._is_fresh.clear()

    def _show(self) -> None:
        with self.board.lock:
            if self._seen is None or self._steps == self._shown:
                return
            scheduler, plan = self._seen
            self._shown = self._steps
            beside = ViewExtras(
                finished=finished(scheduler),
                utilisation=scheduler.gpu_health.utilisation.copy(),
                etas=bounded_etas(scheduler.etas),
            )
            self.board.show(scheduler.cluster, plan, beside)

    def _is_worth_a_note(self, plan: Plan, now: int) -> bool:
        last = self._noted
        if last is None or now >= self._noted_at + NOTE_AT_LEAST_S:
            return True
        if plan is last:
            return False
        acts = bool(plan.actions) and plan.actions != last.actions
        return acts or {hold.gang for hold in plan.holds} != {hold.gang for hold in last.holds}


def finished(scheduler: SchedulerStep) -> list[FinishedJob]:
    """Return the gangs that have ended, the latest first."""
    latest = scheduler.finished.latest()
    return [FinishedJob.of(ending.gang, ending.started, ending.ended) for ending in latest]
