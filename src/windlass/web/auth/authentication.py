"""Lets in who has a token that the API server knows, and tells the others what to do.

A token comes in the header `Authorization: Bearer`, or once at the sign-in and from then on as a
cookie. It is reviewed again every `REVIEW_S`, and never used after it has expired.
"""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from starlette.requests import Request

from windlass.model.viewers import CannotAsk, Viewer
from windlass.web.auth.authorization import AccessReviewer, AccessRights
from windlass.web.auth.sessions import COOKIE, Sessions
from windlass.web.auth.ttl_cache import Shared

REVIEW_S = 60.0
UNKNOWN_FOR_S = 5.0
"""A token that nobody knows is asked about again after so long."""
MOST_TOKENS = 2_000
MOST_AT_ONCE = 32
LONGEST_TOKEN = 16_384
NOBODY = "You have not signed in, or it was too long ago: sign in with a token."
UNKNOWN = (
    "The API server does not accept this token: it is forged, has expired, or is meant for another "
    "audience. Make a new one, such as with `kubectl create token NAME`."
)


class AccessDenied(Exception):
    """Why somebody is not let in, and what to do about it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True, slots=True)
class _KnownToken:
    viewer: Viewer | None
    ends_at: float | None
    """When the token expires, in seconds since 1970, if it says so."""


class Door:
    """Knows who asks."""

    def __init__(
        self,
        judge: AccessReviewer,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.rights = AccessRights(judge, now)
        self.sessions = Sessions(now)
        self._judge, self._wall = judge, wall
        self._known = Shared[str, _KnownToken](MOST_TOKENS, self._good_for, now)
        self._asking = 0

    async def enter(self, request: Request) -> Viewer:
        """Who asks; Refused if that is not known."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.viewer(token.strip())
        kept = self.sessions.token(request.cookies.get(COOKIE, ""))
        if kept is None:
            raise AccessDenied(401, NOBODY)
        return await self.viewer(kept)

    async def viewer(self, token: str) -> Viewer:
        """Whose token it is; Refused if it is nobody's."""
        if not 0 < len(token) <= LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise AccessDenied(401, UNKNOWN)
        known = await self._known.of(_digest(token), lambda: self._ask(token))
        is_over = known.ends_at is not None and known.ends_at <= self._wall()
        if known.viewer is None or is_over:
            raise AccessDenied(401, UNKNOWN)
        return known.viewer

    async def _ask(self, token: str) -> _KnownToken:
        if self._asking >= MOST_AT_ONCE:
            raise AccessDenied(503, "Too many sign in at this moment; try again in a moment.")
        self._asking += 1
        try:
            return _KnownToken(await self._judge.viewer(token), _expiry(token))
        except CannotAsk as error:
            raise AccessDenied(503, f"Nobody can sign in now: {error}.") from None
        finally:
            self._asking -= 1

    def _good_for(self, _digest: str, known: _KnownToken) -> float:
        if known.viewer is None:
            return UNKNOWN_FOR_S
        left = REVIEW_S if known.ends_at is None else known.ends_at - self._wall()
        return min(REVIEW_S, left)


class _Claims(msgspec.Struct):
    exp: float | None = None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _expiry(token: str) -> float | None:
    """What a JSON Web Token says of its end; the API server has checked its signature."""
    part = token.split(".")[1:2]
    try:
        return msgspec.json.decode(urlsafe_b64decode(part[0] + "=="), type=_Claims).exp
    except (IndexError, ValueError, msgspec.MsgspecError):
        return None
