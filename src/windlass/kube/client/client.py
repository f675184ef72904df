"""Requests to the API server: raw JSON in and out over one session of kept-alive connections.

Callers decode answers with their own typed structs; here only errors are read. Nothing is repeated
but a request refused with 401, once, with fresh credentials: what to do about any other failure
depends on what was asked, so the caller decides.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import aiohttp
import msgspec

from windlass import __version__
from windlass.kube.client.auth import Access
from windlass.kube.client.request import ApiRequest, Exchange, Params, guarded, name_the_loss

CONNECTIONS = 32
IDLE_CONNECTION_S = 60.0  # below the 90 s and more after which servers close one themselves
READ_BUFFER = 1 << 20  # a watch is taken off the socket though its reader is busy


@asynccontextmanager
async def connect(
    access: Access,
    *,
    timeout_s: float = 10.0,
    guard: Callable[[], None] | None = None,
    connections: int = CONNECTIONS,
) -> AsyncGenerator["Api", None]:
    """Open a session with the API server; the guard is asked before every write."""
    connector = aiohttp.TCPConnector(
        limit=0,  # slots bound the requests; here writes and watches would wait in one line
        keepalive_timeout=IDLE_CONNECTION_S,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/json", "User-Agent": f"windlass/{__version__}"},
        read_bufsize=READ_BUFFER,
        middlewares=(name_the_loss,),
        request_class=guarded(guard) if guard else aiohttp.ClientRequest,
    ) as session:
        yield Api(Exchange(session, access, timeout_s, asyncio.Semaphore(connections)))


class Patch(StrEnum):
    """How the body of a PATCH is meant, as its media type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"  # JSON is YAML


@dataclass(frozen=True, slots=True)
class Api:
    """The API server as verbs: four that write, one that reads and one that goes on reading.

    A body is bytes, or anything msgspec can encode; an answer is raw JSON. Every verb raises an
    `ApiError` if it does not succeed, and a write `NotAllowed` if the guard refuses it.
    """

    _exchange: Exchange

    async def get(
        self, path: str, params: Params | None = None, *, timeout_s: float | None = None
    ) -> bytes:
        """Read an object or a list."""
        return await self._exchange.ask(ApiRequest("GET", path, params, is_write=False), timeout_s)

    async def post(
        self,
        path: str,
        body: Any,
        *,
        params: Params | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """Create an object, or bind or evict a pod."""
        return await self._exchange.ask(ApiRequest("POST", path, params, *_json(body)), timeout_s)

    async def put(
        self,
        path: str,
        body: Any,
        *,
        params: Params | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """Replace an object."""
        return await self._exchange.ask(ApiRequest("PUT", path, params, *_json(body)), timeout_s)

    async def patch(
        self,
        path: str,
        body: Any,
        *,
        kind: Patch = Patch.MERGE,
        params: Params | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """Change a part of an object."""
        request = ApiRequest("PATCH", path, params, *_json(body, kind))
        return await self._exchange.ask(request, timeout_s)

    async def delete(
        self,
        path: str,
        body: Any = None,
        *,
        params: Params | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """Delete an object; the body holds preconditions and the grace."""
        content, headers = (None, _NO_HEADERS) if body is None else _json(body)
        request = ApiRequest("DELETE", path, params, content, headers)
        return await self._exchange.ask(request, timeout_s)

    def stream(
        self, path: str, params: Params, *, idle_s: float
    ) -> AbstractAsyncContextManager[AsyncGenerator[bytes, None]]:
        """Open a GET that goes on, chunk by chunk; Unanswered after `idle_s` without any."""
        return self._exchange.stream(ApiRequest("GET", path, params, is_write=False), idle_s)


_NO_HEADERS: dict[str, str] = {}
_encoder = msgspec.json.Encoder()


def _json(body: Any, kind: str = "application/json") -> tuple[bytes, dict[str, str]]:
    encoded = body if isinstance(body, bytes) else _encoder.encode(body)
    return encoded, {"Content-Type": str(kind)}
