"""Read the metrics of DCGM exporters over HTTP, at the addresses of their pods, again and again.

A bounded number is read at a time, with pauses: metrics may be half a minute old, so there is no
hurry. The answer of a pod is not trusted: its length is limited, no redirect is followed, no
credentials are sent, nothing is decompressed, and a short time-out ends a request to a silent pod.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import aiohttp

from windlass.kube.writes import GpuReadings
from windlass.workloads.nodes import LONGEST, Exporter, Reading, read_report

TIMEOUT_S = 3.0
"""The time for a whole request."""
AT_ONCE = 32
"""Requests in flight at most."""
PAUSE_S = 0.05
"""The pause between two requests of one worker: it spreads the load on a large cluster."""
GATHER_S = 1.0
"""Answers are gathered for so long before they are reported: each report may start a cycle."""


class DcgmScraper:
    """Reads exporters periodically and reports the readings; failed requests are not reported."""

    def __init__(self, report: Callable[[GpuReadings], None], every_s: float) -> None:
        self._report, self._every_s = report, every_s
        self._exporters: Sequence[Exporter] = ()
        self._has_exporters = asyncio.Event()
        """Set exactly while `_exporters` is not empty."""
        self._unreported: list[tuple[Exporter, Reading]] = []
        self._reported_at = 0.0
        """Monotonic seconds."""
        self.heard_all = asyncio.Event()
        """Set once every exporter has been requested once."""

    def ask(self, exporters: Sequence[Exporter]) -> None:
        """Replace the set of exporters that are read."""
        self._exporters = exporters
        (self._has_exporters.set if exporters else self._has_exporters.clear)()

    async def run(self) -> None:
        """Read the exporters until cancelled."""
        limit = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(
            timeout=limit,
            connector=aiohttp.TCPConnector(limit=AT_ONCE, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
        ) as session:
            while True:
                await self._has_exporters.wait()
                began = time.monotonic()
                await self._round(session)
                self.heard_all.set()
                await asyncio.sleep(max(PAUSE_S, began + self._every_s - time.monotonic()))

    async def _round(self, session: aiohttp.ClientSession) -> None:
        pending = iter(self._exporters)  # shared: each worker takes the next one
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(self._exporters))):
                group.create_task(self._work(session, pending))
        self._report_readings()

    async def _work(self, session: aiohttp.ClientSession, pending: Iterator[Exporter]) -> None:
        for exporter in pending:
            if (reading := await _scrape(session, exporter.url)) is not None:
                self._unreported.append((exporter, reading))
            if time.monotonic() > self._reported_at + GATHER_S:
                self._report_readings()
            # No pauses in the first round: the first decision of a new leader waits for it.
            if self.heard_all.is_set():
                await asyncio.sleep(PAUSE_S)

    def _report_readings(self) -> None:
        readings, self._unreported = self._unreported, []
        self._reported_at = time.monotonic()
        if readings:
            self._report(GpuReadings(tuple(readings)))


async def _scrape(session: aiohttp.ClientSession, url: str) -> Reading | None:
    """Return the reading of an exporter; None if it does not answer or cannot be understood."""
    text = bytearray()
    try:
        async with session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                return None
            async for part in answer.content.iter_any():
                text += part
                if len(text) > LONGEST:
                    return None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None
    return read_report(bytes(text))
