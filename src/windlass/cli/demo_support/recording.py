"""Recording what the embedded cluster does, for `windlass simulate` and `windlass demo`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from windlass.model.errors import InputError

if TYPE_CHECKING:
    from windlass.cli.demo_support.dashboard import SimulationDashboard
    from windlass.sim.run import Simulation

PATIENCE_S = 600.0
"""A simulation outruns its record; at its end the rest is written."""

option = click.option("--record", metavar="FILE", help="Record every cycle, for `windlass replay`.")


@contextmanager
def recording(
    file: str | None, simulation: Simulation, dashboard: SimulationDashboard | None = None
) -> Generator[None, None, None]:
    """Record a simulation into a new file, if one is named; a dashboard can look back in it."""
    if file is None:
        yield
        return
    from windlass.daemon.serving.replay_reader import ReplayReader
    from windlass.history.recorder import Recorder
    from windlass.history.store import HistoryStore, Keep
    from windlass.history.writer import HistoryWriter

    if os.path.exists(file):
        raise InputError(file, None, "it is there already; give another name, or delete it")
    store = HistoryStore(file)
    store.prepare()
    writer = HistoryWriter(store, "embedded", Keep(), _say)
    simulation.note = Recorder(writer).note
    if dashboard is not None:
        dashboard.board.recorded = ReplayReader(store)
    try:
        yield
    finally:
        writer.close(PATIENCE_S)
        _say(f"Recorded {writer.written:,} cycles in {file}.")


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)
