"""Authentication: accepts requests with a token that the API server knows.

A token comes in the header `Authorization: Bearer`, or once with the sign-in and from then on as
a session cookie. It is reviewed again every `REVIEW_S`, and not accepted after it has expired.
"""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from starlette.requests import Request

from windlass.model.viewers import ReviewUnavailable, Viewer
from windlass.web.auth.authorization import AccessReviewer, AccessRights
from windlass.web.auth.sessions import COOKIE, Sessions
from windlass.web.auth.ttl_cache import TtlCache

REVIEW_S = 60.0
UNKNOWN_FOR_S = 5.0
"""The seconds after which an unknown token is reviewed again."""
MOST_TOKENS = 2_000
MOST_AT_ONCE = 32
LONGEST_TOKEN = 16_384
NOBODY = "You have not signed in, or it was too long ago: sign in with a token."
UNKNOWN = (
    "The API server does not accept this token: it is forged, has expired, or is meant for another "
    "audience. Make a new one, such as with `kubectl create token NAME`."
)


class AccessDenied(Exception):
    """A request is refused; the sentence says why, and what to do about it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True, slots=True)
class _ReviewedToken:
    viewer: Viewer | None
    """The owner of the token; None if the API server does not accept it."""
    ends_at: float | None
    """The expiry in seconds since 1970; None if the token does not tell."""


class Authenticator:
    """Tells which viewer a request comes from."""

    def __init__(
        self,
        judge: AccessReviewer,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.rights = AccessRights(judge, now)
        self.sessions = Sessions(now)
        self._judge, self._wall = judge, wall
        self._reviewed = TtlCache[str, _ReviewedToken](MOST_TOKENS, self._good_for, now)
        self._reviews = 0
        """The reviews in flight; at most `MOST_AT_ONCE`."""

    async def authenticate(self, request: Request) -> Viewer:
        """Return the viewer of a request; raise AccessDenied if there is none."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.viewer(token.strip())
        session_token = self.sessions.token(request.cookies.get(COOKIE, ""))
        if session_token is None:
            raise AccessDenied(401, NOBODY)
        return await self.viewer(session_token)

    async def viewer(self, token: str) -> Viewer:
        """Return the owner of a token; raise AccessDenied if the API server does not accept it."""
        if not 0 < len(token) <= LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise AccessDenied(401, UNKNOWN)
        reviewed = await self._reviewed.of(_digest(token), lambda: self._review(token))
        has_expired = reviewed.ends_at is not None and reviewed.ends_at <= self._wall()
        if reviewed.viewer is None or has_expired:
            raise AccessDenied(401, UNKNOWN)
        return reviewed.viewer

    async def _review(self, token: str) -> _ReviewedToken:
        if self._reviews >= MOST_AT_ONCE:
            raise AccessDenied(503, "Too many sign in at this moment; try again in a moment.")
        self._reviews += 1
        try:
            return _ReviewedToken(await self._judge.viewer(token), _expiry(token))
        except ReviewUnavailable as error:
            raise AccessDenied(503, f"Nobody can sign in now: {error}.") from None
        finally:
            self._reviews -= 1

    def _good_for(self, _digest: str, reviewed: _ReviewedToken) -> float:
        """Return the seconds for which a review holds: never longer than the token itself."""
        if reviewed.viewer is None:
            return UNKNOWN_FOR_S
        left = REVIEW_S if reviewed.ends_at is None else reviewed.ends_at - self._wall()
        return min(REVIEW_S, left)


class _TokenClaims(msgspec.Struct):
    exp: float | None = None


def _digest(token: str) -> str:
    """Return the key of a token in the cache, which holds no tokens."""
    return hashlib.sha256(token.encode()).hexdigest()


def _expiry(token: str) -> float | None:
    """Return the expiry of a JSON Web Token, whose signature the API server has checked.

    None for a token of another kind, or without an expiry.
    """
    part = token.split(".")[1:2]
    try:
        return msgspec.json.decode(urlsafe_b64decode(part[0] + "=="), type=_TokenClaims).exp
    except (IndexError, ValueError, msgspec.MsgspecError):
        return None
