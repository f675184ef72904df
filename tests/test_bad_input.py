"""What cannot be used is refused in one sentence, with its line, and nothing else happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests import given as make
from windlass.cli.inputs import read_snapshot_file
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.actions import Claim, Hold
from windlass.model.check import check
from windlass.model.constraints import Constraints, Expression, Operator, Preference
from windlass.model.errors import InputError, NotFound
from windlass.model.gpus import GpuRequest, Slice
from windlass.model.jobs import Domain, GangId, Shape, TaskId, TaskState
from windlass.model.problems import Problem
from windlass.model.resources import Request
from windlass.model.settings import Displacing, Settings
from windlass.model.topology import Topology
from windlass.sim.scenario.expect import differences, snapshot_at
from windlass.sim.scenario.lines import MOST_BYTES
from windlass.sim.scenario.read import Scenario, read_scenario
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Broken, Snapshot, from_json, to_json

SCENARIO = """\
name: base
topologies:
  - {name: network, levels: [block, rack]}
nodes:
  - {name: a, cpu: 64, memory: 512Gi, gpus: {model: A100-80GB, count: 8}}
queues:
  - {name: company, guarantee: {gpu: 4}}
  - {name: b, parent: company, guarantee: {gpu: 4}}
jobs:
  - {name: train, queue: b, tasks: 2, gpus: 1, runs: 1h}
expect:
  - {job: train, state: finished}
"""


def read(text: str) -> Scenario:
    return read_scenario(text.encode(), "x.yaml")


def assert_refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text)
    assert_is_one_sentence(str(caught.value))
    return caught.value


def assert_is_one_sentence(text: str) -> None:
    assert text.isprintable(), text
    assert "Traceback" not in text
    assert len(text) < 700, text


def test_the_base_is_accepted() -> None:
    assert read(SCENARIO).name == "base"


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        ("guarantee: {gpu: 4}}\njobs", "guarantee: {gpu: 8}}\njobs", 8, "above its parent's 4"),
        ("parent: company, ", "parent: company, limit: {gpu: 2}, ", 8, "above its limit of 2 GPUs"),
        ("parent: company, ", "parent: company, lend: {gpu: 5}, ", 8, "lends 5 GPUs but"),
        ("parent: company", "parent: compny", 8, 'did you mean "company"?'),
        ("{name: company, ", "{name: company, parent: b, ", 7, "it is above itself"),
        ("{name: b, ", "{name: company, ", 8, 'queue "company" occurs twice'),
        ("guarantee: {gpu: 4}}\n  - {name: b", "guarantee: {gpus: 4}}\n  - {name: b", 7, 'of gpu,'),
        ("guarantee: {gpu: 4}}\n  - {name: b", "weight: two}\n  - {name: b", 7, "a whole number"),
        ("guarantee: {gpu: 4}}\n  - {name: b", "weight: -1}\n  - {name: b", 7, "at least 0"),
        ("queue: b", "queue: c", 10, 'queue "c" does not exist'),
        ("queue: b", "queue: company", 10, "has queues below it"),
        ("tasks: 2", "tasks: 2, minimum: 3", 10, "minimum 3 is above its 2 tasks"),
        ("tasks: 2", "tasks: 0", 10, "at least 1"),
        ("tasks: 2", "tasks: 2.5", 10, "a whole number"),
        ("gpus: 1,", "gpus: -1,", 10, "below zero"),
        ("gpus: 1,", "gpus: .nan,", 10, "not a finite number"),
        ("gpus: 1,", "gpus: 1e999,", 10, "not a finite number"),
        ("gpus: 1,", "gpus: 1.5,", 10, "neither whole nor a part of one"),
        ("gpus: 1,", "gpus: 0.0001,", 10, "too fine"),
        ("gpus: 1,", "gpus: 65,", 10, "from 1 to 64"),
        ("gpus: 1,", "gpus: 1, gpu_memory: 10Gi,", 10, "gpus and gpu_memory at once"),
        ("gpus: 1,", "gpu_memory: 10G,", 10, "with its unit, like 512Gi"),
        ("gpus: 1,", "mig: {profile: 3g.20gb},", 10, "A100-80GB offers 1g.10gb"),
        ("gpus: 1,", "gpus: 1, domain: {level: row},", 10, "its levels are block, rack"),
        ("gpus: 1,", "gpus: 1, domain: {topology: net, level: rack},", 10, "there is network"),
        ("gpus: 1,", "gpus: 1, tolerate: [],", 10, 'did you mean "tolerations"?'),
        ("gpus: 1,", "gpus: 1, preferences: [{weight: 101, term: []}],", 10, "at most 100"),
        ("gpus: 1,", "gpus: 1, affinity: [[{key: a, operator: Gt, values: [x]}]],", 10, "whole"),
        ("runs: 1h", "runs: 3600", 10, "a time with its unit"),
        ("runs: 1h", "runs: 0", 10, "at least 1"),
        ("runs: 1h", "deleted_at: 1h, at: 2h", 10, "deleted before it is submitted"),
        ("runs: 1h", "runs: 1h, displaces_after: -5s", 10, "a time with its unit"),
        ("runs: 1h", "runs: 1h, displaces_after: .nan", 10, "not a finite number"),
        ("runs: 1h", "runs: 1h, displaces_after: always", 10, "always is not understood"),
        ("runs: 1h", "runs: 1h, stale_after: -1", 10, "a time with its unit"),
        ("runs: 1h", "runs: 1h, saves_every: 0", 10, "at least 1"),
        ("runs: 1h", "runs: 1h, saves_every: never", 10, "never is not understood"),
        ("runs: 1h", "runs: 1h, terminates: rest", 10, "rest is not understood"),
        ("parent: company, ", "parent: company, min_run: 30, ", 8, "a time with its unit"),
        ("parent: company, ", "parent: company, min_run: never, ", 8, "never is not understood"),
        ("name: base\n", "name: base\nsettings: {displacing: [steal]}\n", 2, "'consolidate'"),
        ("name: base\n", "name: base\nsettings: {displacing: reclaim}\n", 2, "expected a list"),
        ("name: base\n", "name: base\nsettings: {displacing: [preempt, preempt]}\n", 2, "twice"),
        ("name: base\n", "name: base\nsettings: {search_steps: 0}\n", 2, "at least 1"),
        ("name: base\n", "name: base\nsettings: {search_steps: .nan}\n", 2, "finite"),
        ("name: base\n", "name: base\nsettings: {dwell: -1s}\n", 2, "a time with its unit"),
        ("name: base\n", "name: base\nsettings: {stuck_for: 1m}\n", 2, '"stuck_after"?'),
        ("state: finished", "evicted: -1", 12, "at least 0"),
        ("state: finished", "moved: .inf", 12, "not a finite number"),
        ("state: finished", "displaced_by: rain", 12, 'job "rain", which does not exist'),
        ("cpu: 64", "cpu: 64, cpu: 32", 5, '"cpu" is given twice'),
        ("cpu: 64", "cpu: many", 5, "a number of CPUs"),
        ("memory: 512Gi", "memory: 512", 5, "with its unit"),
        ("A100-80GB", "A100-81GB", 5, 'did you mean "A100-80GB"?'),
        ("A100-80GB", "T4-16GB, mig: true", 5, "which T4-16GB does not offer"),
        ("count: 8", "count: 8, memory: 0", 5, "from 1 to"),
        ("count: 8", "count: 8, unhealthy: [8]", 5, "counted from 0"),
        ("{name: a, ", "{name: a, count: 30000, ", 5, "at most 20000"),
        ("{name: a, ", "{name: '', ", 5, "give it a name"),
        ("levels: [block, rack]", "levels: []", 3, "at least one label"),
        ("state: finished", "state: done", 12, "expected 'absent', 'waiting'"),
        ("job: train, ", "job: rain, ", 12, 'job "rain", which does not exist'),
        ("{job: train, ", "{", 12, "names no job, queue or node"),
        ("expect:", "events:\n  - {at: 1h}\nexpect:", 12, "exactly one of node_gone"),
        ("expect:", "events:\n  - {at: 1h, node_gone: c}\nexpect:", 12, 'node "c" does not exist'),
        ("expect:", "events:\n  - {at: 1h, node_back: a}\nexpect:", 12, "is still there"),
        ("expect:", "events:\n  - {at: 1h, delete: trane}\nexpect:", 12, 'did you mean "train"?'),
        ("name: base\n", "", 1, "name: it is missing"),
        ("name: base\n", "name: base\nname: two\n", 2, "given twice, first in line 1"),
        ("name: base\n", "name: [base\n", 2, "this is not YAML"),
        ("name: base\n", "name: !!python/name:os.system base\n", 1, "a tag"),
        ("name: base\n", "name: base\nabout: *nothing\n", 2, "stands for nothing"),
        ("expect:", "---\nexpect:", 11, "a second document"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(old: str, new: str, line: int, sentence: str) -> None:
    assert SCENARIO.count(old) == 1
    error = assert_refused(SCENARIO.replace(old, new))
    assert sentence in str(error)
    assert error.line == line
    assert str(error).startswith(f"x.yaml:{line}: ")


def test_the_message_reads_as_promised() -> None:
    wrong = SCENARIO.replace("guarantee: {gpu: 4}}\njobs", "guarantee: {gpu: 8}}\njobs")
    assert str(assert_refused(wrong)) == (
        'x.yaml:8: queue "b": guarantee 8 GPUs is above its parent\'s 4 GPUs; '
        "lower it or raise the parent's"
    )


def test_the_first_of_several_mistakes_is_told_and_the_others_are_counted() -> None:
    error = assert_refused(SCENARIO.replace("cpu: 64", "cpu: x").replace("tasks: 2", "tasks: 0"))
    assert error.line == 5
    assert error.more == 1
    assert str(error).endswith("(and 1 more)")


def test_copies_of_a_mistake_count_once() -> None:
    error = assert_refused(SCENARIO.replace("queue: b", "queue: c, count: 50"))
    assert error.more == 0


def test_guarantees_of_all_children_are_compared_with_their_parents() -> None:
    third = "  - {name: c, parent: company, guarantee: {gpu: 1}}\njobs"
    error = assert_refused(SCENARIO.replace("jobs", third))
    assert error.line == 9
    assert 'the queues below "company" (b, c) are guaranteed 5 GPUs' in str(error)


def test_a_file_that_is_too_large_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="4 MiB a scenario may have") as caught:
        read_scenario(b"#" * (MOST_BYTES + 1), "x.yaml")
    assert_is_one_sentence(str(caught.value))


def test_anchors_that_multiply_each_other_do_not_explode() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 20):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    assert "aliases counted in full" in str(assert_refused("\n".join(lines)))


def test_an_anchor_may_save_typing() -> None:
    text = SCENARIO.replace(
        "gpus: {model: A100-80GB, count: 8}}", "gpus: &g {model: T4-16GB}}"
    ).replace("queues:", "  - {name: c, gpus: *g}\nqueues:")
    assert [len(node.gpus) for node in read(text).workload.nodes] == [1, 1]


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " * 1000, "- " * 100_000, "{a: " * 5000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert_refused(text)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"\x00", b"a: \x07", b"- 1\n- \xc3(", b"5"])
def test_bytes_that_are_no_scenario_are_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read_scenario(data, "x.yaml")
    assert_is_one_sentence(str(caught.value))


def test_too_many_tasks_are_refused_before_they_are_made() -> None:
    error = assert_refused(SCENARIO.replace("tasks: 2", "tasks: 1000000, count: 100000"))
    assert "100,000,000,000 tasks" in str(error)


@pytest.mark.parametrize("name", ['"a\\nb"', '"\\e[31mred"', '"\\u202e"'])
def test_what_cannot_be_printed_is_not_printed(name: str) -> None:
    assert_refused(SCENARIO.replace("name: b,", f"name: {name},"))
    assert_refused(SCENARIO.replace("A100-80GB", name))
    assert_refused(SCENARIO.replace("gpus: 1", f"gpus: {name}"))
    assert str(NotFound("job", "\x1b[31m", [])).isprintable()


def test_a_name_that_is_not_there_offers_close_ones() -> None:
    assert str(NotFound("job", "trian", ["train", "test"])) == (
        'there is no job "trian"; did you mean "train"?'
    )
    assert "check the name" in str(NotFound("job", "zzz", ["train"]))


# -- snapshots


def small_snapshot() -> Snapshot:
    return make.snapshot(
        make.node("n", 2),
        make.node("m", 1, mig=True),
        Topology("network", ("rack",)),
        make.queue("team", gpus=1),
        make.job("runs", 1, make.ask(1)).runs(0, on="n", devices=[0]),
        make.job("cut", 1, make.ask(1, profile="1g.10gb")).runs(
            0, on="m", devices=[Slice(0, 143, "1g.10gb", 2)]
        ),
        make.job("waits", 2, make.ask(1)),
    )


def problems_of(**changes: Any) -> list[Problem]:
    return check(replace(small_snapshot(), **changes))


def changed_task(index: int, **changes: Any) -> list[Problem]:
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
def test_a_task_that_cannot_be_is_found(
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


def test_times_of_displacing_out_of_bounds_are_found() -> None:
    queues = (replace(small_snapshot().queues[0], min_run_s=-1),)
    assert [each.path for each in problems_of(queues=queues)] == [("queues", 0, "min_run_s")]
    leaving = changed_task(0, state=TaskState.RELEASING, releasing_since=-1)
    assert [each.path for each in leaving] == [("tasks", 0, "releasing_since")]
    broken = (Broken(GangId("runs"), -1),)
    assert [each.path for each in problems_of(broken=broken)] == [("broken", 0, "since")]


def test_a_firm_hold_may_outlive_the_task_it_was_made_for() -> None:
    claims = (Claim(TaskId("gone"), "n", (Slice(1, 1000),), make.ask(1)),)
    firm = Hold(GangId("waits"), claims, firm=True)
    assert problems_of(holds=(firm,)) == []
    assert len(problems_of(holds=(replace(firm, firm=False),))) == 1


def test_a_hold_for_an_impossible_request_is_found() -> None:
    claims = (Claim(TaskId("waits-0"), "n", (), Request(cpu_milli=-1)),)
    found = problems_of(holds=(Hold(GangId("waits"), claims),))
    assert [each.path for each in found] == [("holds", 0, "claims", 0, "request", "cpu_milli")]


def test_what_a_live_cluster_passes_through_is_marked() -> None:
    gangs = tuple(replace(gang, queue="gone") for gang in small_snapshot().gangs)
    found = problems_of(gangs=gangs)
    assert len(found) == 3
    assert all(problem.passing for problem in found)


def test_a_ring_of_queues_is_found() -> None:
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
def test_what_a_live_cluster_passes_through_is_planned(tmp_path: Path, name: str) -> None:
    snapshot = read_snapshot(tmp_path, to_json(passing_states()[name]))
    decisions = plan_of(snapshot).decisions
    assert [each.gang for each in decisions if each.reasons] == ["waits"]


def read_snapshot(folder: Path, data: bytes) -> Snapshot:
    file = folder / "snapshot.json"
    file.write_bytes(data)
    return read_snapshot_file(str(file))


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


# -- fuzzing: anything may come, and the answer is a scenario or one sentence

JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, 0.5, -0.5, 1e308, float("nan"), float("inf")]),
    st.sampled_from(["never", "preempt", ["reclaim"], "10s"]),
    st.sampled_from(["", "rest", "1h", "512Gi", "0s", "-1h", "a", "train", "é" * 300, "\x00", "*"]),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places of a nested value, the top left out."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, part in parts:
        found.append((*path, key))
        if isinstance(part, dict | list):
            found += places_in(part, (*path, key))
    return found


def mutated(value: Any, data: st.DataObject) -> Any:
    """The value with one to three places replaced, removed or doubled."""
    value = deepcopy(value)
    for _ in range(data.draw(st.integers(1, 3))):
        places = places_in(value)
        if not places:
            break
        *above, last = data.draw(st.sampled_from(places))
        parent = value
        for step in above:
            parent = parent[step]
        match data.draw(st.sampled_from(["replace", "replace", "remove", "double", "swap"])):
            case "replace":
                parent[last] = data.draw(JUNK)
            case "remove":
                del parent[last]
            case "double" if isinstance(parent, list):
                parent.append(deepcopy(parent[last]))
            case _:
                parent[last] = deepcopy(value)
    return value


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snapshots")


def assert_answered(read_it: Callable[[], Any]) -> None:
    """Accepted, or refused in one sentence."""
    try:
        read_it()
    except InputError as error:
        assert_is_one_sentence(str(error))


def examples() -> dict[str, Any]:
    folder = Path(__file__).parent.parent / "examples"
    return {file.stem: yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*.yaml"))}


EXAMPLES = examples()


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_mutated_scenario_is_accepted_or_refused(name: str, data: st.DataObject) -> None:
    text = yaml.safe_dump(mutated(EXAMPLES[name], data), allow_unicode=True)
    assert_answered(lambda: read_scenario(text.encode("utf-8", "replace"), "x.yaml"))


def told_by_key(values: list[Any]) -> dict[str, list[Any]]:
    """All that is said under each name, so that plausible things can be exchanged."""
    pool: dict[str, list[Any]] = {}
    for value in values:
        for path in places_in(value):
            part = value
            for step in path:
                part = part[step]
            if isinstance(path[-1], str) and part not in pool.setdefault(path[-1], []):
                pool[path[-1]].append(part)
    return pool


def exchanged(value: Any, pool: dict[str, list[Any]], data: st.DataObject) -> Any:
    """The value with a few things replaced by what stands under the same name elsewhere."""
    value = deepcopy(value)
    for _ in range(data.draw(st.integers(1, 4))):
        places = [path for path in places_in(value) if path[-1] in pool]
        *above, last = data.draw(st.sampled_from(places))
        parent = value
        for step in above:
            parent = parent[step]
        parent[last] = deepcopy(data.draw(st.sampled_from(pool[last])))
    return value


POOL = told_by_key(list(EXAMPLES.values()))


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_scenario_of_mixed_parts_is_played_or_refused(name: str, data: st.DataObject) -> None:
    text = yaml.safe_dump(exchanged(EXAMPLES[name], POOL, data))
    assert_answered(lambda: differences(read_scenario(text.encode(), "x.yaml")))


def snapshots_of_examples() -> list[Any]:
    """The examples at five minutes, as their JSON."""
    texts = {name: yaml.safe_dump(value).encode() for name, value in EXAMPLES.items()}
    scenarios = [read_scenario(text, name) for name, text in texts.items()]
    return [json.loads(to_json(snapshot_at(each, 300))) for each in scenarios]


SNAPSHOTS = snapshots_of_examples()
SNAPSHOT_POOL = told_by_key(SNAPSHOTS)


@given(st.sampled_from(SNAPSHOTS), st.data())
def test_a_snapshot_of_mixed_parts_is_planned_or_refused(
    folder: Path, base: Any, data: st.DataObject
) -> None:
    value = exchanged(base, SNAPSHOT_POOL, data)
    assert_answered(lambda: plan_of(read_snapshot(folder, json.dumps(value).encode())))


@given(st.data())
def test_a_damaged_scenario_is_accepted_or_refused(data: st.DataObject) -> None:
    whole = SCENARIO.encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    inserted = data.draw(st.binary(max_size=8) | st.sampled_from([b"{", b"[", b"&a ", b"*a", b"!"]))
    assert_answered(lambda: read_scenario(whole[:start] + inserted + whole[end:], "x.yaml"))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    assert_answered(lambda: read_scenario(data, "x.yaml"))


@given(st.data())
def test_a_mutated_snapshot_is_planned_or_refused(folder: Path, data: st.DataObject) -> None:
    value = mutated(json.loads(to_json(small_snapshot())), data)
    assert_answered(lambda: plan_of(read_snapshot(folder, json.dumps(value).encode())))


@given(st.data())
def test_a_damaged_snapshot_is_planned_or_refused(folder: Path, data: st.DataObject) -> None:
    whole = to_json(small_snapshot())
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 20)))
    damaged = whole[:start] + data.draw(st.binary(max_size=4)) + whole[end:]
    assert_answered(lambda: plan_of(read_snapshot(folder, damaged)))


def test_a_deeply_nested_snapshot_is_refused(tmp_path: Path) -> None:
    assert_answered(lambda: read_snapshot(tmp_path, b'{"nodes": ' + b"[" * 100_000))


def test_a_snapshot_survives_being_written_and_read() -> None:
    assert from_json(to_json(small_snapshot())) == small_snapshot()


def plan_of(snapshot: Snapshot) -> Plan:
    return plan(Cluster.of(snapshot))
