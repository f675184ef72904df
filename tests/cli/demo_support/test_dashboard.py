"""`windlass demo` puts the embedded cluster on the dashboard."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from windlass.cli.commands.demo import command
from windlass.cli.demo_support.dashboard import SimulationDashboard, served_if_wanted
from windlass.sim.generate.week import EXAMPLE_SEED, generate
from windlass.sim.records import GangStage
from windlass.sim.run import Simulation
from windlass.web.documents.jobs import ListWindow


def test_the_address_is_told_where_a_port_is_named():
    told = CliRunner().invoke(command, ["--nodes", "2", "--port", "0", "--for", "0"])
    assert told.exit_code == 0
    assert "Dashboard: http://127.0.0.1:" in told.output


def test_nothing_is_served_where_nobody_looks():
    told = CliRunner().invoke(command, ["--nodes", "2", "--for", "0"])
    assert told.exit_code == 0
    assert "Dashboard" not in told.output


def test_without_a_port_it_is_served_on_a_terminal_alone():
    with served_if_wanted(None, live=False) as dashboard:
        assert dashboard is None


@pytest.fixture(name="played", scope="module")
def played_fixture() -> tuple[Simulation, SimulationDashboard]:
    simulation, dashboard = Simulation(generate(EXAMPLE_SEED, 6, 4)), SimulationDashboard()
    while simulation.next_at() is not None and simulation.cluster.now < 4 * 3600:
        dashboard.step(simulation)
    dashboard.show(simulation)
    return simulation, dashboard


def shown(dashboard: SimulationDashboard, name: str) -> dict:
    pages = dashboard.board.pages
    answer = pages.jobs(ListWindow()) if name == "jobs" else pages.answer(name)
    assert answer is not None
    return json.loads(answer.body)


def test_every_cycle_is_remembered(played: tuple[Simulation, SimulationDashboard]):
    simulation, dashboard = played
    assert dashboard.board.cycles()[-1].cycle == simulation.cycles


def test_what_has_finished_is_told_the_latest_first(played: tuple[Simulation, SimulationDashboard]):
    simulation, dashboard = played
    ended = [each["ended"] for each in shown(dashboard, "jobs")["finished"]]
    stages = [each.stage for each in simulation.records.values()]
    done = stages.count(GangStage.FINISHED) + stages.count(GangStage.DELETED)
    assert ended == sorted(ended, reverse=True)
    assert len(ended) == min(done, 200) > 0


def test_every_gpu_that_is_given_is_on_the_map(played: tuple[Simulation, SimulationDashboard]):
    simulation, dashboard = played
    given = shown(dashboard, "cluster")["given"]
    ground = simulation.meter.ground
    milli = sum(m * count for m, count in zip(given["milli"], given["count"], strict=True))
    assert milli == ground.capacity - ground.free


def test_what_is_shown_already_is_not_shown_again(played: tuple[Simulation, SimulationDashboard]):
    simulation, dashboard = played
    before = dashboard.board.stamp
    dashboard.show(simulation)
    assert dashboard.board.stamp is before
