"""Wait for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 120


def wait_until(holds: Callable[[], bool]) -> None:
    """Return as soon as it holds; that it never does is what fails the test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"it did not come about within {PATIENCE_SECONDS} s"
        time.sleep(0.05)
