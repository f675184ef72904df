"""What a term works with, and what outlives it: the configuration, the connection, the clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random

from windlass.config import Config
from windlass.daemon.serving.dashboard_feed import Showing
from windlass.daemon.serving.log import StructuredLog
from windlass.kube.client.client import Api
from windlass.kube.client.leader_election import Election
from windlass.kube.writers.signing import Signing
from windlass.metrics import Metrics


@dataclass(slots=True)
class Clock:
    """Seconds since 1970 that only go forward: a wall clock that jumps later changes nothing."""

    began: float = field(default_factory=time.time)
    at: float = field(default_factory=time.monotonic)

    def now(self) -> int:
        """The second it is."""
        return int(self.began + time.monotonic() - self.at)


@dataclass(slots=True)
class DaemonContext:
    """One for all terms of a daemon."""

    config: Config
    api: Api
    election: Election
    metrics: Metrics
    log: StructuredLog
    showing: Showing | None = None
    clock: Clock = field(default_factory=Clock)
    signing: Signing = field(default_factory=Signing)
    chance: Random = field(default_factory=Random)
