"""The only place where the fake kubelet looks at a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from windlass.lab.kubelet.sitter import Moment


def now() -> Moment:
    """Now, for timers and for the API server."""
    return Moment(time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def micro_stamp() -> str:
    """Now as a Lease wants it, with microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
