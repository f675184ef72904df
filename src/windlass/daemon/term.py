"""One time of leading: list everything, then watch, decide and write until the lease is lost.

watches --pieces--> inbox --step (in a thread)--> work --> writes, urgent ones first
                      ^                                       |
                      +--------- what became of them ---------+
"""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from windlass.config import Config
from windlass.config.kinds import kinds_of
from windlass.daemon.brain import Brain, Piece, Work
from windlass.daemon.log import Log
from windlass.daemon.shadow import Shadow
from windlass.daemon.shadow_report import report_of, sum_up
from windlass.daemon.watches import Watches, in_order, paths_of
from windlass.kube.carry_out import Binder, BindFailed, News, PodRead
from windlass.kube.client import Api
from windlass.kube.election import Election
from windlass.kube.errors import ApiError
from windlass.kube.evict import Evictor, EvictRefused, Manners
from windlass.kube.tell import Teller
from windlass.kube.translate import Scope
from windlass.kube.workers import Workers
from windlass.metrics import Metrics
from windlass.state.snapshot import to_json


@dataclass(slots=True)
class Inbox:
    """What was seen and not yet taken note of."""

    pieces: list[Piece] = field(default_factory=list[Piece])
    filled: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, piece: Piece) -> None:
        """Something was seen."""
        self.put_all([piece])

    def put_all(self, pieces: list[Piece]) -> None:
        """Several things were seen."""
        self.pieces.extend(pieces)
        self.filled.set()

    def take(self) -> list[Piece]:
        """Everything since the last time."""
        taken, self.pieces = self.pieces, []
        self.filled.clear()
        return taken


@dataclass(slots=True)
class Clock:
    """Seconds since 1970 that only go forward: a wall clock that jumps later changes nothing."""

    began: float = field(default_factory=time.time)
    at: float = field(default_factory=time.monotonic)

    def now(self) -> int:
        """The second it is."""
        return int(self.began + time.monotonic() - self.at)


@dataclass(slots=True)
class Parts:
    """What a term works with; it outlives the term."""

    config: Config
    api: Api
    election: Election
    metrics: Metrics
    log: Log
    clock: Clock = field(default_factory=Clock)
    chance: Random = field(default_factory=Random)


class Term:
    """Leads until told to stop or until the lease is lost."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        config, api = parts.config, parts.api
        self._inbox = Inbox()
        self._workers = Workers(config.writes.concurrency, config.writes.per_second)
        self._binder = Binder(api, self._workers, self._heard, parts.chance)
        manners = Manners(config.evictions_per_queue_per_minute)
        self._evictor = Evictor(api, self._workers, self._binder, self._refused, manners)
        self._evictor.clock = time.monotonic
        self._teller = Teller(api, self._workers, self._binder)
        scope = scope_of(config)
        self._watches = Watches(api, self._inbox.put_all, parts.chance, paths_of(scope.kinds))
        self._evictor.has_budget = self._watches.has_budget
        self._brain = Brain(scope, parts.clock.now(), shadow=config.shadow)
        self._shadow = Shadow(parts.clock.now()) if config.shadow else None
        self._reign = parts.election.reign
        self._stop = asyncio.Event()
        self._paused = False
        self._snapshot_asked = False
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

    def trouble(self) -> str:
        """What keeps this term from working as it should, in a sentence; empty if nothing does."""
        if found := self._watches.trouble():
            return found
        return "" if self.in_step else "the first decision has not been made yet"

    async def run(self) -> None:
        """Lead."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._workers.run()), group.create_task(self._watches.run())]
            try:
                await self._read_all()
                while self._goes_on():
                    await self._step()
                if self._leads():
                    await self._finish()
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
        return self._parts.election.leads_on(self._reign)

    # -- reading

    async def _read_all(self) -> None:
        while not self._watches.are_open() and self._goes_on():
            await asyncio.sleep(0.05)
        if not self._goes_on():
            return
        pieces = in_order(self._inbox.take())
        self._mind_pause()  # also what was promised before us is not evicted while paused
        await asyncio.to_thread(_in_bulk, self._brain, pieces)
        self._parts.log.line("read", objects=len(pieces))
        for clearing in self._brain.finish():
            self._evictor.clear(clearing)

    def _heard(self, news: News) -> None:
        if isinstance(news, BindFailed):
            self._parts.metrics.failed.inc()
            self._parts.log.line("bind failed", task=news.task, why=news.why)
        if not isinstance(news, PodRead) or self._watches.is_news(news.pod):
            self._inbox.put(news)

    def _refused(self, refused: EvictRefused) -> None:
        self._parts.log.line("eviction refused", task=refused.task, why=refused.why)
        self._inbox.put(refused)

    # -- deciding

    async def _step(self) -> None:
        pieces = self._inbox.take()
        self._mind_pause()
        now, began = self._parts.clock.now(), time.perf_counter()
        work = await asyncio.to_thread(self._think, pieces, now)
        took_s = time.perf_counter() - began
        self._report(work, len(pieces), took_s)
        if not self._parts.config.shadow:
            self._carry_out(work)
        self.in_step = True
        await self._rest(work)

    def _think(self, pieces: list[Piece], now: int) -> Work:
        if self._shadow is None:
            self._brain.take(pieces)
        if self._snapshot_asked:
            self._snapshot_asked = False
            self._write_snapshot(now)
        if self._shadow is None:
            return self._brain.step(now)
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
            self._paused = self._evictor.paused = paused
            self._brain.pause(paused)
            self._parts.log.line("paused" if paused else "resumed")

    async def _rest(self, work: Work) -> None:
        """Wait for news, for the next instant that matters, or for the longest pause."""
        cycle = self._parts.config.cycle
        if not work.plan.actions:
            wait_s = float(cycle.at_most_s)
            if work.wake_at is not None:
                wait_s = min(wait_s, max(0.0, work.wake_at - self._parts.clock.now()))
            await _at_most(self._inbox.filled, wait_s)
        # a burst is gathered, so that a gang whose pods come one by one is decided once
        await asyncio.sleep(cycle.at_least_ms / 1000)

    # -- writing

    def _carry_out(self, work: Work) -> None:
        for start in work.starts:
            self._binder.start(start)
        for clearing in work.clearings:
            self._evictor.clear(clearing)
        for pod in work.overdue:
            self._binder.read(pod)
        for pod, text in work.promises:
            self._binder.promise(pod, text, _nothing, _ignore)
        for status in work.statuses:
            self._teller.status(status.path, status.status)
        for page in work.pages:
            self._teller.page(page)

    async def _finish(self) -> None:
        """Let what has been decided be written."""
        try:
            async with asyncio.timeout(self._parts.config.lease.renew_deadline_s):
                await self._workers.wait_idle()
        except TimeoutError:
            self._parts.log.line("left unwritten", writes=self._workers.waiting)

    # -- telling

    def _report(self, work: Work, pieces: int, took_s: float) -> None:
        plan, metrics = work.plan, self._parts.metrics
        metrics.cycle.observe(took_s)
        metrics.writes.set(self._workers.waiting)
        metrics.planned(plan, self._brain.cluster)
        self._parts.log.line(
            "cycle",
            level="info" if plan.actions else "debug",
            ms=round(took_s * 1000, 1),
            seen=pieces,
            binds=len(plan.binds),
            evictions=len(plan.evictions),
            waiting=sum(len(line) for line in self._brain.cluster.waiting.values()),
            holds=len(plan.holds),
            unwritten=self._workers.waiting,
        )


def _in_bulk(brain: Brain, pieces: list[Piece]) -> None:
    """Take in a whole cluster: the collector would walk over it again and again."""
    gc.disable()
    try:
        brain.take(pieces)
        brain.resume()
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def scope_of(config: Config) -> Scope:
    """What a daemon of this configuration is responsible for."""
    shadowed = config.shadow_of if config.shadow else []
    return Scope(
        frozenset([*config.scheduler_names, *shadowed]),
        frozenset(config.namespaces),
        config.node_selector,
        config.default_queue,
        kinds_of(config.kinds),
    )


async def _at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _nothing() -> None:
    pass


def _ignore(_error: ApiError) -> None:
    """A pod that is gone has no use for it."""
