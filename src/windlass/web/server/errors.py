"""The errors of the API, all in one form: a status, and a sentence as JSON (`Problem`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from windlass.web.auth import AccessDenied
from windlass.web.schema import Problem

SENTENCES = {
    404: "There is nothing at this address; /openapi.json lists what there is.",
    405: "That cannot be done here; /openapi.json says what can.",
}


def error_response(
    sentence: str, status: int = 404, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response that says what is wrong."""
    body = msgspec.json.encode(Problem(sentence))
    return Response(body, status, headers, media_type="application/json")


async def _access_denied(_request: Request, refused: Exception) -> Response:
    assert isinstance(refused, AccessDenied)
    return error_response(refused.sentence, refused.status)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(
        SENTENCES.get(error.status_code, error.detail), error.status_code, error.headers
    )


async def _internal_error(_request: Request, _error: Exception) -> Response:
    return error_response("That went wrong here, which is a bug; the log has more.", 500)


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    AccessDenied: _access_denied,
    HTTPException: _http_error,
    Exception: _internal_error,
}
