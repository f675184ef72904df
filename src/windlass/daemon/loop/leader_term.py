"""One term of a leader: list everything, then watch, decide and write until the lease is lost.

    watches --inputs--> inbox --step (in a thread)--> output --> writers, urgent writes first
                          ^                                        |
                          +-------------- results of writes -------+
                          +-------------- readings of DCGM exporters

All state of the scheduler lives in a term. A new leader lists everything after it has the lease, so
it cannot have missed a write of its predecessor.
"""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

from windlass.daemon.decide import SchedulerStep, StepInput, StepOutput
from windlass.daemon.loop.inbox import Inbox
from windlass.daemon.loop.signing_key import load_signing_key
from windlass.daemon.loop.watches import Watches, paths_of, sort_inputs
from windlass.daemon.loop.writers import ClusterWriters
from windlass.daemon.serving import DaemonContext, Forecaster, TermRecorder, check_rules, scope_of
from windlass.daemon.shadow import Shadow, report_of, sum_up
from windlass.kube.client import DcgmScraper
from windlass.state.snapshot import to_json

FIRST_READINGS_S = 5.0
"""The first decision waits so long for the readings of DCGM exporters, if there are any: without
them, each new leader would place pending gangs on nodes with broken GPUs."""


class LeaderTerm:
    """A term: it leads until it is stopped or the lease is lost."""

    def __init__(self, context: DaemonContext) -> None:
        self._context = context
        config, scope = context.config, scope_of(context.config, context.signing)
        self._inbox = Inbox()
        self._watches = Watches(
            context.api, self._inbox.put_all, context.chance, paths_of(scope.kinds)
        )
        self._writes = ClusterWriters(context, self._inbox, self._watches)
        self._recording = _recording(context)
        note = self._recording.note if self._recording else None
        self._scheduler = SchedulerStep(
            scope,
            context.clock.now(),
            shadow=config.shadow,
            note=note,
            exporters_in=config.dcgm.namespaces,
            node_checks=check_rules(config),
        )
        self._exporters = DcgmScraper(self._inbox.put, config.dcgm.every_s)
        self._shadow = Shadow(context.clock.now()) if config.shadow else None
        self._forecaster = Forecaster(self._no_forecast)
        self._term_number = context.election.term_number
        self._stop = asyncio.Event()
        self._paused = False
        """Evictions are paused, as the scheduler and the evictor were last told."""
        self._snapshot_asked = False
        self._step_began: float | None = None
        """Monotonic seconds at which the current step began; None between steps."""
        self.in_step = False
        """The cluster has been read and the first decision has been made."""

    def stop(self) -> None:
        """Make no more decisions; `run` returns once the pending writes are done."""
        self._stop.set()
        self._inbox.filled.set()

    def ask_for_snapshot(self) -> None:
        """Have the next step write the state of the cluster to a file."""
        self._snapshot_asked = True
        self._inbox.filled.set()

    def thinks_for_s(self) -> float:
        """Return for how many seconds the current step has been running; 0 if none is."""
        return 0.0 if self._step_began is None else time.monotonic() - self._step_began

    def is_stuck(self) -> bool:
        """Return whether the current step takes longer than `cycle.stuck_after_s`; 0: never."""
        limit_s = self._context.config.cycle.stuck_after_s
        return 0 < limit_s < self.thinks_for_s()

    def trouble(self) -> str:
        """Return why this term does not work as it should, in a sentence; empty if it does."""
        if self.is_stuck():
            return f"the decision that is being made has not ended for {self.thinks_for_s():.0f} s"
        if trouble := self._watches.trouble():
            return trouble
        return "" if self.in_step else "the first decision has not been made yet"

    async def run(self) -> None:
        """Lead until the term ends; the history of the term is then closed."""
        try:
            await self._lead()
        finally:
            if self._recording is not None:
                await self._recording.close()

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as group:
            services = (
                self._writes.workers,
                self._watches,
                self._forecaster,
                self._writes.checkpoints.endpoints,
                self._exporters,
            )
            tasks = [group.create_task(service.run()) for service in services]
            try:
                # Before the first read: marks of suspended owners are verified with this key.
                await load_signing_key(self._context)
                await self._read_all()
                if self._ask_exporters():
                    await _at_most(self._exporters.heard_all, FIRST_READINGS_S)
                while self._may_go_on():
                    await self._step()
                if self._leads():
                    await self._writes.wait_done()
                if self._shadow is not None:
                    sum_up(self._shadow, self._context.log)
            finally:
                for task in tasks:
                    task.cancel()

    def shadow_report(self) -> dict[str, Any]:
        """Return the differences found so far as JSON; an empty dict unless in shadow mode."""
        return report_of(self._shadow) if self._shadow is not None else {}

    def _may_go_on(self) -> bool:
        return (self._context.config.shadow or self._leads()) and not self._stop.is_set()

    def _leads(self) -> bool:
        # A process that lost the lease and has it again does not know what happened in between:
        # the term is over nevertheless.
        return self._context.election.leads_in(self._term_number)

    # -- reading

    async def _read_all(self) -> None:
        while not self._watches.are_open() and self._may_go_on():
            await asyncio.sleep(0.05)
        if not self._may_go_on():
            return
        inputs = sort_inputs(self._inbox.take())
        self._apply_pause()  # also victims that the previous leader promised stay while paused
        self._scheduler.pause(self._paused)
        await asyncio.to_thread(_in_bulk, self._scheduler, inputs)
        self._context.log.line("read", objects=len(inputs))
        for evictions in self._scheduler.evictions.unfinished():
            self._writes.evictor.evict(evictions)

    def _ask_exporters(self) -> bool:
        """Hand the current exporters to the scraper if they have changed; return if there are any.

        False also if they have not changed.
        """
        due = self._scheduler.gpu_health.due() if self._context.config.dcgm.enabled else None
        if due is not None:
            self._exporters.ask(due)
        return bool(due)

    def _no_forecast(self, why: str) -> None:
        self._context.log.line("no forecast", level="error", why=why)

    # -- deciding

    async def _step(self) -> None:
        inputs = self._inbox.take()
        self._apply_pause()
        now, began = self._context.clock.now(), time.perf_counter()
        self._step_began = time.monotonic()
        try:
            # In a thread, so that the event loop goes on: watches are read, the lease is renewed.
            output = await asyncio.to_thread(self._step_with_dashboard, inputs, now)
        finally:
            self._step_began = None
        took_s = time.perf_counter() - began
        self._report(output, len(inputs), took_s)
        if not self._context.config.shadow:
            self._writes.carry_out(output)
        self._ask_exporters()
        self.in_step = True
        await self._rest(output)

    def _step_with_dashboard(self, inputs: list[StepInput], now: int) -> StepOutput:
        if (feed := self._context.dashboard_feed) is None:
            return self._step_with_metrics(inputs, now)
        return feed.step(self._scheduler, lambda: self._step_with_metrics(inputs, now))

    def _step_with_metrics(self, inputs: list[StepInput], now: int) -> StepOutput:
        output = self._decide(inputs, now)
        self._context.metrics.planned(output.plan, self._scheduler.cluster)
        return output

    def _decide(self, inputs: list[StepInput], now: int) -> StepOutput:
        self._scheduler.pause(self._paused)
        if self._shadow is None:
            self._scheduler.take(inputs)
        if self._snapshot_asked:
            self._snapshot_asked = False
            self._write_snapshot(now)
        if self._shadow is None:
            self._scheduler.expect(self._forecaster.etas, self._forecaster.texts)
            output = self._scheduler.step(now)
            self._forecaster.look(self._scheduler.cluster)
            return output
        return self._shadow.think(self._scheduler, inputs, now)

    def _write_snapshot(self, now: int) -> None:
        folder = Path(self._context.config.snapshot_folder or ".")
        file = folder / f"windlass-{now}.json"
        try:
            file.write_bytes(to_json(self._scheduler.cluster.snapshot()))
        except OSError as error:
            self._context.log.line("no snapshot", level="error", file=str(file), why=str(error))
        else:
            self._context.log.line("snapshot", file=str(file))

    def _apply_pause(self) -> None:
        paused = (
            self._context.election.paused or not self._context.config.evictions_per_queue_per_minute
        )
        if paused != self._paused:
            self._paused = self._writes.evictor.paused = paused
            self._context.log.line("paused" if paused else "resumed")

    async def _rest(self, output: StepOutput) -> None:
        """Wait for new inputs, for the wake-up time of the step, or for the longest pause.

        After a plan with actions there is no such wait: the next step sees what they changed.
        """
        cycle = self._context.config.cycle
        if not output.plan.actions:
            wait_s = float(cycle.at_most_s)
            if output.wake_at is not None:
                wait_s = min(wait_s, max(0.0, output.wake_at - self._context.clock.now()))
            await _at_most(self._inbox.filled, wait_s)
        # Inputs of a burst are gathered, so that a gang whose pods come one by one is decided once.
        await asyncio.sleep(cycle.at_least_ms / 1000)

    # -- reporting

    def _report(self, output: StepOutput, inputs: int, took_s: float) -> None:
        plan, metrics = output.plan, self._context.metrics
        metrics.cycle.observe(took_s)
        metrics.writes.set(self._writes.workers.waiting)
        self._context.log.line(
            "cycle",
            level="info" if plan.actions else "debug",
            ms=round(took_s * 1000, 1),
            seen=inputs,
            binds=len(plan.binds),
            evictions=len(plan.evictions),
            waiting=sum(len(line) for line in self._scheduler.cluster.waiting.values()),
            holds=len(plan.holds),
            unwritten=self._writes.workers.waiting,
        )


def _in_bulk(scheduler: SchedulerStep, inputs: list[StepInput]) -> None:
    """Take in a whole cluster with the garbage collector off.

    It would scan the growing state again and again. The state is then frozen: most of it lives as
    long as the term, and is not scanned again.
    """
    gc.disable()
    try:
        scheduler.take(inputs)
        scheduler.resume()
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def _recording(context: DaemonContext) -> TermRecorder | None:
    """Return the recorder of this term; None if no history is kept.

    Each term is a writer of its own in the history.
    """
    if not context.config.history.url or context.config.shadow:
        return None
    name = f"{context.election.identity}/{context.election.term_number}"
    return TermRecorder(context.config, name, context.metrics, context.log)


async def _at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
