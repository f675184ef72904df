"""Recording a simulation into a history file, for `windlass simulate` and `windlass demo`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from windlass.cli.format import counted
from windlass.model.errors import InputError

if TYPE_CHECKING:
    from windlass.cli.demo_support.dashboard import SimulationDashboard
    from windlass.sim.run import Simulation

FLUSH_TIMEOUT_S = 600.0
"""The longest time to write the rest at the end: a simulation runs ahead of its recorder."""

option = click.option("--record", metavar="FILE", help="Record every cycle, for `windlass replay`.")


@contextmanager
def recording(
    file: str | None, simulation: Simulation, dashboard: SimulationDashboard | None = None
) -> Generator[None, None, None]:
    """Record a simulation into a new file, if one is named.

    A dashboard can then show its past. The file must not exist yet.
    """
    if file is None:
        yield
        return
    from windlass.daemon.serving import ReplayReader
    from windlass.history.recorder import Recorder
    from windlass.history.store import HistoryStore, Keep
    from windlass.history.writer import HistoryWriter

    if os.path.exists(file):
        raise InputError(file, None, "it exists already; give another name, or delete it")
    store = HistoryStore(file)
    store.prepare()
    writer = HistoryWriter(store, "embedded", Keep(), _print)
    simulation.note = Recorder(writer).note
    if dashboard is not None:
        dashboard.board.recorded = ReplayReader(store)
    try:
        yield
    finally:
        writer.close(FLUSH_TIMEOUT_S)
        _print(f"Recorded {counted(writer.written, 'cycle')} in {file}.")


def _print(text: str) -> None:
    click.echo(text, err=True)
