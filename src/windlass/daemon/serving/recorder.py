"""Record the decisions of one term in the history; a thread of its own writes them."""

from __future__ import annotations

import asyncio

from windlass.config import Config
from windlass.daemon.serving.log import StructuredLog
from windlass.engine.plan import Plan
from windlass.history.recorder import Recorder
from windlass.history.store import HistoryStore, Keep
from windlass.history.writer import HistoryWriter
from windlass.metrics import Metrics
from windlass.state.cluster import Cluster

PATIENCE_S = 2.0
"""Seconds that the last cycles may take to be written when a term ends."""


class TermRecorder:
    """The recorder of one term."""

    def __init__(self, config: Config, name: str, metrics: Metrics, log: StructuredLog) -> None:
        history = config.history
        keep = Keep(history.keep_mib * 2**20, history.keep_hours * 3600)
        self._metrics, self._counted = metrics, 0
        self._writer = HistoryWriter(
            HistoryStore(history.url),
            name,
            keep,
            lambda why: log.line("history", level="warning", why=why),
        )
        self._recorder = Recorder(self._writer)

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """Record a plan; the cluster must be in the state for which it was made.

        So it must be called before the plan is assumed. Cycles that were lost, because the writer
        could not keep up, are counted in the metrics.
        """
        self._recorder.note(cluster, plan)
        lost = self._writer.lost
        self._metrics.history_lost.inc(lost - self._counted)
        self._counted = lost

    async def close(self) -> None:
        """End the recording; wait up to `PATIENCE_S` for the writer."""
        await asyncio.to_thread(self._writer.close, PATIENCE_S)


def check(config: Config) -> None:
    """Raise an error at start-up if the URL of the history cannot be used."""
    if config.history.url:
        HistoryStore(config.history.url)
