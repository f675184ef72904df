"""Puts a simulation on the dashboard: every cycle is noted, and shown when a frame is due."""

from __future__ import annotations

import heapq
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from windlass.cli.demo_support.background_eta import BackgroundEta
    from windlass.engine.plan import Plan
    from windlass.forecast.eta import StartEta
    from windlass.model.jobs import GangId
    from windlass.sim.run import Simulation
    from windlass.state.cluster import Cluster
    from windlass.web.schema.documents import FinishedJob

MOST_FINISHED = 200


class SimulationDashboard:
    """A simulation as the board sees it."""

    def __init__(self, expected: BackgroundEta | None = None) -> None:
        from windlass.web.feed.live_state import LiveState

        self.board = LiveState(f"{time.time_ns():x}", played=True, tell_room=tell_room)
        self.address = ""
        self._expected = expected
        self._shown: tuple[int, object] = (0, None)

    def step(self, simulation: Simulation) -> None:
        """Go on by one cycle, while nobody looks."""
        with self.board.lock:
            simulation.step()
        self.note(simulation)

    def note(self, simulation: Simulation) -> None:
        """A cycle is over."""
        self.board.note(simulation.cluster, simulation.plan)
        if self._expected:
            self._expected.learn(simulation.cluster)

    def show(self, simulation: Simulation) -> None:
        """Put up the present, unless it is up already."""
        from windlass.web.feed.view import Beside, ending

        if self._expected and self.board.bell.is_heard:
            self._expected.ask(simulation.cluster)
        etas: Mapping[GangId, StartEta] = self._expected.etas if self._expected else {}
        if self._shown == (simulation.cycles, etas):
            return
        self._shown = (simulation.cycles, etas)
        moment = simulation.moment()
        now = simulation.cluster.now
        beside = Beside(
            away=moment.away,
            finished=_finished(simulation),
            etas={gang: eta for gang, eta in ending(etas).items() if eta.late >= now},
        )
        self.board.show(moment.cluster, moment.plan, beside)


def served_if_wanted(
    port: int | None, live: bool
) -> AbstractContextManager[SimulationDashboard | None]:
    """The dashboard beside the terminal view, where the page was built; elsewhere if asked for."""
    from windlass.web.server.app import STATIC

    wanted = port is not None or (live and (STATIC / "index.html").is_file())
    return _served(port) if wanted else nullcontext()


@contextmanager
def _served(port: int | None) -> Generator[SimulationDashboard, None, None]:
    from windlass.cli.demo_support.background_eta import BackgroundEta
    from windlass.web.server.local_server import served

    expected = BackgroundEta()
    dashboard = SimulationDashboard(expected)
    with closing(expected), served(dashboard.board, port) as address:
        dashboard.address = address
        yield dashboard


def tell_room(cluster: Cluster, plan: Plan, gang: GangId) -> list[str]:
    """As `windlass explain` says it."""
    from windlass.cli.render.preemption_preview import freed_for, freed_told, would_told
    from windlass.engine.explain.preemption_preview import would

    if any(hold.gang == gang and hold.firm for hold in plan.holds):
        return list(freed_told(freed_for(cluster, plan, gang)))
    found = would(cluster, gang)
    return list(would_told(found, cluster.now)) if found else []


def _finished(simulation: Simulation) -> list[FinishedJob]:
    """The latest first."""
    from windlass.web.schema.documents import FinishedJob

    ended = (record for record in simulation.records.values() if record.ended is not None)
    latest = heapq.nlargest(MOST_FINISHED, ended, key=lambda each: (each.ended, each.gang.id))
    return [FinishedJob.of(each.gang, each.started, each.ended or 0) for each in latest]
