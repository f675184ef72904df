"""A throttle for the work of viewers, so that it leaves most of the time to the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

PART = 4
"""The pause after each piece of work, as a multiple of its length."""
LONGEST_PAUSE_S = 1.0


class WorkThrottle:
    """Runs one piece of work at a time in a thread, with pauses in between."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        """The end of the pause after the last piece of work, on the monotonic clock."""

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do a piece of work in a thread when its turn has come; return its result."""
        async with self._turn:
            await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
            began = time.monotonic()
            try:
                return await asyncio.to_thread(work)
            finally:
                ended = time.monotonic()
                self._free_at = ended + min(LONGEST_PAUSE_S, PART * (ended - began))
