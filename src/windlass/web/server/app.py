"""The API and the page over HTTP, read-only: open on loopback, with a sign-in on a cluster.

    /                      the page, if it was built
    /api/cluster           every GPU and the tasks on it
    /api/queues            the tree of queues, and their allocations over time
    /api/jobs              the jobs that wait, run and have finished: a window of each list
    /api/job?gang=NAME     one job
    /api/room?gang=NAME    what it would take to start a gang that waits: room, or changes
    /api/decisions         the remembered cycles in short
    /api/decisions/{n}     one remembered cycle in full
    /api/recorded          the recorded cycles before them (`replay_routes.py`)
    /api/events            a stamp whenever the above has changed (server-sent events)
    /openapi.json          the description of the API

With authentication every address below /api answers only viewers who are signed in, with what
they may see (`redact/viewer.py`), and there are addresses to sign in (`auth/sign_in.py`). A request
for cluster, queues or decisions with `?since=TAG` is answered with a delta if the viewer may see
everything. This module maps addresses to documents and makes none itself.
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
from windlass.web.auth import AccessDenied, Authenticator, sign_in_routes, viewer_route
from windlass.web.documents import LiveState
from windlass.web.redact import VersionedDocument, ViewReader
from windlass.web.schema import description
from windlass.web.server.errors import HANDLERS, error_response
from windlass.web.server.query_params import gang_of, number_of, since_of, window_of
from windlass.web.server.replay_routes import recorded_routes
from windlass.web.server.security_headers import SecurityHeaders

STATIC = Path(__file__).parents[1] / "static"
HEARTBEAT_S = 15.0
NOT_BUILT = (
    "The page is not built: that needs Node 20 or newer, then `make run` does it. "
    "What it would show is at /api/cluster, /api/queues, /api/jobs and /api/decisions."
)
NOBODY = "No gang of that name is known here, or it has ended some time ago."


@dataclass(frozen=True, slots=True)
class DashboardAccess:
    """The authentication of viewers, and the hook that is called for each of their requests."""

    door: Authenticator
    look: Callable[[], Awaitable[None]]
    """Called for each request: returns when the view is fresh; raises AccessDenied if there is
    nothing to show."""

    async def authenticate(self, request: Request) -> Viewer:
        """Return the viewer of a request; raise AccessDenied if it is refused."""
        viewer = await self.door.authenticate(request)
        await self.look()
        return viewer


def application(
    board: LiveState, static: Path = STATIC, guests: DashboardAccess | None = None
) -> Starlette:
    """Return the application that serves the board; without `guests` it is open to everybody."""
    reader = ViewReader(board, guests.door.rights if guests else None)

    async def enter(request: Request) -> Viewer | None:
        return await guests.authenticate(request) if guests else None

    async def get_document(request: Request) -> Response:
        viewer = await enter(request)
        name, since = request.url.path.rpartition("/")[2], since_of(request.query_params)
        return _document(request, await reader.document(viewer, name, since))

    async def get_jobs(request: Request) -> Response:
        viewer = await enter(request)
        return _document(request, await reader.jobs(viewer, window_of(request.query_params)))

    async def get_job(request: Request) -> Response:
        viewer = await enter(request)
        document = await reader.job(viewer, gang_of(request.query_params))
        return _document(request, document) if document else error_response(NOBODY)

    async def get_cycle(request: Request) -> Response:
        viewer = await enter(request)
        body = await reader.cycle(viewer, number_of("cycle", request.path_params["number"]))
        if body is None:
            return error_response(
                "That cycle is not remembered; /api/decisions lists those that are."
            )
        return _json(body)

    async def get_room(request: Request) -> Response:
        viewer = await enter(request)
        body = await reader.room(viewer, gang_of(request.query_params))
        return _json(body) if body else error_response("No gang of that name waits for room now.")

    async def get_events(request: Request) -> Response:
        await enter(request)
        stream = events(board, partial(_is_welcome, enter, request))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def get_description(_request: Request) -> Response:
        return _json(msgspec.json.encode(description()))

    routes = [
        *(Route(f"/api/{name}", get_document) for name in ("cluster", "queues", "decisions")),
        Route("/api/jobs", get_jobs),
        Route("/api/job", get_job),
        Route("/api/decisions/{number}", get_cycle),
        *recorded_routes(reader, enter),
        Route("/api/room", get_room),
        Route("/api/events", get_events),
        viewer_route(guests.door if guests else None),
        *(sign_in_routes(guests.door) if guests else ()),
        Route("/openapi.json", get_description),
        _page(static),
    ]
    guarded = Middleware(SecurityHeaders, any_host=guests is not None)
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
    """Yield the stamp now and whenever it changes, and a heartbeat in between.

    The documents that viewers follow are made before the stamp is sent, so that their requests
    need not wait. Ends when the viewer is not welcome any more.
    """
    sent = None
    with board.change_signal.listening() as rung:
        while not board.change_signal.is_over and await is_welcome():
            rung.clear()
            stamp = board.stamp
            if stamp is not None and stamp != sent:
                sent = stamp
                await asyncio.to_thread(board.documents.prepare)
                yield b"id: %d\ndata: %b\n\n" % (sent.version, msgspec.json.encode(sent))
            try:
                await asyncio.wait_for(rung.wait(), HEARTBEAT_S)
            except TimeoutError:
                yield b": still here\n\n"


def _page(static: Path) -> BaseRoute:
    if (static / "index.html").is_file():
        return Mount("/", StaticFiles(directory=static, html=True))

    async def not_built(_request: Request) -> Response:
        return error_response(NOT_BUILT)

    return Route("/", not_built)


def _document(request: Request, document: VersionedDocument) -> Response:
    """Return the document, or status 304 if the viewer has it already."""
    tag = f'"{document.tag}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return _json(document.body, {"etag": tag})


def _json(body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, media_type="application/json", headers=headers)
