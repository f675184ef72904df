"""The API and the page over HTTP, read-only: open on loopback, or behind a door on a cluster.

    /                      the page, where it was built
    /api/cluster           every GPU and what is on it
    /api/queues            the tree of queues, and what they had over time
    /api/jobs              who waits and why, who runs and where, who has finished: a window of each
    /api/job?gang=NAME     one of them
    /api/room?gang=NAME    what it would take to start a gang that waits: room, or changes
    /api/decisions         the remembered cycles in short
    /api/decisions/{n}     one of them in full
    /api/recorded          what is recorded of the cycles before them (`looking_back.py`)
    /api/events            a line whenever the above has changed (server-sent events)
    /openapi.json          all this for programs

Behind a door every address below /api answers only those who are let in, with what they may see
(`reader.py`), and there are more to come in by (`sign_in.py`). Asked with `?since=TAG` for cluster,
queues or decisions, only what has changed since is told to who may see everything. The documents
are those of `documents.py`; this file only finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from windlass.model.viewers import Viewer
from windlass.web.auth.authentication import AccessDenied, Door
from windlass.web.auth.sign_in import sign_in_routes, viewer_route
from windlass.web.feed.live_state import LiveState
from windlass.web.redact.viewer import VersionedDocument, ViewReader
from windlass.web.schema.openapi import description
from windlass.web.server.errors import HANDLERS, problem
from windlass.web.server.query_params import gang_of, number_of, since_of, window_of
from windlass.web.server.replay_routes import recorded_routes
from windlass.web.server.security_headers import Guarded

STATIC = Path(__file__).parents[1] / "static"
HEARTBEAT_S = 15.0
NOT_BUILT = (
    "The page is not built: that needs Node 20 or newer, then `make run` does it. "
    "What it would show is at /api/cluster, /api/queues, /api/jobs and /api/decisions."
)
NOBODY = "No gang of that name is known here, or it has ended some time ago."


@dataclass(frozen=True, slots=True)
class Guests:
    """Who is let in, and what is to happen when somebody looks."""

    door: Door
    look: Callable[[], Awaitable[None]]
    """Somebody looks: it returns when what is shown is fresh; Refused if nothing can be shown."""

    async def enter(self, request: Request) -> Viewer:
        """Who looks."""
        viewer = await self.door.enter(request)
        await self.look()
        return viewer


def application(board: LiveState, static: Path = STATIC, guests: Guests | None = None) -> Starlette:
    """Everything that the board shows, at its addresses; without a door it is open to all."""
    reader = ViewReader(board, guests.door.rights if guests else None)

    async def enter(request: Request) -> Viewer | None:
        return await guests.enter(request) if guests else None

    async def tell(request: Request) -> Response:
        viewer = await enter(request)
        name, since = request.url.path.rpartition("/")[2], since_of(request.query_params)
        return _document(request, await reader.document(viewer, name, since))

    async def tell_jobs(request: Request) -> Response:
        viewer = await enter(request)
        return _document(request, await reader.jobs(viewer, window_of(request.query_params)))

    async def tell_job(request: Request) -> Response:
        viewer = await enter(request)
        found = await reader.job(viewer, gang_of(request.query_params))
        return _document(request, found) if found else problem(NOBODY)

    async def tell_cycle(request: Request) -> Response:
        viewer = await enter(request)
        found = await reader.cycle(viewer, number_of("cycle", request.path_params["number"]))
        if found is None:
            return problem("That cycle is not remembered; /api/decisions lists those that are.")
        return _json(found)

    async def tell_room(request: Request) -> Response:
        viewer = await enter(request)
        found = await reader.room(viewer, gang_of(request.query_params))
        return _json(found) if found else problem("No gang of that name waits for room now.")

    async def tell_events(request: Request) -> Response:
        await enter(request)
        stream = events(board, partial(_is_welcome, enter, request))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def describe(_request: Request) -> Response:
        return _json(msgspec.json.encode(description()))

    routes = [
        *(Route(f"/api/{name}", tell) for name in ("cluster", "queues", "decisions")),
        Route("/api/jobs", tell_jobs),
        Route("/api/job", tell_job),
        Route("/api/decisions/{number}", tell_cycle),
        *recorded_routes(reader, enter),
        Route("/api/room", tell_room),
        Route("/api/events", tell_events),
        viewer_route(guests.door if guests else None),
        *(sign_in_routes(guests.door) if guests else ()),
        Route("/openapi.json", describe),
        _page(static),
    ]
    guarded = Middleware(Guarded, any_host=guests is not None)
    return Starlette(routes=routes, middleware=[guarded], exception_handlers=HANDLERS)


async def _is_welcome(enter: Callable[[Request], Awaitable[object]], request: Request) -> bool:
    try:
        await enter(request)
    except AccessDenied:
        return False
    return True


async def _always() -> bool:
    return True


async def events(
    board: LiveState, is_welcome: Callable[[], Awaitable[bool]] = _always
) -> AsyncGenerator[bytes, None]:
    """The stamp now, then whenever it changes; between them a sign of life."""
    sent = None
    with board.bell.listening() as rung:
        while not board.bell.is_over and await is_welcome():
            rung.clear()
            stamp = board.stamp
            if stamp is not None and stamp != sent:
                sent = stamp
                await asyncio.to_thread(board.pages.prepare)
                yield b"id: %d\ndata: %b\n\n" % (sent.version, msgspec.json.encode(sent))
            try:
                await asyncio.wait_for(rung.wait(), HEARTBEAT_S)
            except TimeoutError:
                yield b": still here\n\n"


def _page(static: Path) -> BaseRoute:
    if (static / "index.html").is_file():
        return Mount("/", StaticFiles(directory=static, html=True))

    async def not_built(_request: Request) -> Response:
        return problem(NOT_BUILT)

    return Route("/", not_built)


def _document(request: Request, found: VersionedDocument) -> Response:
    tag = f'"{found.tag}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return _json(found.body, {"etag": tag})


def _json(body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, media_type="application/json", headers=headers)
