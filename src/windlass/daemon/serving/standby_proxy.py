"""Forward dashboard requests from a standby replica to the leader.

    browser --> Service --> standby --unchanged--> leader

So every replica behind the Service leads to the dashboard. The leader publishes the address of its
dashboard on the Lease. Requests and answers are neither interpreted nor stored on the way, and a
request that was forwarded once is not forwarded again: two replicas with outdated views of the
Lease could otherwise send it in circles.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from urllib.parse import quote

import aiohttp
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.web.auth import AccessDenied, read_body
from windlass.web.server import error_response

PASSED_ON = "x-windlass-passed-on"
"""The header that marks a forwarded request."""
CONNECT_S = 3.0
"""The time-out for the connection to the leader."""
SILENT_S = 60.0
"""A silent answer is given up after so long; event streams send something every 15 s."""
HOP = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "te", "upgrade", "trailer", "content-length")
)
"""Hop-by-hop headers: they belong to one connection and are not forwarded."""


class StandbyProxy:
    """An application that forwards API requests while another replica leads."""

    def __init__(self, app: ASGIApp, leader: Callable[[], str]) -> None:
        self._app, self._leader = app, leader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request here, or forward it."""
        is_api = scope["type"] == "http" and scope["path"].startswith("/api/")
        leader = self._leader() if is_api else ""
        if not leader or any(name.decode() == PASSED_ON for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
        async with aiohttp.ClientSession(
            timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            response = await _forward(session, request, leader)
            await response(scope, receive, send)


async def _forward(session: aiohttp.ClientSession, request: Request, leader: str) -> Response:
    """Send a request to the leader; return its answer as a stream."""
    headers = [(k, v) for k, v in request.headers.items() if k not in HOP] + [(PASSED_ON, "1")]
    target = f"http://{leader}{quote(request.url.path)}"
    if request.url.query:
        target = f"{target}?{request.url.query}"
    try:
        answer = await session.request(
            request.method,
            target,
            headers=headers,
            data=await read_body(request) or None,
            allow_redirects=False,
        )
    except AccessDenied as refused:
        return error_response(refused.sentence, refused.status)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return error_response(
            "The replica that leads cannot be reached now; try again in a moment.", 503
        )
    response = StreamingResponse(_chunks(answer), answer.status)
    response.raw_headers = [
        (k.lower().encode(), v.encode()) for k, v in answer.headers.items() if k.lower() not in HOP
    ]
    return response


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError):
        return  # the leader is gone: the browser sees the end of the stream and reconnects
