"""What was displaced is told: in tables, in the live view, as JSON; and the week that shows it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.given import ask, job, node
from tests.support.small_workloads import arrives, play, work
from windlass.cli import main
from windlass.cli.live_view.view import draw_notes
from windlass.cli.render.simulation_report import displaced, full
from windlass.model.actions import EvictionRule
from windlass.model.jobs import GangId, JobId
from windlass.sim.generate.week import generate
from windlass.sim.records import RunNote, What
from windlass.sim.report import Report, offered_milli_seconds, report
from windlass.sim.run import Simulation, SimulationMoment

DAY = 24 * 3600


@pytest.fixture(name="played", scope="module")
def played_fixture() -> Simulation:
    """`low` makes room for `high`, of the same queue, after an hour of unsaved work."""
    low, high = job("low", 1, ask(gpus=1)), job("high", 1, ask(gpus=1), priority=1)
    low_, high_ = arrives(low, runs=9000), arrives(high, at=3605, runs=60)
    simulation = Simulation(work(node("n", gpus=1), low_, high_))
    simulation.run(until=3610)
    return simulation


@pytest.fixture(name="told", scope="module")
def told_fixture(played: Simulation) -> Report:
    return report(played, "windlass")


def test_the_report_tells_what_making_room_has_cost(told: Report):
    assert (told.displaced.tasks_evicted, told.displaced.gpu_hours_lost) == (1, 1.0)
    text = full(1.0, [told])
    assert "lost by making room for others" in text
    assert max(len(line) for line in text.splitlines()) <= 84


def test_a_table_tells_which_queue_made_room(told: Report):
    last = displaced(told).splitlines()[-1]
    assert last.split() == ["team", "1", "1", "–", "1.0"]


def test_where_nobody_made_room_there_is_no_table(told: Report):
    nothing = replace(told.displaced, tasks_evicted=0, tasks_moved=0)
    assert displaced(replace(told, displaced=nothing)) == ""


def test_the_live_view_says_for_whom_and_by_which_rule(played: Simulation):
    lines = [line.plain for line in draw_notes(played.moment(), 20)]
    said = "low evicted: 1 task on n, preempted by high, which has a higher priority"
    assert any(said in line for line in lines)


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
        (What.EVICTED, EvictionRule.STALE, "given back: for too long below the minimum"),
        (What.EVICTED, EvictionRule.LEAVING, "to start elsewhere: a node of it leaves"),
        (What.EVICTED, EvictionRule.LOST, "to start elsewhere: a node of it is lost"),
        (What.EVICTED, EvictionRule.OVERRUN, "it has run for as long as it may"),
        (What.MOVED, EvictionRule.CONSOLIDATE, "moves 2 tasks to n, so that g fits"),
    ],
)
def test_every_rule_has_its_sentence(
    played: Simulation, what: What, rule: EvictionRule, sentence: str
):
    note = RunNote(0, what, GangId("a"), JobId("a"), "team", 2, ("n",), rule, GangId("g"))
    moment: SimulationMoment = replace(played.moment(), notes=(note,))
    assert sentence in draw_notes(moment, 5)[1].plain


def test_notes_of_different_rules_do_not_share_a_line(played: Simulation):
    one = RunNote(0, What.EVICTED, GangId("a"), JobId("a"), "team", 1, ("n",), EvictionRule.SHARE)
    notes = (one, replace(one, rule=EvictionRule.STALE))
    assert len(draw_notes(replace(played.moment(), notes=notes), 5)) == 3


def test_people_submit_less_on_the_weekend():
    week = generate(1, hours=7 * 24)
    runs = [0] * 7
    for each in week.arrivals:
        if each.runs_s is not None:
            runs[each.at // DAY] += len(each.tasks) * each.runs_s
    assert max(runs[5:]) < min(runs[1:5])
    offered = offered_milli_seconds(week, 7 * DAY)
    assert offered < 0.9 * 7 * DAY * 1000 * sum(len(each.gpus) for each in week.nodes)


def test_a_week_begins_with_the_day_of_the_same_seed():
    def before_noon(hours: int) -> list[str]:
        arrivals = generate(4, hours).arrivals
        return [each.gang.id for each in arrivals if "train" in each.gang.job and each.at < DAY]

    assert before_noon(24) == before_noon(7 * 24)


def test_some_training_saves_its_work_and_some_does_not():
    training = [each for each in generate(1).arrivals if "training" in each.gang.job]
    saves = [each.saves_every_s for each in training]
    assert None in saves
    assert {each for each in saves if each} <= set(range(300, 1801, 300))
    assert 0.4 < sum(each is not None for each in saves) / len(saves) < 0.8


def test_simulate_stops_when_told_to(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(("simulate", "week", "--nodes", "3", "--until", "90m", "--json"))
    found = json.loads(capsys.readouterr().out)["windlass"]
    assert found["window_seconds"] == 5400


def test_simulate_refuses_a_time_that_is_none(capsys: pytest.CaptureFixture[str]):
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
    told = full(1.0, [report(simulation, "windlass")])
    rows = {line[:40].strip(): line[40:].strip() for line in told.splitlines()}
    gangs = ("gangs finished", "running at the end", "waiting at the end", "deleted by their users")
    assert [rows[each] for each in gangs] == ["1", "0", "1", "1"]
