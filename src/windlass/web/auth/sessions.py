"""The sessions of viewers who have signed in: a random cookie stands for a token in memory.

A session ends after `LONGEST_S`, with its token, or with the process; the token is reviewed again
and again meanwhile (`authentication.py`). There are at most `MOST` sessions: the oldest is closed
for a new one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

COOKIE = "windlass_session"
LONGEST_S = 3600
MOST = 1_000


class Sessions:
    """The tokens by session cookie."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}
        """The end of each session and its token, by cookie, oldest first."""

    def __len__(self) -> int:
        return len(self._tokens)

    def open(self, token: str) -> str:
        """Begin a session with this token; return its cookie."""
        while len(self._tokens) >= MOST:
            del self._tokens[next(iter(self._tokens))]
        cookie = secrets.token_urlsafe(32)
        self._tokens[cookie] = (self._now() + LONGEST_S, token)
        return cookie

    def token(self, cookie: str) -> str | None:
        """Return the token of a session; None if there is no such session any more."""
        until, token = self._tokens.get(cookie, (0.0, ""))
        if until > self._now():
            return token
        self.close(cookie)
        return None

    def close(self, cookie: str) -> None:
        """End a session."""
        self._tokens.pop(cookie, None)


def cookie_header(cookie: str, secure: bool) -> str:
    """Return the header that sets a session cookie; an empty cookie removes it."""
    max_age = LONGEST_S if cookie else 0
    flags = f"Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
    return f"{COOKIE}={cookie}; {flags}"
