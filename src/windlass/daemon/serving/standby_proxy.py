"""A replica that stands by passes on what it is asked: each of them leads to the dashboard.

    browser --> Service --> standing by --as it came--> leading

The leader writes on the Lease where its dashboard is. Nothing is read or kept on the way, and what
was passed on once is not passed on again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from urllib.parse import quote

import aiohttp
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.web.auth.authentication import AccessDenied
from windlass.web.auth.sign_in import body_of
from windlass.web.server.errors import problem

PASSED_ON = "x-windlass-passed-on"
CONNECT_S = 3.0
SILENT_S = 60.0
"""Event streams give a sign of life every 15 s."""
HOP = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "te", "upgrade", "trailer", "content-length")
)
"""Headers that belong to one connection."""


class Forwarding:
    """An application that answers for the API only while nobody else leads."""

    def __init__(self, app: ASGIApp, leader: Callable[[], str]) -> None:
        self._app, self._leader = app, leader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, here or there."""
        to = self._leader() if scope["type"] == "http" and scope["path"].startswith("/api/") else ""
        if not to or any(name.decode() == PASSED_ON for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
        async with aiohttp.ClientSession(
            timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            await (await _passed_on(session, request, to))(scope, receive, send)


async def _passed_on(session: aiohttp.ClientSession, request: Request, to: str) -> Response:
    headers = [(k, v) for k, v in request.headers.items() if k not in HOP] + [(PASSED_ON, "1")]
    target = f"http://{to}{quote(request.url.path)}"
    if request.url.query:
        target = f"{target}?{request.url.query}"
    try:
        answer = await session.request(
            request.method,
            target,
            headers=headers,
            data=await body_of(request) or None,
            allow_redirects=False,
        )
    except AccessDenied as refused:
        return problem(refused.sentence, refused.status)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return problem("The replica that leads cannot be reached now; try again in a moment.", 503)
    told = StreamingResponse(_chunks(answer), answer.status)
    told.raw_headers = [
        (k.lower().encode(), v.encode()) for k, v in answer.headers.items() if k.lower() not in HOP
    ]
    return told


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError):
        return  # the leader went: the browser sees the end of the stream, and asks again
