"""ETAs beside a simulation: forecast in a process of its own, one at a time, while somebody looks.

The simulation only learns, sends a copy of its cluster away and takes what comes back: it never
waits. A played day runs ahead of its forecasts, so few runs must do, and an ETA is told as long as
its band has not passed: whoever waits for long has one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import SpawnProcess
from typing import Any

from windlass.forecast.eta import LEAST_RUNS, Forecast, StartEta
from windlass.forecast.experience import Experience
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster

RUNS = LEAST_RUNS
MOST_WAITING = 200
"""With more gangs in line a forecast would be old before it is done."""
NICENESS = 10


class BackgroundEta:
    """What is expected of everything that waits in a simulation."""

    def __init__(self) -> None:
        self.etas: Mapping[GangId, StartEta] = {}
        """As the last forecast said; replaced as a whole."""
        self._experience = Experience()
        self._process: SpawnProcess | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._asked_at: float | None = None
        """When the forecast was asked for that is under way."""
        self._rests_until = 0.0

    def learn(self, cluster: Cluster) -> None:
        """A cycle is over."""
        self._experience.look(cluster)

    def ask(self, cluster: Cluster) -> None:
        """Somebody looks: take what has come, and ask for the next if it is time for it."""
        try:
            self._take()
            waiting = sum(len(line) for line in cluster.waiting.values())
            if self._asked_at is None and 0 < waiting <= MOST_WAITING:
                self._send(cluster)
        except (OSError, EOFError):  # it is gone, and nobody depends on it
            self.close()
            self._rests_until = float("inf")

    def close(self) -> None:
        """Let the process go."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._process = None

    def _take(self) -> None:
        if self._asked_at is None or self._pipe is None or not self._pipe.poll():
            return
        self.etas = self._pipe.recv()
        took = time.monotonic() - self._asked_at
        self._asked_at, self._rests_until = None, time.monotonic() + took

    def _send(self, cluster: Cluster) -> None:
        if time.monotonic() < self._rests_until:
            return
        if self._process is None:
            self._pipe, theirs = Pipe()
            self._process = SpawnProcess(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        assert self._pipe is not None
        self._pipe.send((cluster.snapshot(), self._experience))
        self._asked_at = time.monotonic()


def _serve(pipe: Connection[Any, Any]) -> None:
    """The other process: forecasts, until nobody is there to ask for one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the simulation, which ends us
    os.nice(NICENESS)
    try:
        while True:
            snapshot, experience = pipe.recv()
            forecast = Forecast(snapshot, experience, RUNS)
            for _ in forecast.steps():
                pass
            pipe.send(forecast.etas())
    except (EOFError, OSError):
        return
