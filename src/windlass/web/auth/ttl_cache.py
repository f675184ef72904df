"""A bounded cache of answers that expire, filled by one request for all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class TtlCache(Generic[Key, Answer]):
    """Answers by key; concurrent requests for one key share a single question.

    A failed question is not cached: the next request asks again.
    """

    def __init__(
        self, most: int, good_for: Callable[[Key, Answer], float], now: Callable[[], float]
    ) -> None:
        self._most, self._good_for, self._now = most, good_for, now
        self._kept: dict[Key, tuple[float, asyncio.Future[Answer]]] = {}
        """The end of validity and the answer by key, oldest first; the end is 0.0 while the
        question is pending."""

    def __len__(self) -> int:
        return len(self._kept)

    async def of(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the cached answer, or ask for one; wait if the question is pending already."""
        until, answer = self._kept.get(key, (0.0, None))
        if answer is None or (answer.done() and until <= self._now()):
            self._make_room(key)
            answer = asyncio.ensure_future(ask())
            self._kept[key] = (0.0, answer)
            answer.add_done_callback(lambda done: self._keep(key, done))
        # One requester that goes away must not cancel the question of the others.
        return await asyncio.shield(answer)

    def _keep(self, key: Key, done: asyncio.Future[Answer]) -> None:
        """Set the end of an answer that has come, unless a newer question took its place."""
        if self._kept.get(key, (0.0, None))[1] is not done:
            return
        if done.cancelled() or done.exception() is not None:
            del self._kept[key]
        else:
            until = self._now() + self._good_for(key, done.result())
            self._kept[key] = (until, done)

    def _make_room(self, key: Key) -> None:
        """Drop expired answers if the cache is full, or the oldest if none has expired."""
        self._kept.pop(key, None)
        if len(self._kept) >= self._most:
            now = self._now()
            over = [
                k for k, (until, answer) in self._kept.items() if answer.done() and until <= now
            ]
            for expired in over or [next(iter(self._kept))]:
                del self._kept[expired]


def for_seconds(seconds: float) -> Callable[[object, object], float]:
    """Return a rule by which every answer is valid for this long."""
    return lambda _key, _answer: seconds
