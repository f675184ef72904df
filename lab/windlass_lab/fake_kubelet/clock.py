"""The clock of the fake kubelet; no other of its modules reads one."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from windlass_lab.fake_kubelet.pod_lifecycle import ClockReading


def now() -> ClockReading:
    """Return the current time, for timers and for the API server."""
    return ClockReading(time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def micro_stamp() -> str:
    """Return the current time with microseconds, as a Lease needs it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
