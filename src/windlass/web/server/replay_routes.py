"""The recorded past over HTTP, where a record is kept, for who may see everything.

/api/recorded?until=SECOND      the last recorded cycles up to then, in short
/api/recorded?since=SECOND      the first ones from then on
/api/recorded/cycle?key=KEY     one of them in full
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.model.viewers import Viewer
from windlass.web.redact.viewer import ViewReader
from windlass.web.server.errors import problem
from windlass.web.server.query_params import key_of, time_of


def recorded_routes(
    reader: ViewReader, enter: Callable[[Request], Awaitable[Viewer | None]]
) -> list[Route]:
    """The addresses at which the record is asked."""

    async def tell_recorded(request: Request) -> Response:
        viewer = await enter(request)
        body = await reader.recorded(viewer, *time_of(request.query_params))
        return Response(body, media_type="application/json")

    async def tell_cycle(request: Request) -> Response:
        viewer = await enter(request)
        body = await reader.recorded_cycle(viewer, key_of(request.query_params))
        if body is None:
            return problem("That cycle is not in the record; /api/recorded lists those that are.")
        return Response(body, media_type="application/json")

    return [Route("/api/recorded", tell_recorded), Route("/api/recorded/cycle", tell_cycle)]
