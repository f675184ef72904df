"""Answers that are asked for once and then shared, for a while and in bounded number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class Shared(Generic[Key, Answer]):
    """Who asks what is being asked already waits for that answer; a failure is not kept."""

    def __init__(
        self, most: int, good_for: Callable[[Key, Answer], float], now: Callable[[], float]
    ) -> None:
        self._most, self._good_for, self._now = most, good_for, now
        self._kept: dict[Key, tuple[float, asyncio.Future[Answer]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def of(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer that is known, or a new one."""
        until, asked = self._kept.get(key, (0.0, None))
        if asked is None or (asked.done() and until <= self._now()):
            self._make_room(key)
            asked = asyncio.ensure_future(ask())
            self._kept[key] = (0.0, asked)
            asked.add_done_callback(lambda done: self._keep(key, done))
        return await asyncio.shield(asked)

    def _keep(self, key: Key, done: asyncio.Future[Answer]) -> None:
        if self._kept.get(key, (0.0, None))[1] is not done:
            return
        if done.cancelled() or done.exception() is not None:
            del self._kept[key]
        else:
            until = self._now() + self._good_for(key, done.result())
            self._kept[key] = (until, done)

    def _make_room(self, key: Key) -> None:
        self._kept.pop(key, None)
        if len(self._kept) >= self._most:
            now = self._now()
            over = [each for each, (until, it) in self._kept.items() if it.done() and until <= now]
            for each in over or [next(iter(self._kept))]:
                del self._kept[each]


def for_seconds(seconds: float) -> Callable[[object, object], float]:
    """Every answer is good for so long."""
    return lambda _key, _answer: seconds
