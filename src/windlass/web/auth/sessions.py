"""Who has signed in: a cookie that means nothing by itself stands for the token in memory.

A session ends after `LONGEST_S`, with its token, or with the process; the token is reviewed again
and again meanwhile (`door.py`). There are `MOST` at a time: the oldest makes room.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

COOKIE = "windlass_session"
LONGEST_S = 3600
MOST = 1_000


class Sessions:
    """Tokens by the words that stand for them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def open(self, token: str) -> str:
        """A word that stands for this token from now on."""
        while len(self._tokens) >= MOST:
            del self._tokens[next(iter(self._tokens))]
        word = secrets.token_urlsafe(32)
        self._tokens[word] = (self._now() + LONGEST_S, token)
        return word

    def token(self, word: str) -> str | None:
        """What it stands for, as long as it does."""
        until, token = self._tokens.get(word, (0.0, ""))
        if until > self._now():
            return token
        self.close(word)
        return None

    def close(self, word: str) -> None:
        """It stands for nothing any more."""
        self._tokens.pop(word, None)


def cookie(word: str, secure: bool) -> str:
    """The header that hands it out; without a word, the one that takes it back."""
    lasts = LONGEST_S if word else 0
    marks = f"Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
    return f"{COOKIE}={word}; {marks}"
