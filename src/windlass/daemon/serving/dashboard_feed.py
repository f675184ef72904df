"""Puts a live cluster on the board, as often as somebody looks and no oftener than it can afford.

    brain's thread   step: decide, with the board's lock held; note what was done
    event loop       look: somebody asks; wakes `run` if it was asleep
    another thread   show: make the documents, again with the lock; then a pause of four times that

While nobody looks only cycles that did something are noted, and no document is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from windlass.daemon.decide.step import SchedulerStep, StepOutput
from windlass.engine.plan import Plan
from windlass.web.auth.authentication import AccessDenied
from windlass.web.feed.live_state import LiveState
from windlass.web.feed.view import Beside, ending
from windlass.web.redact.viewer import NOT_YET
from windlass.web.schema.documents import FinishedJob

EVERY_S = 1.0
"""What is shown is no older than this, or than four times the time that showing takes."""
PAUSES = 4
LOOKING_S = 45.0
"""Who has asked so lately is taken to be still looking; event streams ask every 15 s."""
PATIENCE_S = 10.0
NOTE_AT_LEAST_S = 60
"""A cycle that did nothing is noted if the last note is as old as this."""


class Showing:
    """The board, and who looks at it."""

    def __init__(self, board: LiveState, trouble: Callable[[], str]) -> None:
        self.board = board
        self._trouble = trouble
        self._seen: tuple[SchedulerStep, Plan] | None = None
        self._steps = self._shown = 0
        self._noted: Plan | None = None
        self._noted_at = 0
        self._looked_at = float("-inf")
        self._wanted, self._is_fresh = asyncio.Event(), asyncio.Event()

    def step(self, brain: SchedulerStep, decide: Callable[[], StepOutput]) -> StepOutput:
        """One step of the brain, while nobody reads what it changes."""
        with self.board.lock:
            work = decide()
            self._seen = (brain, work.plan)
            self._steps += 1
            if self._is_worth_a_note(work.plan, brain.cluster.now):
                self._noted, self._noted_at = work.plan, brain.cluster.now
                self.board.note(brain.cluster, work.plan)
        return work

    async def look(self) -> None:
        """Somebody looks; returns when there is something fresh to see."""
        if sentence := self._trouble():
            raise AccessDenied(503, sentence)
        self._looked_at = time.monotonic()
        self._wanted.set()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._is_fresh.wait()
        except TimeoutError:
            raise AccessDenied(503, NOT_YET) from None

    async def run(self) -> None:
        """Show, for ever, while somebody looks."""
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
            brain, plan = self._seen
            self._shown = self._steps
            beside = Beside(
                finished=finished(brain),
                utilisation=brain.measures.utilisation.copy(),
                etas=ending(brain.etas),
            )
            self.board.show(brain.cluster, plan, beside)

    def _is_worth_a_note(self, plan: Plan, now: int) -> bool:
        last = self._noted
        if last is None or now >= self._noted_at + NOTE_AT_LEAST_S:
            return True
        if plan is last:
            return False
        acts = bool(plan.actions) and plan.actions != last.actions
        return acts or {each.gang for each in plan.holds} != {each.gang for each in last.holds}


def finished(brain: SchedulerStep) -> list[FinishedJob]:
    """The gangs that have ended, the latest first."""
    latest = brain.endings.latest()
    return [FinishedJob.of(each.gang, each.started, each.ended) for each in latest]
