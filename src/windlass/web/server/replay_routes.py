"""The addresses of the recorded past, for viewers who may see everything.

/api/recorded?until=SECOND      the last recorded cycles up to a time, in short
/api/recorded?since=SECOND      the first recorded cycles from a time on
/api/recorded/cycle?key=KEY     one of them in full
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.model.viewers import Viewer
from windlass.web.redact import ViewReader
from windlass.web.server.errors import error_response
from windlass.web.server.query_params import key_of, time_of


def recorded_routes(
    reader: ViewReader, enter: Callable[[Request], Awaitable[Viewer | None]]
) -> list[Route]:
    """Return the addresses of the record."""

    async def get_window(request: Request) -> Response:
        viewer = await enter(request)
        body = await reader.recorded(viewer, *time_of(request.query_params))
        return Response(body, media_type="application/json")

    async def get_cycle(request: Request) -> Response:
        viewer = await enter(request)
        body = await reader.recorded_cycle(viewer, key_of(request.query_params))
        if body is None:
            return error_response(
                "That cycle is not in the record; /api/recorded lists those that are."
            )
        return Response(body, media_type="application/json")

    return [Route("/api/recorded", get_window), Route("/api/recorded/cycle", get_cycle)]
