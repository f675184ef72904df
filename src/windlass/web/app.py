"""The API and the page over HTTP: read-only, without cookies, to be served on loopback.

    /                      the page, where it was built
    /api/cluster           every GPU and what is on it
    /api/queues            the tree of queues, and what they had over time
    /api/jobs              who waits and why, who runs and where, who has finished
    /api/room?gang=NAME    what it would take to make room for a gang that waits
    /api/decisions         the remembered cycles in short
    /api/decisions/{n}     one of them in full
    /api/events            a line whenever the above has changed (server-sent events)
    /openapi.json          all this for programs

The documents are those of `documents.py`; this file only finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from windlass.web.board import Board, Shown
from windlass.web.documents import Problem
from windlass.web.headers import Guarded
from windlass.web.openapi import description

STATIC = Path(__file__).parent / "static"
HEARTBEAT_S = 15.0
NOT_YET = "Nothing has been decided yet; ask again in a moment."
NOT_BUILT = (
    "The page is not built: that needs Node 20 or newer, then `make run` does it. "
    "What it would show is at /api/cluster, /api/queues, /api/jobs and /api/decisions.\n"
)


def application(board: Board, static: Path = STATIC) -> Starlette:
    """Everything that the board shows, at its addresses."""

    async def tell(request: Request) -> Response:
        shown = board.shown
        if shown is None:
            return _problem(NOT_YET, 503)
        name = request.url.path.rpartition("/")[2]
        return _document(request, shown, shown.documents[name])

    async def tell_cycle(request: Request) -> Response:
        found = board.cycle(request.path_params["number"])
        if found is None:
            return _problem("That cycle is not remembered; /api/decisions lists those that are.")
        return _json(found)

    async def tell_room(request: Request) -> Response:
        gang = request.query_params.get("gang", "")
        found = await asyncio.to_thread(board.room, gang)
        return _json(found) if found else _problem("No gang of that name waits for room now.")

    async def tell_events(_request: Request) -> Response:
        return StreamingResponse(events(board), media_type="text/event-stream")

    async def describe(_request: Request) -> Response:
        return _json(msgspec.json.encode(description()))

    documents = ("cluster", "queues", "jobs", "decisions")
    routes = [
        *(Route(f"/api/{name}", tell) for name in documents),
        Route("/api/decisions/{number:int}", tell_cycle),
        Route("/api/room", tell_room),
        Route("/api/events", tell_events),
        Route("/openapi.json", describe),
        _page(static),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guarded)])


async def events(board: Board) -> AsyncGenerator[bytes, None]:
    """The stamp now, then whenever it changes; between them a sign of life."""
    sent = None
    with board.bell.listening() as rung:
        while not board.bell.is_over:
            rung.clear()
            shown = board.shown
            if shown is not None and shown.stamp != sent:
                sent = shown.stamp
                yield b"id: %d\ndata: %b\n\n" % (sent.version, msgspec.json.encode(sent))
            try:
                await asyncio.wait_for(rung.wait(), HEARTBEAT_S)
            except TimeoutError:
                yield b": still here\n\n"


def _page(static: Path) -> BaseRoute:
    if (static / "index.html").is_file():
        return Mount("/", StaticFiles(directory=static, html=True))

    async def not_built(_request: Request) -> Response:
        return PlainTextResponse(NOT_BUILT, 404)

    return Route("/", not_built)


def _document(request: Request, shown: Shown, found: bytes) -> Response:
    tag = f'"{shown.stamp.run}-{shown.stamp.version}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return _json(found, {"etag": tag})


def _json(body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, media_type="application/json", headers=headers)


def _problem(sentence: str, status: int = 404) -> Response:
    return Response(msgspec.json.encode(Problem(sentence)), status, media_type="application/json")
