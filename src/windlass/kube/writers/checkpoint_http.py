"""Send checkpoint requests to the HTTP endpoints of pods, and poll them for their progress.

The annotation on the pod carries the same request and is authoritative; this way is only faster.
The answer of a pod is not trusted: its length is limited, no redirect is followed, no credentials
are sent, and a short time-out ends a request to a silent pod.
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
"""The pause between two rounds of polling."""
TIMEOUT_S = 2.0
"""The time for a whole request."""
AT_ONCE = 32
"""Requests in flight at most."""
TRIES = 3
"""Attempts to send a withdrawal; few are enough, because the annotation is removed anyway."""


@dataclass(slots=True)
class _EndpointCheck:
    """The state of a request to one endpoint."""

    url: str
    request: CheckpointRequest
    is_sent: bool = False
    """The endpoint has accepted the request: poll by GET. If it then answers for another request,
    it was restarted or lost ours, and the request is sent again."""
    last: Ack | None = None
    """The last answer; an equal one is not reported again."""


class CheckpointEndpoints:
    """The requests to HTTP endpoints that are not yet answered; new answers are reported."""

    def __init__(self, report: Callable[[TaskId, Ack], None]) -> None:
        self._report = report
        self._checks: dict[TaskId, _EndpointCheck] = {}
        """The endpoints that are polled, by task."""
        self._withdrawals: list[tuple[str, str, int]] = []
        """Requests to be withdrawn: URL, id of the request, and attempts that are left."""
        self._has_work = asyncio.Event()
        """Set when there may be endpoints to poll or withdrawals to send."""
        self._slots = asyncio.Semaphore(AT_ONCE)

    def ask(self, task: TaskId, url: str, request: CheckpointRequest) -> None:
        """Send a request to a pod, and poll it until it has answered."""
        self._checks[task] = _EndpointCheck(url, request)
        self._has_work.set()

    def forget(self, task: TaskId) -> None:
        """Stop polling a pod."""
        self._checks.pop(task, None)

    def withdraw(self, task: TaskId, url: str, request_id: str) -> None:
        """Stop polling a pod, and tell it that the request is withdrawn."""
        self.forget(task)
        self._withdrawals.append((url, request_id, TRIES))
        self._has_work.set()

    async def run(self) -> None:
        """Send and poll until cancelled."""
        limit = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=limit) as session:
            while True:
                if not self._checks and not self._withdrawals:
                    self._has_work.clear()
                    await self._has_work.wait()
                await self._round(session)
                await asyncio.sleep(LOOK_EVERY_S)

    async def _round(self, session: aiohttp.ClientSession) -> None:
        withdrawals, self._withdrawals = self._withdrawals, []
        await asyncio.gather(
            *(self._poll(session, task, check) for task, check in list(self._checks.items())),
            *[self._withdraw(session, *withdrawal) for withdrawal in withdrawals],
        )

    async def _poll(
        self, session: aiohttp.ClientSession, task: TaskId, check: _EndpointCheck
    ) -> None:
        method, body = ("GET", "") if check.is_sent else ("POST", check.request.text())
        answer = await self._call(session, method, check.url, body)
        ack = read_ack(answer) if answer is not None else None
        is_ours = accepts(check.request, ack)
        check.is_sent = answer is not None and (is_ours or not check.is_sent)
        # The check may have been forgotten or replaced while the request was in flight.
        if ack is None or ack == check.last or self._checks.get(task) is not check:
            return
        check.last = ack
        if is_ours and ack.state is SaveState.SAVING:
            return
        if is_ours:
            self.forget(task)
        self._report(task, ack)

    async def _withdraw(
        self, session: aiohttp.ClientSession, url: str, request_id: str, tries: int
    ) -> None:
        answer = await self._call(session, "DELETE", f"{url}?id={request_id}")
        if answer is None and tries > 1:
            self._withdrawals.append((url, request_id, tries - 1))

    async def _call(
        self, session: aiohttp.ClientSession, method: str, url: str, body: str = ""
    ) -> bytes | None:
        """Return the body of a pod's answer; None if it does not answer or reports an error."""
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
