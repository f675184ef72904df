"""The addresses to sign in and out, and to learn who is signed in.

    GET  /api/viewer      whether a sign-in is needed, and whose session it is
    POST /api/sign-in     {"token": ...}: begins a session, as a cookie
    POST /api/sign-out    ends the session

A page of another site cannot sign a viewer in or out: the body is JSON, which browsers do not let
such a page send, and the headers in which browsers tell the origin of a request are checked.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.web.auth.authentication import LONGEST_TOKEN, UNKNOWN, AccessDenied, Authenticator
from windlass.web.auth.sessions import COOKIE, cookie_header

LONGEST_BODY = 2 * LONGEST_TOKEN


class SignInState(msgspec.Struct):
    """The first answer to the page: never a refusal, which browsers would report as an error.

    `door` says whether a sign-in is needed; `name` is empty if nobody is signed in.
    """

    door: bool
    name: str = ""


class _SignInRequest(msgspec.Struct, forbid_unknown_fields=True):
    token: str


def viewer_route(door: Authenticator | None) -> Route:
    """Return the address that tells whether a sign-in is needed, and who is signed in."""

    async def get_viewer(request: Request) -> Response:
        try:
            name = (await door.authenticate(request)).name if door else ""
        except AccessDenied as refused:
            if refused.status != 401:
                raise
            name = ""
        return _json(SignInState(door is not None, name))

    return Route("/api/viewer", get_viewer)


def sign_in_routes(door: Authenticator) -> list[Route]:
    """Return the addresses to sign in and out."""

    async def sign_in(request: Request) -> Response:
        _check_origin(request)
        token = await _token(request)
        viewer = await door.viewer(token)
        answer = _json(SignInState(True, viewer.name))
        answer.headers["set-cookie"] = cookie_header(door.sessions.open(token), is_secure(request))
        return answer

    async def sign_out(request: Request) -> Response:
        _check_origin(request)
        door.sessions.close(request.cookies.get(COOKIE, ""))
        return Response(
            status_code=204, headers={"set-cookie": cookie_header("", is_secure(request))}
        )

    return [
        Route("/api/sign-in", sign_in, methods=["POST"]),
        Route("/api/sign-out", sign_out, methods=["POST"]),
    ]


def is_secure(request: Request) -> bool:
    """Return whether the request came by TLS, here or to a proxy.

    The header of the proxy may be forged: that only makes the cookie stricter.
    """
    forwarded = request.headers.get("x-forwarded-proto", "").split(",")[0].strip()
    return "https" in (request.url.scheme, forwarded)


def _check_origin(request: Request) -> None:
    """Raise AccessDenied for a request that a page of another site may have sent."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    fetch_site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if fetch_site is None:  # an old browser, or a program
        is_same_origin = origin is None or urlsplit(origin).netloc == host
    else:
        is_same_origin = fetch_site in ("same-origin", "none")
    if kind != "application/json" or not is_same_origin:
        raise AccessDenied(403, "Only the page, or a program that sends JSON, can sign in or out.")


async def read_body(request: Request) -> bytes:
    """Read the body of a request; raise AccessDenied if it is too long for a sign-in."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise AccessDenied(413, "That is too long for a token.")
    return body


async def _token(request: Request) -> str:
    try:
        return msgspec.json.decode(await read_body(request), type=_SignInRequest).token.strip()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise AccessDenied(401, UNKNOWN) from None


def _json(state: SignInState) -> Response:
    return Response(msgspec.json.encode(state), media_type="application/json")
