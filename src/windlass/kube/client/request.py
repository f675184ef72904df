"""One request and its answer: slot, credentials, guard, time-out, and the error if none comes.

A request waits for one of a bounded number of slots; streams need none, so that a burst of writes
cannot delay a watch. The time-out begins after that wait. The guard is called after that, right
before a write is sent. aiohttp would send PUT and DELETE again by itself when a connection breaks;
`raise_unanswered` prevents that, because the guard has not checked the second write.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import aiohttp
from aiohttp.connector import Connection

from windlass.kube.client.auth import Access
from windlass.kube.client.errors import Unanswered, Unauthorized, from_answer

Params = Mapping[str, str]
Headers = Mapping[str, str]
Answer = TypeVar("Answer")

EXACT_BELOW_S = 86_400.0
"""aiohttp would round time-outs above 5 s up to whole seconds; below this one it does not."""
CONNECT_SHARE = 0.9
"""The part of a request's time in which it must be connected. If the connection takes longer, the
request was certainly not sent; if only the total time ended, that would not be known."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API server."""

    method: str
    path: str
    params: Params | None
    body: bytes | None = None
    headers: Headers = field(default_factory=dict[str, str])
    is_write: bool = True


@dataclass(slots=True)
class _Attempt:
    """The state of a request that is being sent."""

    request: ApiRequest
    limit: aiohttp.ClientTimeout
    is_out: bool = False
    """The request may have been sent and was not answered: the meaning of a time-out depends on
    it."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The session with the API server, and the rules that apply to every request."""

    session: aiohttp.ClientSession
    access: Access
    timeout_s: float
    slots: asyncio.Semaphore

    async def ask(self, request: ApiRequest, timeout_s: float | None) -> bytes:
        """Send a request and return the body of the answer; raises an `ApiError` if it fails."""
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        attempt = _Attempt(request, _bounded(connect=limit_s * CONNECT_SHARE))
        try:
            async with self.slots, asyncio.timeout(limit_s):
                return await self._with_credentials(partial(self._answer, attempt))
        except TimeoutError as error:
            message = f"No answer to {request.method} {request.path} within {limit_s:g} s"
            raise Unanswered(message, sent=attempt.is_out) from error

    @asynccontextmanager
    async def stream(
        self, request: ApiRequest, idle_s: float
    ) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
        """Send a request and yield an iterator over the chunks of its answer."""
        response = await self._begin(request, idle_s)
        async with response, aclosing(_chunks(response, idle_s)) as chunks:
            yield chunks

    async def _begin(self, request: ApiRequest, idle_s: float) -> aiohttp.ClientResponse:
        attempt = _Attempt(request, _bounded(sock_read=idle_s))
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._with_credentials(partial(self._opened, attempt))
        except TimeoutError as error:
            message = f"{request.path} did not begin to answer within {self.timeout_s:g} s"
            raise Unanswered(message, sent=attempt.is_out) from error

    async def _with_credentials(self, send: Callable[[Headers], Awaitable[Answer]]) -> Answer:
        """Send; if the credentials are refused, retry once with fresh ones."""
        credentials = await self.access.headers()
        try:
            return await send(credentials)
        except Unauthorized:
            if not await self.access.renew(credentials):
                raise
        return await send(await self.access.headers())

    async def _answer(self, attempt: _Attempt, credentials: Headers) -> bytes:
        async with await self._opened(attempt, credentials) as response:
            return await _whole(response)

    async def _opened(self, attempt: _Attempt, credentials: Headers) -> aiohttp.ClientResponse:
        """Send and return the answer once its status has come; raises an `ApiError` from 300 on."""
        attempt.is_out = True
        response = await self._send(attempt, credentials)
        if response.status < 300:
            return response
        async with response:
            body = await _whole(response)
        attempt.is_out = False  # answered and refused: nothing is under way until a retry
        raise from_answer(response.status, response.headers, body)

    async def _send(self, attempt: _Attempt, credentials: Headers) -> aiohttp.ClientResponse:
        request, access = attempt.request, self.access
        return await self.session.request(
            request.method,
            access.server + request.path,
            params=request.params,
            data=request.body,
            headers={**request.headers, **credentials},
            ssl=True if access.ssl is None else access.ssl,
            server_hostname=access.server_name,
            proxy=access.proxy,
            timeout=attempt.limit,
            allow_redirects=False,
        )


def _bounded(
    *, connect: float | None = None, sock_read: float | None = None
) -> aiohttp.ClientTimeout:
    """Return limits for parts of a request; `asyncio.timeout` limits the whole."""
    return aiohttp.ClientTimeout(
        total=None, connect=connect, sock_read=sock_read, ceil_threshold=EXACT_BELOW_S
    )


def guarded_request_class(guard: Callable[[], None]) -> type[aiohttp.ClientRequest]:
    """Return a request class that calls the guard before each write.

    It does so once the request has its connection: that takes time, in which the lease may be lost.
    """

    class Guarded(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            if self.method != "GET":
                guard()
            return await super().send(conn)

    return Guarded


async def raise_unanswered(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request; raise `Unanswered` if its connection fails, before aiohttp can retry it."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unanswered(f"No connection to the API server: {error}", sent=False) from error
    except aiohttp.ClientHttpProxyError as error:
        raise Unanswered(f"The proxy refused a connection: {error}", sent=False) from error
    except (aiohttp.ClientError, OSError) as error:
        raise _lost(error) from error


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.read()
    except (aiohttp.ClientError, OSError) as error:
        raise _lost(error) from error


async def _chunks(response: aiohttp.ClientResponse, idle_s: float) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except TimeoutError as error:  # before OSError, of which it is a subclass
        raise Unanswered(f"The stream was silent for {idle_s:g} s", sent=True) from error
    except (aiohttp.ClientError, OSError) as error:
        raise _lost(error) from error


def _lost(error: Exception) -> Unanswered:
    what = str(error) or type(error).__name__
    return Unanswered(f"The connection broke before the answer was complete: {what}", sent=True)
