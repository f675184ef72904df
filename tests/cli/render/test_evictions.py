"""Evictions in the report of a simulation and in the live view; generated weeks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.given import ask, job, node
from tests.support.small_workloads import arrives, play, work
from windlass.cli import main
from windlass.cli.live_view.view import draw_notes
from windlass.cli.render.simulation_report import eviction_table, full_report
from windlass.model.actions import EvictionRule
from windlass.model.jobs import GangId, JobId
from windlass.sim.generate.week import generate
from windlass.sim.records import RunNote, What
from windlass.sim.report import Report, offered_milli_seconds, report
from windlass.sim.run import Simulation, SimulationMoment

DAY = 24 * 3600


@pytest.fixture(name="played", scope="module")
def played_fixture() -> Simulation:
    """Return a simulation in which `high` preempts `low` after an hour of unsaved work."""
    low, high = job("low", 1, ask(gpus=1)), job("high", 1, ask(gpus=1), priority=1)
    low_, high_ = arrives(low, runs=9000), arrives(high, at=3605, runs=60)
    simulation = Simulation(work(node("n", gpus=1), low_, high_))
    simulation.run(until=3610)
    return simulation


@pytest.fixture(name="outcome", scope="module")
def outcome_fixture(played: Simulation) -> Report:
    return report(played, "windlass")


def test_the_report_has_the_cost_of_evictions(outcome: Report):
    assert (outcome.displaced.tasks_evicted, outcome.displaced.gpu_hours_lost) == (1, 1.0)
    text = full_report(1.0, [outcome])
    assert "lost to evictions for others" in text
    assert max(len(line) for line in text.splitlines()) <= 84


def test_evictions_are_listed_by_queue(outcome: Report):
    last = eviction_table(outcome).splitlines()[-1]
    assert last.split() == ["team", "1", "1", "–", "1.0"]


def test_there_is_no_eviction_table_without_evictions(outcome: Report):
    nothing = replace(outcome.displaced, tasks_evicted=0, tasks_moved=0)
    assert eviction_table(replace(outcome, displaced=nothing)) == ""


def test_the_live_view_names_the_preemptor_and_the_rule(played: Simulation):
    lines = [line.plain for line in draw_notes(played.moment(), 20)]
    note = "low evicted: 1 task on n, preempted by high, which has a higher priority"
    assert any(note in line for line in lines)


@pytest.mark.parametrize(
    ("what", "rule", "sentence"),
    [
        (
            What.EVICTED,
            EvictionRule.GUARANTEE,
            "evicted: 2 tasks on n, reclaimed for g, which is within",
        ),
        (What.EVICTED, EvictionRule.SHARE, "reclaimed for g, whose queue has less of its share"),
        (What.EVICTED, EvictionRule.PRIORITY, "preempted by g, which has a higher priority"),
        (What.EVICTED, EvictionRule.STALE, "because it was below its minimum for too long"),
        (What.EVICTED, EvictionRule.LEAVING, "to start elsewhere: one of its nodes is going away"),
        (What.EVICTED, EvictionRule.LOST, "to start elsewhere: one of its nodes is lost"),
        (What.EVICTED, EvictionRule.OVERRUN, "because it reached its maximum run time"),
        (What.MOVED, EvictionRule.CONSOLIDATE, "moves 2 tasks to n, so that g fits"),
    ],
)
def test_every_eviction_rule_has_a_text(
    played: Simulation, what: What, rule: EvictionRule, sentence: str
):
    note = RunNote(0, what, GangId("a"), JobId("a"), "team", 2, ("n",), rule, GangId("g"))
    moment: SimulationMoment = replace(played.moment(), notes=(note,))
    assert sentence in draw_notes(moment, 5)[1].plain


def test_notes_of_different_rules_are_on_different_lines(played: Simulation):
    one = RunNote(0, What.EVICTED, GangId("a"), JobId("a"), "team", 1, ("n",), EvictionRule.SHARE)
    notes = (one, replace(one, rule=EvictionRule.STALE))
    assert len(draw_notes(replace(played.moment(), notes=notes), 5)) == 3


def test_less_work_is_submitted_on_the_weekend():
    week = generate(1, hours=7 * 24)
    runs = [0] * 7
    for arrival in week.arrivals:
        if arrival.runs_s is not None:
            runs[arrival.at // DAY] += len(arrival.tasks) * arrival.runs_s
    assert max(runs[5:]) < min(runs[1:5])
    offered = offered_milli_seconds(week, 7 * DAY)
    assert offered < 0.9 * 7 * DAY * 1000 * sum(len(node.gpus) for node in week.nodes)


def test_a_week_begins_with_the_day_of_the_same_seed():
    def before_noon(hours: int) -> list[str]:
        arrivals = generate(4, hours).arrivals
        training = [arrival for arrival in arrivals if "train" in arrival.gang.job]
        return [arrival.gang.id for arrival in training if arrival.at < DAY]

    assert before_noon(24) == before_noon(7 * 24)


def test_some_training_gangs_write_checkpoints_and_some_do_not():
    training = [arrival for arrival in generate(1).arrivals if "training" in arrival.gang.job]
    saves = [arrival.saves_every_s for arrival in training]
    assert None in saves
    assert {interval for interval in saves if interval} <= set(range(300, 1801, 300))
    assert 0.4 < sum(interval is not None for interval in saves) / len(saves) < 0.8


def test_simulate_stops_at_the_time_of_until(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(("simulate", "week", "--nodes", "3", "--until", "90m", "--json"))
    result = json.loads(capsys.readouterr().out)["windlass"]
    assert result["window_seconds"] == 5400


def test_simulate_refuses_a_text_that_is_not_a_time(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(("simulate", "day", "--until", "soon"))
    assert left.value.code == 2
    assert "--until: soon is not understood" in capsys.readouterr().err


def test_every_gang_that_was_submitted_is_counted_in_one_row():
    kept, dropped = job("kept", 1, ask(gpus=1)), job("dropped", 1, ask(gpus=1))
    waits = job("waits", 1, ask(gpus=2))
    simulation = play(
        node("n", gpus=1), arrives(kept, runs=50), arrives(dropped, deleted_at=30), arrives(waits)
    )
    text = full_report(1.0, [report(simulation, "windlass")])
    rows = {line[:40].strip(): line[40:].strip() for line in text.splitlines()}
    gangs = ("gangs finished", "running at the end", "waiting at the end", "deleted by their users")
    assert [rows[label] for label in gangs] == ["1", "0", "1", "1"]
