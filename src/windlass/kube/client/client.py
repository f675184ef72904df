"""Requests to the API server: raw JSON in and out over one session of kept-alive connections.

Callers decode answers with their own typed structs; only errors are read here, and `list_all` reads
a whole list. Nothing is retried, except once a request that was refused with 401, with fresh
credentials: whether another failed request may be repeated depends on the request, so the caller
decides.
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
from windlass.kube.client.decode import KindDecoder, ListPage
from windlass.kube.client.errors import ResourceExpired
from windlass.kube.client.object_cache import T
from windlass.kube.client.request import (
    ApiRequest,
    Exchange,
    Params,
    guarded_request_class,
    raise_unanswered,
)

CONNECTIONS = 32
"""The number of requests in flight at most, without streams."""
IDLE_CONNECTION_S = 60.0
"""An idle connection is closed after so long: before servers close it themselves, after 90 s or
more, which could hit a request that is just being sent."""
READ_BUFFER = 1 << 20
"""Bytes. Large, so that a watch is read from the socket while its consumer is busy."""
PAGE = "500"
"""Objects in a page of a list."""
LIST_TIMEOUT_S = 60.0
"""Time-out of one page: large lists take longer than other requests."""


@asynccontextmanager
async def connect(
    access: Access,
    *,
    timeout_s: float = 10.0,
    guard: Callable[[], None] | None = None,
    connections: int = CONNECTIONS,
) -> AsyncGenerator["Api", None]:
    """Open a session with the API server.

    `guard` is called before every write is sent, and raises `NotAllowed` to forbid it.
    """
    connector = aiohttp.TCPConnector(
        # No limit here: `Exchange.slots` limits requests but not streams. A limit of the connector
        # would count both, and writes could keep a watch from opening.
        limit=0,
        keepalive_timeout=IDLE_CONNECTION_S,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": "application/json", "User-Agent": f"windlass/{__version__}"},
        read_bufsize=READ_BUFFER,
        middlewares=(raise_unanswered,),
        request_class=guarded_request_class(guard) if guard else aiohttp.ClientRequest,
    ) as session:
        yield Api(Exchange(session, access, timeout_s, asyncio.Semaphore(connections)))


class Patch(StrEnum):
    """The kinds of a PATCH, as the media types of its body."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"  # JSON is YAML


@dataclass(frozen=True, slots=True)
class Api:
    """The verbs of the API server: four that write, one that reads, and one that reads a stream.

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
        """Create an object or a subresource, such as a binding or an eviction."""
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
        """Delete an object; the body holds DeleteOptions, such as preconditions and the grace."""
        content, headers = (None, _NO_HEADERS) if body is None else _json(body)
        request = ApiRequest("DELETE", path, params, content, headers)
        return await self._exchange.ask(request, timeout_s)

    def stream(
        self, path: str, params: Params, *, idle_s: float
    ) -> AbstractAsyncContextManager[AsyncGenerator[bytes, None]]:
        """Open a GET whose answer comes in chunks; raises Unanswered after `idle_s` without one."""
        return self._exchange.stream(ApiRequest("GET", path, params, is_write=False), idle_s)


async def list_all(api: Api, path: str, kind: type[T]) -> list[T]:
    """Return all objects of a collection; objects that cannot be decoded are left out."""
    decoder = KindDecoder(kind)

    async def read_page(params: dict[str, str]) -> ListPage[T]:
        return decoder.page(await api.get(path, params, timeout_s=LIST_TIMEOUT_S))

    try:
        page = await read_page({"limit": PAGE})
        objects = page.items
        while page.next:
            page = await read_page({"limit": PAGE, "continue": page.next})
            objects += page.items
    except ResourceExpired:  # reading the pages took longer than the server keeps them
        return (await read_page({})).items
    return objects


_NO_HEADERS: dict[str, str] = {}
_encoder = msgspec.json.Encoder()


def _json(body: Any, kind: str = "application/json") -> tuple[bytes, dict[str, str]]:
    encoded = body if isinstance(body, bytes) else _encoder.encode(body)
    return encoded, {"Content-Type": str(kind)}
