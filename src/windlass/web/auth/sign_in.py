"""Signing in and out, and who one is.

    GET  /api/viewer      is there a door, and whose session is it
    POST /api/sign-in     {"token": ...}: a session, as a cookie
    POST /api/sign-out    no session any more

No page of another site can do either for somebody: the body is JSON, which such a page may not
send, and what browsers say about where a request comes from is believed.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.web.auth.authentication import LONGEST_TOKEN, UNKNOWN, AccessDenied, Door
from windlass.web.auth.sessions import COOKIE, cookie

LONGEST_BODY = 2 * LONGEST_TOKEN


class SignInState(msgspec.Struct):
    """What the page is told before it shows anything; no refusal, which browsers report as one."""

    door: bool
    name: str = ""


class _SignInRequest(msgspec.Struct, forbid_unknown_fields=True):
    token: str


def viewer_route(door: Door | None) -> Route:
    """Is there a door, and who is inside?"""

    async def tell_viewer(request: Request) -> Response:
        try:
            name = (await door.enter(request)).name if door else ""
        except AccessDenied as refused:
            if refused.status != 401:
                raise
            name = ""
        return _known(SignInState(door is not None, name))

    return Route("/api/viewer", tell_viewer)


def sign_in_routes(door: Door) -> list[Route]:
    """The way in and the way out."""

    async def sign_in(request: Request) -> Response:
        _mind_origin(request)
        token = await _token(request)
        viewer = await door.viewer(token)
        answer = _known(SignInState(True, viewer.name))
        answer.headers["set-cookie"] = cookie(door.sessions.open(token), is_secure(request))
        return answer

    async def sign_out(request: Request) -> Response:
        _mind_origin(request)
        door.sessions.close(request.cookies.get(COOKIE, ""))
        return Response(status_code=204, headers={"set-cookie": cookie("", is_secure(request))})

    return [
        Route("/api/sign-in", sign_in, methods=["POST"]),
        Route("/api/sign-out", sign_out, methods=["POST"]),
    ]


def is_secure(request: Request) -> bool:
    """Did it come by TLS, here or to a proxy before us? A lie only makes a cookie stricter."""
    forwarded = request.headers.get("x-forwarded-proto", "").split(",")[0].strip()
    return "https" in (request.url.scheme, forwarded)


def _mind_origin(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    said = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if said is None:
        is_ours = origin is None or urlsplit(origin).netloc == host
    else:
        is_ours = said in ("same-origin", "none")
    if kind != "application/json" or not is_ours:
        raise AccessDenied(403, "Only the page, or a program that sends JSON, can sign in or out.")


async def body_of(request: Request) -> bytes:
    """What was sent, as long as it can be a sign-in."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise AccessDenied(413, "That is too long for a token.")
    return body


async def _token(request: Request) -> str:
    try:
        return msgspec.json.decode(await body_of(request), type=_SignInRequest).token.strip()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise AccessDenied(401, UNKNOWN) from None


def _known(known: SignInState) -> Response:
    return Response(msgspec.json.encode(known), media_type="application/json")
