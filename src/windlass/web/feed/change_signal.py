"""Rung in one thread, heard in the event loops of others."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

Listener = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class ChangeSignal:
    """Wakes everybody who listens; who was not listening hears nothing of it."""

    def __init__(self) -> None:
        self.is_over = False
        """It will not ring again: whoever listens may go."""
        self._lock = Lock()
        self._listeners: list[Listener] = []

    @property
    def is_heard(self) -> bool:
        """Does anybody listen?"""
        return bool(self._listeners)

    def ring(self) -> None:
        """Wake all listeners, from any thread."""
        with self._lock:
            for loop, event in self._listeners:
                loop.call_soon_threadsafe(event.set)

    def silence(self) -> None:
        """Ring for the last time."""
        self.is_over = True
        self.ring()

    @contextmanager
    def listening(self) -> Generator[asyncio.Event, None, None]:
        """An event that is set whenever the bell rings; the listener clears it."""
        listener = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._listeners.append(listener)
        try:
            yield listener[1]
        finally:
            with self._lock:
                self._listeners.remove(listener)
