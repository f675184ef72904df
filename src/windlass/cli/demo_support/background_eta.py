"""ETAs for a simulation: one forecast at a time, in a process of its own, while a page is open.

The simulation observes run times, sends a copy of its cluster to that process and takes the answer
when it is there; it never waits for it. A simulated day runs ahead of its forecasts, so a forecast
has only a few runs, and an ETA is shown until its band has passed. A gang that waits for long
therefore has one.
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
"""The most waiting gangs for which a forecast is made; with more it would be old when done."""
NICENESS = 10


class BackgroundEta:
    """The latest ETAs of the waiting gangs of a simulation, and the process that forecasts them."""

    def __init__(self) -> None:
        self.etas: Mapping[GangId, StartEta] = {}
        """The ETAs of the last forecast; replaced as a whole, never changed."""
        self._experience = Experience()
        self._process: SpawnProcess | None = None
        # Set together with _process, and not reset when the process is closed.
        self._pipe: Connection[Any, Any] | None = None
        self._asked_at: float | None = None
        """The time (monotonic) of the request that is under way; None if there is none."""
        self._rests_until = 0.0
        """The earliest time of the next request: it rests as long as the last forecast took."""

    def observe(self, cluster: Cluster) -> None:
        """Observe the run times in a cluster after a cycle."""
        self._experience.look(cluster)

    def update(self, cluster: Cluster) -> None:
        """Take an answer that has come, and request the next forecast if it is time for it.

        After a failure of the process no further forecast is made: nothing depends on it.
        """
        try:
            self._take()
            waiting = sum(len(gangs) for gangs in cluster.waiting.values())
            if self._asked_at is None and 0 < waiting <= MOST_WAITING:
                self._send(cluster)
        except (OSError, EOFError):  # the process has gone
            self.close()
            self._rests_until = float("inf")

    def close(self) -> None:
        """Terminate the process, if it was started, and wait for its end."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._process = None

    def _take(self) -> None:
        """Replace the ETAs if an answer has come."""
        if self._asked_at is None or self._pipe is None or not self._pipe.poll():
            return
        self.etas = self._pipe.recv()
        took = time.monotonic() - self._asked_at
        self._asked_at, self._rests_until = None, time.monotonic() + took

    def _send(self, cluster: Cluster) -> None:
        """Send a copy of the cluster to the process, which is started if need be."""
        if time.monotonic() < self._rests_until:
            return
        if self._process is None:
            self._pipe, other_end = Pipe()
            self._process = SpawnProcess(target=_serve, args=(other_end,), daemon=True)
            self._process.start()
            other_end.close()
        assert self._pipe is not None
        self._pipe.send((cluster.snapshot(), self._experience))
        self._asked_at = time.monotonic()


def _serve(pipe: Connection[Any, Any]) -> None:
    """Answer requests for forecasts until the other end of the pipe is closed.

    This is the main function of the process.
    """
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
