"""The week that shows what displacing costs: who is asked in it, and how it is told."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from windlass.cli import main
from windlass.sim.generate.job_mix import SAVES_WITHIN_S, URGENT
from windlass.sim.generate.week import generate
from windlass_lab.trials.restart_cost import MIX, deaf


def test_the_week_has_the_shares_that_it_states():
    training = [e for e in generate(1, 7 * 24, mix=MIX).arrivals if "training" in e.gang.job]
    asked = [each for each in training if each.gang.saves_within_s is not None]
    assert abs(100 * len(asked) / len(training) - MIX.asked_percent) < 8
    assert {each.gang.saves_within_s for each in asked} == {SAVES_WITHIN_S}
    assert all(10 <= (each.saving_s or 0) <= SAVES_WITHIN_S for each in asked)
    small = [each for each in training if len(each.tasks) == 1]
    ranks = Counter(each.gang.priority for each in small)
    assert 5 < 100 * ranks[URGENT] / len(small) < 25
    assert max(each.gang.priority for each in generate(1).arrivals) == 0


def test_who_deletes_at_once_asks_nobody_and_else_plays_the_same_week():
    week = generate(1, 12, mix=MIX)
    assert {each.gang.saves_within_s for each in deaf(week).arrivals} == {None}
    assert [each.tasks for each in deaf(week).arrivals] == [each.tasks for each in week.arrivals]


def test_bench_harm_prints_every_way_beside_the_others(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(("bench", "harm", "--seeds", "1", "--hours", "2", "--nodes", "2", "--json"))
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"least-harm", "youngest", "lowest-priority"}
    assert {"gpu_hours_lost", "ratio", "urgent_wait_seconds"} <= set(found["youngest"])
