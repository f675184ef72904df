"""One request and its answer: slot, credentials, guard, time-out, and what is known if none comes.

A request waits for one of a bounded number of slots; streams have none, so that no burst of writes
can hold a watch up. The time-out begins after that wait, and then the guard is asked, right before
a write is sent. aiohttp would send PUT and DELETE again by itself when a connection breaks;
`name_the_loss` keeps it from that, because the guard has not seen that second write.
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

EXACT_BELOW_S = 86_400.0  # aiohttp would round time-outs above 5 s up to whole seconds
CONNECT_SHARE = 0.9  # of a request's time: a connection that takes longer certainly carried nothing


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What to ask."""

    method: str
    path: str
    params: Params | None
    body: bytes | None = None
    headers: Headers = field(default_factory=dict[str, str])
    is_write: bool = True


@dataclass(slots=True)
class _Attempt:
    """How far a request got: what a time-out means depends on it."""

    request: ApiRequest
    limit: aiohttp.ClientTimeout
    is_out: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """The session with the API server, and the rules that every request keeps."""

    session: aiohttp.ClientSession
    access: Access
    timeout_s: float
    slots: asyncio.Semaphore

    async def ask(self, request: ApiRequest, timeout_s: float | None) -> bytes:
        """Send a request and return the whole answer, or raise the ApiError it stands for."""
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
        """Send a request and yield the chunks of its answer as they come."""
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
        """Send; if the credentials are refused, send once more with fresh ones."""
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
        """Send and return the answer once its status is there, and good."""
        attempt.is_out = True
        response = await self._send(attempt, credentials)
        if response.status < 300:
            return response
        async with response:
            body = await _whole(response)
        attempt.is_out = False  # answered, and refused
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
    """Bound parts of a request; the whole has a bound of its own, around every step."""
    return aiohttp.ClientTimeout(
        total=None, connect=connect, sock_read=sock_read, ceil_threshold=EXACT_BELOW_S
    )


def guarded(guard: Callable[[], None]) -> type[aiohttp.ClientRequest]:
    """Requests that ask the guard when they have a connection: it takes time to get one."""

    class Guarded(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            if self.method != "GET":
                guard()
            return await super().send(conn)

    return Guarded


async def name_the_loss(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Say what became of a request whose connection failed, instead of sending it again."""
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
    except TimeoutError as error:  # before OSError, of which it is one
        raise Unanswered(f"The stream was silent for {idle_s:g} s", sent=True) from error
    except (aiohttp.ClientError, OSError) as error:
        raise _lost(error) from error


def _lost(error: Exception) -> Unanswered:
    what = str(error) or type(error).__name__
    return Unanswered(f"The connection broke before the answer was complete: {what}", sent=True)
