"""The only place where the fake kubelet looks at a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from windlass_lab.fake_kubelet.pod_lifecycle import ClockReading


def now() -> ClockReading:
    """Now, for timers and for the API server."""
    return ClockReading(time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def micro_stamp() -> str:
    """Now as a Lease wants it, with microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
