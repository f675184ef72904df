"""DCGM exporters that are asked over HTTP, at their pods' own addresses, again and again.

A bounded number at a time, with pauses: what they tell may be half a minute old, so nobody is in a
hurry. What comes from a pod is not trusted: only so much of it is read, no redirect is followed, no
credentials are sent, nothing is unpacked, and nobody waits for one that is silent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import aiohttp

from windlass.workloads.nodes.dcgm import LONGEST, Exporter, Reading, read

TIMEOUT_S = 3.0
AT_ONCE = 32
PAUSE_S = 0.05
"""Between two that are asked one after the other: a large cluster is asked evenly."""
GATHER_S = 1.0
"""Answers are gathered for so long: each report may be the beginning of a cycle."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What some exporters have told."""

    readings: tuple[tuple[Exporter, Reading], ...]


class Exporters:
    """Who is asked; answers are reported, silence is not."""

    def __init__(self, report: Callable[[Measured], None], every_s: float) -> None:
        self._report, self._every_s = report, every_s
        self._asked: Sequence[Exporter] = ()
        self._some = asyncio.Event()
        self._heard: list[tuple[Exporter, Reading]] = []
        self._reported_at = 0.0
        self.heard_all = asyncio.Event()
        """All have been asked once."""

    def ask(self, exporters: Sequence[Exporter]) -> None:
        """Ask these from now on, and no others."""
        self._asked = exporters
        (self._some.set if exporters else self._some.clear)()

    async def run(self) -> None:
        """Ask for ever."""
        limit = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(
            timeout=limit,
            connector=aiohttp.TCPConnector(limit=AT_ONCE, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
        ) as session:
            while True:
                await self._some.wait()
                began = time.monotonic()
                await self._round(session)
                self.heard_all.set()
                await asyncio.sleep(max(PAUSE_S, began + self._every_s - time.monotonic()))

    async def _round(self, session: aiohttp.ClientSession) -> None:
        waiting = iter(self._asked)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(self._asked))):
                group.create_task(self._ask_some(session, waiting))
        self._tell()

    async def _ask_some(self, session: aiohttp.ClientSession, waiting: Iterator[Exporter]) -> None:
        for exporter in waiting:
            if (reading := await _ask(session, exporter.url)) is not None:
                self._heard.append((exporter, reading))
            if time.monotonic() > self._reported_at + GATHER_S:
                self._tell()
            if self.heard_all.is_set():  # the first time somebody waits for it
                await asyncio.sleep(PAUSE_S)

    def _tell(self) -> None:
        heard, self._heard = self._heard, []
        self._reported_at = time.monotonic()
        if heard:
            self._report(Measured(tuple(heard)))


async def _ask(session: aiohttp.ClientSession, url: str) -> Reading | None:
    """What an exporter answers; None if it does not, or nothing that makes sense."""
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
    return read(bytes(text))
