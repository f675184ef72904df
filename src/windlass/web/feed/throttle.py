"""Work for viewers, one piece at a time and with pauses: it must not crowd out the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Done = TypeVar("Done")

PART = 4
"""After each piece of work as many times its length is left to others."""
LONGEST_PAUSE_S = 1.0


class WorkThrottle:
    """Whoever has work for a thread waits in line here."""

    def __init__(self) -> None:
        self._line = asyncio.Lock()
        self._free_at = 0.0

    async def do(self, work: Callable[[], Done]) -> Done:
        """Do it in a thread, when its turn has come."""
        async with self._line:
            await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
            began = time.monotonic()
            try:
                return await asyncio.to_thread(work)
            finally:
                ended = time.monotonic()
                self._free_at = ended + min(LONGEST_PAUSE_S, PART * (ended - began))
