"""A signal from one thread to the event loops of others."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

Listener = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class ChangeSignal:
    """Wakes all listeners; a listener that comes later is not told of earlier signals."""

    def __init__(self) -> None:
        self.is_over = False
        """True: there will be no further signal, so listeners may stop."""
        self._lock = Lock()
        self._listeners: list[Listener] = []

    @property
    def is_heard(self) -> bool:
        """True if there is a listener."""
        return bool(self._listeners)

    def ring(self) -> None:
        """Wake all listeners, from any thread."""
        with self._lock:
            for loop, event in self._listeners:
                loop.call_soon_threadsafe(event.set)

    def silence(self) -> None:
        """Signal for the last time."""
        self.is_over = True
        self.ring()

    @contextmanager
    def listening(self) -> Generator[asyncio.Event, None, None]:
        """Yield an event that is set with every signal; the listener clears it."""
        listener = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._listeners.append(listener)
        try:
            yield listener[1]
        finally:
            with self._lock:
                self._listeners.remove(listener)
