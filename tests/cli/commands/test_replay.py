"""`windlass replay`: recorded cycles decided again, and recorded work under another policy."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support import recordings
from tests.support.recordings import HOUR, work
from windlass.cli import windlass
from windlass.cli.options import format_time
from windlass.history.recorder import Lengths
from windlass.history.store import HistoryStore, Stretch
from windlass.model.errors import WindlassError
from windlass.model.settings import Packing
from windlass.sim.comparison import ComparisonVerdict, versus
from windlass.sim.from_recording import Step
from windlass.sim.from_recording import recorded as workload_of
from windlass.sim.metrics import QueueTally
from windlass.sim.run import Simulation

SEEDS = range(20) if os.environ.get("WINDLASS_PROOF") == "1" else (308, 7)


def replay(*words: str) -> Result:
    return CliRunner().invoke(windlass, ["replay", *words])


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = str(tmp_path_factory.mktemp("day") / "h")
    recordings.recorded(where, work(), lengths=Lengths(seconds=HOUR))
    return where


def steps(store: HistoryStore, stretches: list[Stretch]) -> Iterator[Step]:
    for index, stretch in enumerate(stretches):
        for at, cycle in enumerate(store.cycles(stretch)):
            yield from cycle.heard if index or at else ()
            yield cycle.actions


# --- decided again ---


def test_a_record_decided_again_gives_the_same_plans(day: str):
    answer = replay(day)
    assert answer.exit_code == 0, answer.output
    assert "every plan is the same as recorded." in answer.output
    found = json.loads(replay(day, "--json").output)
    assert found["cycles"] == found["same"] == sum(e.cycles for e in HistoryStore(day).stretches())


def test_only_the_requested_time_is_replayed(day: str):
    whole = json.loads(replay(day, "--json").output)["cycles"]
    part = json.loads(replay(day, "--from", "2h", "--to", "4h", "--json").output)["cycles"]
    assert 0 < part < whole
    assert replay(day, "--from", "1000h").exception.__class__.__mro__[1] is WindlassError


def test_a_plan_that_differs_from_the_record_is_found(day: str, tmp_path: Path):
    where = tmp_path / "h"
    with sqlite3.connect(day) as source, sqlite3.connect(where) as copy:
        source.backup(copy)
        first = copy.execute("SELECT number, body FROM windlass_cycles WHERE binds > 0").fetchone()
        other = copy.execute(
            "SELECT body FROM windlass_cycles WHERE number = ?", (first[0] + 1,)
        ).fetchone()
        copy.execute("UPDATE windlass_cycles SET body = ? WHERE number = ?", (other[0], first[0]))
    source.close()
    copy.close()
    answer = replay(str(where))
    assert answer.exit_code == 1
    assert f"The first is cycle {first[0]}" in answer.output
    assert "the actions differ" in answer.output


def test_the_stretches_of_a_record_are_listed(day: str):
    answer = replay(day, "--list").output
    assert len(answer.splitlines()) == len(HistoryStore(day).stretches()) + 1


def test_times_are_given_as_the_list_prints_them(day: str):
    rows = [line.split() for line in replay(day, "--list").output.splitlines()[1:]]
    began, until, cycles = rows[2][:3]
    answer = replay(day, "--from", began, "--to", until).output
    assert answer.startswith(f"{cycles} cycles from {began} to {until}: every plan is the same")


def test_the_outcome_ends_with_the_last_replayed_cycle(day: str):
    store = HistoryStore(day, new=False)
    cycles = [each for one in store.stretches() for each in store.cycles(one) if each.at <= 5400]
    answer = replay(day, "--to", "90m").output
    assert answer.startswith(f"{len(cycles)} cycles from ")
    assert f" to {format_time(cycles[-1].at)}: every plan" in answer


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--list", "--with", "x"), "--list only lists; leave out --with and --policy, or"),
        (("--list", "--policy", "x"), "--list only lists; leave out --with and --policy, or"),
        (("--from", "3h", "--to", "2h"), "--from is 3h, after --to, which is 2h."),
    ],
)
def test_contradicting_options_are_refused(day: str, words: tuple[str, ...], complaint: str):
    answer = replay(day, *words)
    assert (answer.exit_code, complaint in answer.output) == (2, True), answer.output


def test_a_record_of_an_older_version_is_read(day: str, tmp_path: Path):
    where = tmp_path / "h"
    with sqlite3.connect(day) as source, sqlite3.connect(where) as copy:
        source.backup(copy)
        copy.execute("ALTER TABLE windlass_stretches DROP COLUMN lost")
        copy.execute("UPDATE windlass_history SET version = 1")
    source.close()
    copy.close()
    assert replay(str(where), "--list").output == replay(day, "--list").output


# --- the recorded work ---


@pytest.mark.parametrize("seed", SEEDS)
def test_recorded_work_simulated_without_a_change_repeats_the_record(seed: int, tmp_path: Path):
    """Gangs that fail, are evicted or moved, or write checkpoints start and end as recorded."""
    where = str(tmp_path / "h")
    real, _, _ = recordings.recorded(where, work(seed, hours=10, nodes=3))
    store = HistoryStore(where)
    found = workload_of(store.start((s := store.stretches())[0]).snapshot, steps(store, s))
    played = Simulation(found.workload)
    played.run()
    expected = {gang: (each.started, each.ended) for gang, each in real.records.items()}
    shift = found.began
    assert {
        gang: (_plus(each.started, shift), _plus(each.ended, shift))
        for gang, each in played.records.items()
    } == expected
    ends = [each.ended for each in real.records.values()]
    assert found.unfinished == ends.count(None)


def test_a_record_that_begins_in_the_middle_keeps_running_tasks_in_place(day: str):
    store = HistoryStore(day)
    stretches = store.stretches()[-2:]
    start = store.start(stretches[0]).snapshot
    assert any(each.node for each in start.tasks)
    found = workload_of(start, steps(store, stretches))
    played = Simulation(found.workload)
    played.step()
    nodes = {task.id: task.node for task in start.tasks if task.node}
    assert {t.id: t.node for t in played.cluster.tasks.values() if t.id in nodes} == nodes
    played.run()
    real = Simulation(work())
    real.run()
    late = [gang for gang in played.records if real.records[gang].submitted >= start.now]
    assert len(late) > 5
    assert {gang: _plus(played.records[gang].started, found.began) for gang in late} == {
        gang: real.records[gang].started for gang in late
    }


def _plus(at: int | None, shift: int) -> int | None:
    return None if at is None else at + shift


# --- comparisons ---


def test_a_workload_compared_with_itself_has_no_differences():
    one, two = Simulation(work()), Simulation(work())
    one.run()
    two.run()
    found = versus(one, two)
    parts = (found.whole, *found.queues, *found.sizes, *found.kinds)
    assert {each.verdict for each in parts} == {ComparisonVerdict.SAME}
    assert found.gangs == ()


def test_the_gpu_time_of_all_gangs_is_that_of_the_meter():
    played = Simulation(work())
    played.run()
    past: list[QueueTally] = list(played.meter.past.values())
    played.world.pause_all()
    worked = sum(each.worked for each in played.records.values())
    assert worked == sum(each.useful for each in past)


def test_a_changed_policy_shows_the_queues_that_win_or_lose(day: str, tmp_path: Path):
    change = tmp_path / "change.yaml"
    change.write_text("settings: {displacing: []}\n")
    answer = replay(day, "--with", str(change))
    assert answer.exit_code == 0, answer.output
    assert "had not ended by then" in answer.output
    found = json.loads(replay(day, "--with", str(change), "--json").output)
    assert {each["verdict"] for each in found["queues"]} & {"loses", "wins", "mixed"}
    assert found["all"]["after"]["stops"] == 0 < found["all"]["before"]["stops"]
    waits = [_difference(each) for each in found["gangs"]]
    assert waits == sorted(waits, reverse=True), "the biggest differences come first"
    assert found["gangs"][0]["name"] in answer.output


def _difference(part: dict[str, Any]) -> int:
    return abs(part["after"]["waited_seconds"] - part["before"]["waited_seconds"])


def test_a_policy_can_be_given_as_a_manifest(day: str, tmp_path: Path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: windlass.dev/v1alpha1\nkind: Policy\nmetadata: {name: default}\n"
        "spec: {displacing: []}\n"
    )
    change = tmp_path / "change.yaml"
    change.write_text("settings: {displacing: []}\n")
    part = (day, "--to", "3h")
    assert (
        replay(*part, "--policy", str(policy)).output == replay(*part, "--with", str(change)).output
    )
    policy.write_text("kind: Pod\n")
    refused = replay(day, "--policy", str(policy))
    assert "give a Policy or Queues" in str(refused.exception)


def test_another_packing_gives_other_plans():
    """The check that plans are the same can fail: another setting does change them."""
    usual = Simulation(work())
    other = Simulation(replace(work(), settings=replace(work().settings, nodes=Packing.SPREAD)))
    usual.run()
    other.run()
    assert versus(usual, other).gangs


# --- recording ---


def test_a_simulation_is_not_recorded_into_an_existing_file(tmp_path: Path):
    file = tmp_path / "h"
    words = ["simulate", "day", "--hours", "1", "--nodes", "2", "--record", str(file)]
    assert CliRunner().invoke(windlass, words).exit_code == 0
    assert replay(str(file)).exit_code == 0
    again = CliRunner().invoke(windlass, words)
    assert "it exists already" in str(again.exception)
