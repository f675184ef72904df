"""Ports for servers that must come back at the same address.

A port that the kernel chooses may be taken by any outgoing connection while its server is down. So
ports come from below the range of outgoing connections, and a file lock keeps planes of other
processes away from them, also while no server listens. The lock ends with its process.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

from windlass_lab.control_plane.errors import PlaneFailed

RANGE = range(20_000, 30_000)
"""Linux connects from 32768 up, other systems from 49152."""


class PortPool:
    """Ports of 127.0.0.1 that no other process uses until they are given back."""

    def __init__(self) -> None:
        self._locks: list[IO[bytes]] = []
        # per user, since a lock file of another user cannot be opened for writing
        self._folder = Path(tempfile.gettempdir(), f"windlass-ports-{os.getuid()}")

    def claim(self, wish: int | None = None) -> int:
        """Return a free port: the wished one, or any."""
        first = random.randrange(len(RANGE))
        wishes = [wish] if wish else [*RANGE[first:], *RANGE[:first]]
        for port in wishes:
            if self._claimed(port):
                return port
        what = f"port {wish}" if wish else f"every port from {RANGE.start} to {RANGE.stop - 1}"
        raise PlaneFailed(f"{what} of 127.0.0.1 is in use; choose another or stop who uses it")

    def give_back(self) -> None:
        """Release the ports."""
        while self._locks:
            self._locks.pop().close()

    def _claimed(self, port: int) -> bool:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        lock = (self._folder / str(port)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        if not _is_free(port):
            lock.close()
            return False
        self._locks.append(lock)
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # as the servers do: connections of a former server that still linger are no hindrance
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
