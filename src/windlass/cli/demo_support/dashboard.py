"""A simulation on the dashboard: every cycle is noted, and shown when a frame is due."""

from __future__ import annotations

import heapq
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from windlass.cli.demo_support.background_eta import BackgroundEta
    from windlass.forecast.eta import StartEta
    from windlass.model.jobs import GangId
    from windlass.sim.run import Simulation
    from windlass.web.schema import FinishedJob

MOST_FINISHED = 200
"""The number of finished jobs that are shown; a long simulation has many more."""


class SimulationDashboard:
    """A simulation and the live state that the web server shows of it."""

    def __init__(self, expected: BackgroundEta | None = None) -> None:
        from windlass.cli.render.preemption_preview import room_clauses
        from windlass.web.documents import LiveState

        self.board = LiveState(f"{time.time_ns():x}", played=True, tell_room=room_clauses)
        self.address = ""
        self._expected = expected
        self._shown: tuple[int, object] = (0, None)
        """The cycle and the ETAs that are shown now."""

    def step(self, simulation: Simulation) -> None:
        """Simulate one cycle. The lock keeps readers from seeing a half-changed cluster."""
        with self.board.lock:
            simulation.step()
        self.note(simulation)

    def note(self, simulation: Simulation) -> None:
        """Note the plan of a cycle, and learn run times from it."""
        self.board.note(simulation.cluster, simulation.plan)
        if self._expected:
            self._expected.observe(simulation.cluster)

    def show(self, simulation: Simulation) -> None:
        """Show the present cluster, unless it is shown already; request ETAs if a page is open."""
        from windlass.web.feed import ViewExtras, bounded_etas

        if self._expected and self.board.change_signal.is_heard:
            self._expected.update(simulation.cluster)
        etas: Mapping[GangId, StartEta] = self._expected.etas if self._expected else {}
        if self._shown == (simulation.cycles, etas):
            return
        self._shown = (simulation.cycles, etas)
        moment = simulation.moment()
        now = simulation.cluster.now
        beside = ViewExtras(
            away=moment.away,
            finished=_finished(simulation),
            etas={gang: eta for gang, eta in bounded_etas(etas).items() if eta.late >= now},
        )
        self.board.show(moment.cluster, moment.plan, beside)


def served_if_wanted(
    port: int | None, live: bool
) -> AbstractContextManager[SimulationDashboard | None]:
    """Return a context that serves the dashboard, or one that holds None.

    It is served if a port was named, or beside the live view if the page was built.
    """
    from windlass.web.server import STATIC

    is_served = port is not None or (live and (STATIC / "index.html").is_file())
    return _served(port) if is_served else nullcontext()


@contextmanager
def _served(port: int | None) -> Generator[SimulationDashboard, None, None]:
    from windlass.cli.demo_support.background_eta import BackgroundEta
    from windlass.web.server import run_local_server

    expected = BackgroundEta()
    dashboard = SimulationDashboard(expected)
    with closing(expected), run_local_server(dashboard.board, port) as address:
        dashboard.address = address
        yield dashboard


def _finished(simulation: Simulation) -> list[FinishedJob]:
    """Return the latest finished jobs, the newest first."""
    from windlass.web.schema import FinishedJob

    ended = (record for record in simulation.records.values() if record.ended is not None)
    latest = heapq.nlargest(MOST_FINISHED, ended, key=lambda record: (record.ended, record.gang.id))
    return [FinishedJob.of(record.gang, record.started, record.ended or 0) for record in latest]
