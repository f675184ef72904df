"""Impossible snapshots are refused in one sentence with its line; all others are planned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import given as make
from tests.support.inputs import assert_answered, plan_of, read_snapshot, small_snapshot
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.constraints import Constraints, Expression, Operator, Preference
from windlass.model.errors import InputError
from windlass.model.gpus import GpuRequest, Slice
from windlass.model.jobs import Domain, GangId, Shape, TaskId, TaskState
from windlass.model.resources import Request
from windlass.model.settings import Displacing, Settings
from windlass.model.validation.cluster import check
from windlass.model.validation.problems import InputProblem
from windlass.state.snapshot import BelowMinimum, Snapshot, from_json, to_json


def problems_of(**changes: Any) -> list[InputProblem]:
    return check(replace(small_snapshot(), **changes))


def changed_task(index: int, **changes: Any) -> list[InputProblem]:
    tasks = list(small_snapshot().tasks)
    tasks[index] = replace(tasks[index], **changes)
    return problems_of(tasks=tuple(tasks))


def asking(**gpu: Any) -> Shape:
    return Shape(Request(gpu=GpuRequest(**gpu)))


def test_a_sound_snapshot_has_no_problems() -> None:
    assert check(small_snapshot()) == []


@pytest.mark.parametrize(
    ("changes", "path", "sentence"),
    [
        ({"node": "gone"}, ("tasks", 0, "node"), 'running on node "gone", which does not exist'),
        ({"devices": (Slice(2, 1000),)}, ("tasks", 0, "devices", 0, "device"), "counted from 0"),
        ({"devices": (Slice(-1, 1000),)}, ("tasks", 0, "devices", 0, "device"), "counted from 0"),
        ({"devices": (Slice(0, 1001),)}, ("tasks", 0, "devices", 0, "milli"), "from 1 to 1,000"),
        ({"devices": (Slice(0, 0, "1g.10gb"),)}, ("tasks", 0, "devices", 0, "profile"), "not cut"),
        ({"gang": "none"}, ("tasks", 0, "gang"), "does not exist"),
        ({"group": "none"}, ("tasks", 0, "group"), 'has no group "none"'),
        ({"shape": asking(milli=0)}, ("tasks", 0, "shape", "request", "gpu", "milli"), "1,000"),
        ({"shape": asking(milli=1001)}, ("tasks", 0, "shape", "request", "gpu", "milli"), "1,000"),
        ({"shape": asking(milli=5, memory_mib=5)}, ("tasks", 0, "shape", "request", "gpu"), "once"),
        ({"shape": asking(count=0)}, ("tasks", 0, "shape", "request", "gpu", "count"), "from 1"),
        ({"shape": Shape(Request(-1))}, ("tasks", 0, "shape", "request", "cpu_milli"), "is -1"),
    ],
)  # fmt: skip
def test_an_impossible_task_is_a_problem(
    changes: dict[str, Any], path: tuple[str | int, ...], sentence: str
) -> None:
    found = changed_task(0, **changes)
    assert [problem.path for problem in found] == [path]
    assert sentence in found[0].sentence
    assert not found[0].passing


def test_an_instance_at_an_illegal_place_is_found() -> None:
    found = changed_task(1, devices=(Slice(0, 429, "3g.40gb", 1),))
    assert "at 1 of A100-80GB" in found[0].sentence


def test_a_profile_that_no_gpu_offers_is_found_with_those_offered() -> None:
    found = changed_task(2, shape=asking(profile="9g.90gb"))
    assert found[0].passing
    assert "A100-80GB offers 1g.10gb, 1g.10gb+me" in found[0].sentence


def test_a_condition_without_values_is_found() -> None:
    term = (Expression("zone", Operator.IN),)
    shape = Shape(Request(), Constraints(preferences=(Preference(0, term),)))
    assert len(changed_task(2, shape=shape)) == 2


@pytest.mark.parametrize(
    "settings",
    [
        Settings(half_life_s=0),
        Settings(epoch_s=0),
        Settings(reserve_after_s=-1),
        Settings(min_run_s=-1),
        Settings(dwell_s=-1),
        Settings(stale_after_s=-2),
        Settings(stuck_after_s=-1),
        Settings(search_steps=0),
        Settings(displacing=(Displacing.RECLAIM, Displacing.RECLAIM)),
    ],
)
def test_settings_out_of_bounds_are_found(settings: Settings) -> None:
    assert len(problems_of(settings=settings)) == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"displaces_after_s": -1}, "displaces_after_s"),
        ({"stale_after_s": -2}, "stale_after_s"),
        ({"saved_at": -1}, "saved_at"),
        ({"duration_s": 10**13}, "duration_s"),
    ],
)
def test_a_gang_out_of_bounds_is_found(changes: dict[str, Any], field: str) -> None:
    first, *others = small_snapshot().gangs
    found = problems_of(gangs=(replace(first, **changes), *others))
    assert [problem.path for problem in found] == [("gangs", 0, field)]


@pytest.mark.parametrize("milli", [0, 1001])
def test_a_gpu_that_is_charged_as_nothing_or_as_more_than_one_is_found(milli: int) -> None:
    first, *others = small_snapshot().nodes
    gpus = (replace(first.gpus[0], charged_milli=milli), *first.gpus[1:])
    found = problems_of(nodes=(replace(first, gpus=gpus), *others))
    assert [each.path for each in found] == [("nodes", 0, "gpus", 0, "charged_milli")]


def test_preemption_settings_out_of_bounds_are_problems() -> None:
    queues = (replace(small_snapshot().queues[0], min_run_s=-1),)
    assert [each.path for each in problems_of(queues=queues)] == [("queues", 0, "min_run_s")]
    leaving = changed_task(0, state=TaskState.RELEASING, releasing_since=-1)
    assert [each.path for each in leaving] == [("tasks", 0, "releasing_since")]
    broken = (BelowMinimum(GangId("runs"), -1),)
    assert [each.path for each in problems_of(broken=broken)] == [("broken", 0, "since")]


def test_a_firm_hold_may_outlive_the_task_it_was_made_for() -> None:
    claims = (PlaceClaim(TaskId("gone"), "n", (Slice(1, 1000),), make.ask(1)),)
    firm = Hold(GangId("waits"), claims, firm=True)
    assert problems_of(holds=(firm,)) == []
    assert len(problems_of(holds=(replace(firm, firm=False),))) == 1


def test_a_hold_for_an_impossible_request_is_found() -> None:
    claims = (PlaceClaim(TaskId("waits-0"), "n", (), Request(cpu_milli=-1)),)
    found = problems_of(holds=(Hold(GangId("waits"), claims),))
    assert [each.path for each in found] == [("holds", 0, "claims", 0, "request", "cpu_milli")]


def test_states_that_occur_in_a_live_cluster_are_marked_passing() -> None:
    gangs = tuple(replace(gang, queue="gone") for gang in small_snapshot().gangs)
    found = problems_of(gangs=gangs)
    assert len(found) == 3
    assert all(problem.passing for problem in found)


def test_a_cycle_of_queues_is_a_problem() -> None:
    ring = (make.queue("a", "b"), make.queue("b", "c"), make.queue("c", "a"))
    found = [each for each in problems_of(queues=ring) if each.path[-1] == "parent"]
    assert len(found) == 3
    assert "a < b < c < a" in found[0].sentence


def test_a_tree_of_queues_that_is_too_deep_is_found() -> None:
    chain = tuple(make.queue(f"q{i}", f"q{i - 1}" if i else "") for i in range(40))
    found = [each for each in problems_of(queues=chain) if each.path[-1] == "parent"]
    assert len(found) == 8
    assert found[0].path == ("queues", 32, "parent")


def passing_states() -> dict[str, Snapshot]:
    """Snapshots that a live cluster may show for a moment."""
    base = small_snapshot()
    parent = make.queue("company", gpus=1)
    greedy = make.queue("team", "company", gpus=9, limit_gpus=2, lend_gpus=99)
    lost = Domain("lost", "rack")
    return {
        "no queues": replace(base, queues=()),
        "a lost parent": replace(base, queues=(make.queue("team", "gone", gpus=1),)),
        "an inner queue": replace(base, queues=(*base.queues, make.queue("below", "team"))),
        "guarantees that do not add up": replace(base, queues=(parent, greedy)),
        "no topology": replace(base, gangs=tuple(replace(g, domain=lost) for g in base.gangs)),
        "tasks still to come": replace(
            base, gangs=tuple(replace(g, minimum=9) for g in base.gangs)
        ),
        "a lost profile": replace(
            base, tasks=tuple(replace(t, shape=asking(profile="9g")) for t in base.tasks)
        ),
    }


@pytest.mark.parametrize("name", passing_states())
def test_states_that_occur_in_a_live_cluster_are_planned(tmp_path: Path, name: str) -> None:
    snapshot = read_snapshot(tmp_path, to_json(passing_states()[name]))
    decisions = plan_of(snapshot).decisions
    assert [each.gang for each in decisions if each.reasons] == ["waits"]


def test_a_snapshot_problem_has_its_line(tmp_path: Path) -> None:
    data = to_json(small_snapshot()).replace(b'"node": "m"', b'"node": "x"')
    with pytest.raises(InputError) as caught:
        read_snapshot(tmp_path, data)
    line = data.decode().splitlines()[(caught.value.line or 0) - 1]
    assert '"node": "x"' in line


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b'"now": 0', b'"now": "late"', "expected int, got str at now"),
        (b'"now": 0', b'"now": 1e30', "this is not a snapshot"),
        (b'"now": 0', b'"now": NaN', "this is not a snapshot"),
        (b'"milli": 143', b'"milli": []', "tasks[1].devices[0].milli"),
        (b'"now": 0', b'"now": 99999999999999999999999999', "snapshot"),
    ],
)
def test_a_snapshot_that_cannot_be_decoded_has_its_line(
    tmp_path: Path, old: bytes, new: bytes, sentence: str
) -> None:
    data = to_json(small_snapshot())
    assert data.count(old) == 1
    with pytest.raises(InputError) as caught:
        read_snapshot(tmp_path, data.replace(old, new))
    assert new in data.replace(old, new).splitlines()[(caught.value.line or 0) - 1]
    assert sentence in str(caught.value)


def test_a_deeply_nested_snapshot_is_refused(tmp_path: Path) -> None:
    assert_answered(lambda: read_snapshot(tmp_path, b'{"nodes": ' + b"[" * 100_000))


def test_a_snapshot_survives_being_written_and_read() -> None:
    assert from_json(to_json(small_snapshot())) == small_snapshot()
