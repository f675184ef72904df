"""A bounded number of writes at a time, the urgent ones first.

About sixteen in flight fill an API server; more only wait inside it. A write that must be repeated
later gives its place back meanwhile.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from enum import IntEnum

Write = Callable[[], Awaitable[None]]


class Urgency(IntEnum):
    """What goes first."""

    PROMISE = 0
    BIND = 1
    EVICT = 2
    SAY = 3


class WriteQueue:
    """Carries out writes, as many at a time as allowed and no more per second."""

    def __init__(self, concurrency: int, per_second: float = 0.0) -> None:
        self._concurrency, self._gap_s = concurrency, 1 / per_second if per_second else 0.0
        self._heap: list[tuple[int, int, Write]] = []
        self._count = 0
        self._busy = 0
        self._later: set[asyncio.TimerHandle] = set()
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._next_at = 0.0

    def put(self, urgency: Urgency, write: Write, after_s: float = 0.0) -> None:
        """Carry out a write as soon as it is its turn, but not before so many seconds."""
        self._idle.clear()
        if after_s > 0:
            self._put_later(urgency, write, after_s)
            return
        self._count += 1
        heapq.heappush(self._heap, (urgency, self._count, write))
        self._ready.set()

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def wait_idle(self) -> None:
        """Wait until nothing is left to write."""
        await self._idle.wait()

    @property
    def waiting(self) -> int:
        """How many writes have not begun."""
        return len(self._heap) + len(self._later)

    def clear(self) -> None:
        """Forget everything that has not begun."""
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
