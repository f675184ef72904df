"""Pods that are asked to save over HTTP, at their own address, and then asked how far they are.

The annotation says the same and is what counts; this is only faster. What comes from a pod is not
trusted: little of it is read, no redirect is followed, no credentials are sent, and nobody waits
for a pod that is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from windlass.checkpoint.protocol import (
    LONGEST,
    Ack,
    CheckpointRequest,
    SaveState,
    accepts,
    read_ack,
)
from windlass.model.jobs import TaskId

LOOK_EVERY_S = 0.5
TIMEOUT_S = 2.0
AT_ONCE = 32
TRIES = 3
"""How often a withdrawal is tried: the annotation is gone anyway."""


@dataclass(slots=True)
class _EndpointCheck:
    url: str
    request: CheckpointRequest
    is_told: bool = False
    last: Ack | None = None


class Endpoints:
    """Who is being asked over HTTP; new answers are reported."""

    def __init__(self, report: Callable[[TaskId, Ack], None]) -> None:
        self._report = report
        self._asked: dict[TaskId, _EndpointCheck] = {}
        self._void: list[tuple[str, str, int]] = []
        """Requests to be withdrawn: where, which, and how often that was tried."""
        self._some = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)

    def ask(self, task: TaskId, url: str, request: CheckpointRequest) -> None:
        """Ask a pod, and go on asking how far it is until it has answered."""
        self._asked[task] = _EndpointCheck(url, request)
        self._some.set()

    def forget(self, task: TaskId) -> None:
        """Nobody waits for its answer any more."""
        self._asked.pop(task, None)

    def withdraw(self, task: TaskId, url: str, name: str) -> None:
        """The request is void."""
        self.forget(task)
        self._void.append((url, name, TRIES))
        self._some.set()

    async def run(self) -> None:
        """Ask for ever."""
        limit = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=limit) as session:
            while True:
                if not self._asked and not self._void:
                    self._some.clear()
                    await self._some.wait()
                await self._round(session)
                await asyncio.sleep(LOOK_EVERY_S)

    async def _round(self, session: aiohttp.ClientSession) -> None:
        void, self._void = self._void, []
        withdrawals = [self._withdraw(session, *each) for each in void]
        await asyncio.gather(
            *(self._look(session, task, each) for task, each in list(self._asked.items())),
            *withdrawals,
        )

    async def _look(
        self, session: aiohttp.ClientSession, task: TaskId, asked: _EndpointCheck
    ) -> None:
        method, body = ("GET", "") if asked.is_told else ("POST", asked.request.text())
        answer = await self._call(session, method, asked.url, body)
        ack = read_ack(answer) if answer is not None else None
        is_ours = accepts(asked.request, ack)
        asked.is_told = answer is not None and (is_ours or not asked.is_told)
        if ack is None or ack == asked.last or self._asked.get(task) is not asked:
            return
        asked.last = ack
        if is_ours and ack.state is SaveState.SAVING:
            return
        if is_ours:
            self.forget(task)
        self._report(task, ack)

    async def _withdraw(
        self, session: aiohttp.ClientSession, url: str, name: str, tries: int
    ) -> None:
        answer = await self._call(session, "DELETE", f"{url}?id={name}")
        if answer is None and tries > 1:
            self._void.append((url, name, tries - 1))

    async def _call(
        self, session: aiohttp.ClientSession, method: str, url: str, body: str = ""
    ) -> bytes | None:
        """What a pod answers; None if it does not, or that it cannot."""
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            async with (
                self._slots,
                session.request(
                    method, url, data=body or None, headers=headers, allow_redirects=False
                ) as answer,
            ):
                text = await answer.content.read(LONGEST)
                return text if answer.ok and answer.status < 300 else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
