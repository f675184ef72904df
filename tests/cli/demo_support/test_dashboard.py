"""`windlass demo` shows its simulated cluster on the dashboard."""

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


def test_the_address_is_printed_if_a_port_is_named():
    result = CliRunner().invoke(command, ["--nodes", "2", "--port", "0", "--for", "0"])
    assert result.exit_code == 0
    assert "Dashboard: http://127.0.0.1:" in result.output


def test_no_dashboard_is_served_without_a_terminal_and_port():
    result = CliRunner().invoke(command, ["--nodes", "2", "--for", "0"])
    assert result.exit_code == 0
    assert "Dashboard" not in result.output


def test_without_a_port_the_dashboard_needs_a_terminal():
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
    pages = dashboard.board.documents
    answer = pages.jobs(ListWindow()) if name == "jobs" else pages.answer(name)
    assert answer is not None
    return json.loads(answer.body)


def test_every_cycle_is_noted(played: tuple[Simulation, SimulationDashboard]):
    simulation, dashboard = played
    assert dashboard.board.cycles()[-1].cycle == simulation.cycles


def test_finished_jobs_are_listed_the_newest_first(
    played: tuple[Simulation, SimulationDashboard],
):
    simulation, dashboard = played
    ended = [finished["ended"] for finished in shown(dashboard, "jobs")["finished"]]
    stages = [record.stage for record in simulation.records.values()]
    done = stages.count(GangStage.FINISHED) + stages.count(GangStage.DELETED)
    assert ended == sorted(ended, reverse=True)
    assert len(ended) == min(done, 200) > 0


def test_every_allocated_gpu_is_on_the_map(played: tuple[Simulation, SimulationDashboard]):
    simulation, dashboard = played
    given = shown(dashboard, "cluster")["given"]
    ground = simulation.meter.ground
    milli = sum(m * count for m, count in zip(given["milli"], given["count"], strict=True))
    assert milli == ground.capacity - ground.free


def test_an_unchanged_cluster_is_not_published_again(
    played: tuple[Simulation, SimulationDashboard],
):
    simulation, dashboard = played
    before = dashboard.board.stamp
    dashboard.show(simulation)
    assert dashboard.board.stamp is before
