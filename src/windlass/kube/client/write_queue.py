"""A queue of writes with bounded concurrency and rate, in order of urgency.

About sixteen writes in flight use an API server fully; more would only wait inside it. A write that
must be retried later is put back with a delay, and does not occupy a worker meanwhile.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from enum import IntEnum

Write = Callable[[], Awaitable[None]]


class Urgency(IntEnum):
    """The urgency of a write; the lowest number is written first.

    Promises come first because binds and evictions wait for them. Conditions, Events and statuses
    come last: nothing depends on them.
    """

    PROMISE = 0
    BIND = 1
    EVICT = 2
    STATUS = 3


class WriteQueue:
    """Carries out writes: `concurrency` at a time, and `per_second` at most (0: no limit)."""

    def __init__(self, concurrency: int, per_second: float = 0.0) -> None:
        self._concurrency, self._gap_s = concurrency, 1 / per_second if per_second else 0.0
        self._heap: list[tuple[int, int, Write]] = []
        """(urgency, number, write): the number keeps writes of one urgency in their order."""
        self._count = 0
        """The number of the last write in the heap."""
        self._busy = 0
        """Writes that are being carried out."""
        self._later: set[asyncio.TimerHandle] = set()
        """Timers of the writes that are delayed."""
        self._ready = asyncio.Event()
        """Set when the heap may hold a write."""
        self._idle = asyncio.Event()
        """Set while nothing is in the heap, delayed or busy."""
        self._idle.set()
        self._next_at = 0.0
        """The time of the event loop at which the last write was allowed to begin."""

    def put(self, urgency: Urgency, write: Write, after_s: float = 0.0) -> None:
        """Queue a write; it begins after `after_s` seconds at the earliest."""
        self._idle.clear()
        if after_s > 0:
            self._put_later(urgency, write, after_s)
            return
        self._count += 1
        heapq.heappush(self._heap, (urgency, self._count, write))
        self._ready.set()

    async def run(self) -> None:
        """Carry out writes until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def wait_idle(self) -> None:
        """Wait until no write is queued, delayed or in flight."""
        await self._idle.wait()

    @property
    def waiting(self) -> int:
        """The number of writes that have not begun, with those that are delayed."""
        return len(self._heap) + len(self._later)

    def clear(self) -> None:
        """Drop all writes that have not begun."""
        self._heap.clear()
        for timer in self._later:
            timer.cancel()
        self._later.clear()
        self._rest()

    async def _work(self) -> None:
        while True:
            while not self._heap:
                self._ready.clear()
                await self._ready.wait()
            write = heapq.heappop(self._heap)[2]
            self._busy += 1
            try:
                await self._pace()
                await write()
            finally:
                self._busy -= 1
                self._rest()

    async def _pace(self) -> None:
        if self._gap_s:
            now = asyncio.get_running_loop().time()
            self._next_at = max(self._next_at + self._gap_s, now)
            await asyncio.sleep(self._next_at - now)

    def _put_later(self, urgency: Urgency, write: Write, after_s: float) -> None:
        def now() -> None:
            self._later.discard(timer)
            self.put(urgency, write)

        timer = asyncio.get_running_loop().call_later(after_s, now)
        self._later.add(timer)

    def _rest(self) -> None:
        if not self._heap and not self._later and not self._busy:
            self._idle.set()
