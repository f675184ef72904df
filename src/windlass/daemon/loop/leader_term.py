"""One time of leading: list everything, then watch, decide and write until the lease is lost.

watches --pieces--> inbox --step (in a thread)--> work --> writes, urgent ones first
                      ^                                       |
                      +--------- what became of them ---------+
                      +--------- what DCGM exporters tell
"""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

from windlass.daemon.decide.inbox import Inbox
from windlass.daemon.decide.inputs import StepInput
from windlass.daemon.decide.step import SchedulerStep
from windlass.daemon.decide.step_output import StepOutput
from windlass.daemon.loop.signing_key import take_up
from windlass.daemon.loop.watches import Watches, in_order, paths_of
from windlass.daemon.loop.writers import ClusterWriters
from windlass.daemon.serving.context import DaemonContext
from windlass.daemon.serving.forecaster import Forecaster
from windlass.daemon.serving.recorder import Recording
from windlass.daemon.serving.scope import scope_of
from windlass.daemon.shadow.compare import Shadow
from windlass.daemon.shadow.report import report_of, sum_up
from windlass.kube.client.dcgm_scraper import Exporters
from windlass.state.snapshot import to_json

FIRST_READINGS_S = 5.0
"""The first decision waits so long for what exporters tell, if there are any: what waits for a
broken node would go there with every new leader."""


class LeaderTerm:
    """Leads until told to stop or until the lease is lost."""

    def __init__(self, parts: DaemonContext) -> None:
        self._parts = parts
        config, scope = parts.config, scope_of(parts.config, parts.signing)
        self._inbox = Inbox()
        self._watches = Watches(parts.api, self._inbox.put_all, parts.chance, paths_of(scope.kinds))
        self._writes = ClusterWriters(parts, self._inbox, self._watches)
        self._recording = _recording(parts)
        note = self._recording.note if self._recording else None
        self._brain = SchedulerStep(
            scope,
            parts.clock.now(),
            shadow=config.shadow,
            note=note,
            exporters_in=config.dcgm.namespaces,
        )
        self._exporters = Exporters(self._inbox.put, config.dcgm.every_s)
        self._shadow = Shadow(parts.clock.now()) if config.shadow else None
        self._forecaster = Forecaster(self._no_forecast)
        self._term_number = parts.election.term_number
        self._stop = asyncio.Event()
        self._paused = False
        self._snapshot_asked = False
        self._thinks_since: float | None = None
        """Since when a step is being worked on, by a monotonic clock; None if none is."""
        self.in_step = False
        """All that is there has been read, and decisions are being made."""

    def stop(self) -> None:
        """Make no more decisions, and finish what is under way."""
        self._stop.set()
        self._inbox.filled.set()

    def ask_for_snapshot(self) -> None:
        """Write the state as a file with the next step."""
        self._snapshot_asked = True
        self._inbox.filled.set()

    def thinks_for_s(self) -> float:
        """Return for how many seconds the current step has been running; 0 if none is."""
        return 0.0 if self._thinks_since is None else time.monotonic() - self._thinks_since

    def is_stuck(self) -> bool:
        """Has the step taken longer than any should?"""
        limit_s = self._parts.config.cycle.stuck_after_s
        return 0 < limit_s < self.thinks_for_s()

    def trouble(self) -> str:
        """What keeps this term from working as it should, in a sentence; empty if nothing does."""
        if self.is_stuck():
            return f"the decision that is being made has not ended for {self.thinks_for_s():.0f} s"
        if found := self._watches.trouble():
            return found
        return "" if self.in_step else "the first decision has not been made yet"

    async def run(self) -> None:
        """Lead."""
        try:
            await self._lead()
        finally:
            if self._recording is not None:
                await self._recording.close()

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as group:
            asked = self._writes.asker.endpoints
            parts = (self._writes.workers, self._watches, self._forecaster, asked, self._exporters)
            tasks = [group.create_task(part.run()) for part in parts]
            try:
                await take_up(self._parts)
                await self._read_all()
                if self._ask_exporters():
                    await _at_most(self._exporters.heard_all, FIRST_READINGS_S)
                while self._goes_on():
                    await self._step()
                if self._leads():
                    await self._writes.wait_done()
                if self._shadow is not None:
                    sum_up(self._shadow, self._parts.log)
            finally:
                for task in tasks:
                    task.cancel()

    def shadow_report(self) -> dict[str, Any]:
        """What would have been different so far; nothing unless in shadow mode."""
        return report_of(self._shadow) if self._shadow is not None else {}

    def _goes_on(self) -> bool:
        return (self._parts.config.shadow or self._leads()) and not self._stop.is_set()

    def _leads(self) -> bool:
        # who lost the lease and has it again does not know what happened in between
        return self._parts.election.leads_in(self._term_number)

    # -- reading

    async def _read_all(self) -> None:
        while not self._watches.are_open() and self._goes_on():
            await asyncio.sleep(0.05)
        if not self._goes_on():
            return
        pieces = in_order(self._inbox.take())
        self._mind_pause()  # also what was promised before us is not evicted while paused
        self._brain.pause(self._paused)
        await asyncio.to_thread(_in_bulk, self._brain, pieces)
        self._parts.log.line("read", objects=len(pieces))
        for clearing in self._brain.evicting.unfinished():
            self._writes.evictor.clear(clearing)

    def _ask_exporters(self) -> bool:
        """Ask the exporters that there are now; answers whether these are some, and others."""
        due = self._brain.measures.due() if self._parts.config.dcgm.enabled else None
        if due is not None:
            self._exporters.ask(due)
        return bool(due)

    def _no_forecast(self, why: str) -> None:
        self._parts.log.line("no forecast", level="error", why=why)

    # -- deciding

    async def _step(self) -> None:
        pieces = self._inbox.take()
        self._mind_pause()
        now, began = self._parts.clock.now(), time.perf_counter()
        self._thinks_since = time.monotonic()
        try:
            work = await asyncio.to_thread(self._show_and_think, pieces, now)
        finally:
            self._thinks_since = None
        took_s = time.perf_counter() - began
        self._report(work, len(pieces), took_s)
        if not self._parts.config.shadow:
            self._writes.carry_out(work)
        self._ask_exporters()
        self.in_step = True
        await self._rest(work)

    def _show_and_think(self, pieces: list[StepInput], now: int) -> StepOutput:
        if (showing := self._parts.showing) is None:
            return self._think(pieces, now)
        return showing.step(self._brain, lambda: self._think(pieces, now))

    def _think(self, pieces: list[StepInput], now: int) -> StepOutput:
        work = self._decide(pieces, now)
        self._parts.metrics.planned(work.plan, self._brain.cluster)
        return work

    def _decide(self, pieces: list[StepInput], now: int) -> StepOutput:
        self._brain.pause(self._paused)
        if self._shadow is None:
            self._brain.take(pieces)
        if self._snapshot_asked:
            self._snapshot_asked = False
            self._write_snapshot(now)
        if self._shadow is None:
            self._brain.expect(self._forecaster.etas, self._forecaster.told)
            work = self._brain.step(now)
            self._forecaster.look(self._brain.cluster)
            return work
        return self._shadow.think(self._brain, pieces, now)

    def _write_snapshot(self, now: int) -> None:
        folder = Path(self._parts.config.snapshot_folder or ".")
        file = folder / f"windlass-{now}.json"
        try:
            file.write_bytes(to_json(self._brain.cluster.snapshot()))
        except OSError as error:
            self._parts.log.line("no snapshot", level="error", file=str(file), why=str(error))
        else:
            self._parts.log.line("snapshot", file=str(file))

    def _mind_pause(self) -> None:
        paused = (
            self._parts.election.paused or not self._parts.config.evictions_per_queue_per_minute
        )
        if paused != self._paused:
            self._paused = self._writes.evictor.paused = paused
            self._parts.log.line("paused" if paused else "resumed")

    async def _rest(self, work: StepOutput) -> None:
        """Wait for news, for the next instant that matters, or for the longest pause."""
        cycle = self._parts.config.cycle
        if not work.plan.actions:
            wait_s = float(cycle.at_most_s)
            if work.wake_at is not None:
                wait_s = min(wait_s, max(0.0, work.wake_at - self._parts.clock.now()))
            await _at_most(self._inbox.filled, wait_s)
        # a burst is gathered, so that a gang whose pods come one by one is decided once
        await asyncio.sleep(cycle.at_least_ms / 1000)

    # -- telling

    def _report(self, work: StepOutput, pieces: int, took_s: float) -> None:
        plan, metrics = work.plan, self._parts.metrics
        metrics.cycle.observe(took_s)
        metrics.writes.set(self._writes.workers.waiting)
        self._parts.log.line(
            "cycle",
            level="info" if plan.actions else "debug",
            ms=round(took_s * 1000, 1),
            seen=pieces,
            binds=len(plan.binds),
            evictions=len(plan.evictions),
            waiting=sum(len(line) for line in self._brain.cluster.waiting.values()),
            holds=len(plan.holds),
            unwritten=self._writes.workers.waiting,
        )


def _in_bulk(brain: SchedulerStep, pieces: list[StepInput]) -> None:
    """Take in a whole cluster: the collector would walk over it again and again."""
    gc.disable()
    try:
        brain.take(pieces)
        brain.resume()
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def _recording(parts: DaemonContext) -> Recording | None:
    """The history of this term, if one is kept; each term is a writer of its own."""
    if not parts.config.history.url or parts.config.shadow:
        return None
    name = f"{parts.election.identity}/{parts.election.term_number}"
    return Recording(parts.config, name, parts.metrics, parts.log)


async def _at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
