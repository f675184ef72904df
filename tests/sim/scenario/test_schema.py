"""What the words of a scenario file mean, and how expectations are compared."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support.checkout import ROOT
from windlass.model.constraints import HOSTNAME, Operator
from windlass.model.jobs import Domain, Group
from windlass.model.settings import Displacing, Packing, Settings
from windlass.sim.scenario import schema as words
from windlass.sim.scenario.expectations import differences, snapshot_at
from windlass.sim.scenario.read import Scenario, read_scenario, scenario_schema
from windlass.sim.scenario.yaml_lines import read_yaml
from windlass.sim.workload import Arrival

REFERENCE = ROOT / "docs" / "reference"

NODES = [{"name": "a", "gpus": {"model": "A100-80GB", "count": 4}, "cpu": 8, "memory": "64Gi"}]


def scenario(**parts: Any) -> Scenario:
    whole = {"name": "test", "nodes": NODES, "queues": [{"name": "q"}]} | parts
    return read_scenario(yaml.safe_dump(whole, sort_keys=False).encode(), "test.yaml")


def job(**words_: Any) -> Arrival:
    return scenario(jobs=[{"name": "j", "queue": "q"} | words_]).workload.arrivals[0]


def found(jobs: list[dict[str, Any]], expect: list[dict[str, Any]], **parts: Any) -> list[str]:
    jobs = [{"queue": "q"} | each for each in jobs]
    return [str(each) for each in differences(scenario(jobs=jobs, expect=expect, **parts))]


# -- YAML


def test_plain_text_stays_text() -> None:
    text = "a: no\nb: 1:30\nc: 2020-01-01\nd: '5'\ne: 0x10\nf: yes\ng: <<\n"
    value = read_yaml(text.encode(), "x").value
    assert value == {
        "a": "no", "b": "1:30", "c": "2020-01-01", "d": "5", "e": "0x10", "f": "yes", "g": "<<"
    }  # fmt: skip


def test_numbers_and_constants_are_resolved() -> None:
    value = read_yaml(b"[1, -2, 0.5, 1e3, true, null, ~, ]", "x").value
    assert value == [1, -2, 0.5, 1000.0, True, None, None]


def test_every_value_knows_its_line() -> None:
    spot = read_yaml(b"a:\n  - x: 1\n    y:\n      - 2\n\n      - 3\nb: 4\n", "x")
    paths = [("a",), ("a", 0), ("a", 0, "y"), ("a", 0, "y", 1), ("b",), ("a", 0, "missing"), ()]
    assert [spot.line_of(path) for path in paths] == [1, 2, 3, 6, 7, 2, 1]


# -- what the words mean


def test_counts_make_numbered_copies() -> None:
    nodes = [NODES[0] | {"count": 3, "every": {"rack": 2}}, {"name": "b", "every": {"rack": 1}}]
    built = scenario(nodes=nodes, jobs=[{"name": "j", "queue": "q", "count": 2}])
    assert [node.name for node in built.workload.nodes] == ["a-0", "a-1", "a-2", "b"]
    racks = [node.labels["rack"] for node in built.workload.nodes]
    assert racks == ["rack-0", "rack-0", "rack-1", "rack-2"]
    assert [each.gang.id for each in built.workload.arrivals] == ["j-0", "j-1"]
    assert built.workload.nodes[3].labels[HOSTNAME] == "b"


def test_known_models_have_their_memory_and_others_name_it() -> None:
    other = {"name": "b", "gpus": {"model": "Own", "memory": "7Gi", "unhealthy": [0]}}
    known, own = scenario(nodes=[*NODES, other]).workload.nodes
    assert known.gpus[0].memory_mib == 80 * 1024
    assert own.gpus[0].memory_mib == 7 * 1024
    assert not own.gpus[0].healthy


def test_settings_are_taken_over() -> None:
    words_ = {"nodes": "spread", "half_life": "1d", "usage_effect": 0.5, "reserve_after": "5m"}
    settings = scenario(settings=words_).workload.settings
    assert settings.nodes == Packing.SPREAD
    assert settings.gpus == Packing.PACK
    assert (settings.half_life_s, settings.usage_effect, settings.reserve_after_s) == (
        86400,
        500,
        300,
    )


def test_the_settings_of_displacing_are_taken_over() -> None:
    words_ = {
        "displacing": ["preempt"], "min_run": "5m", "dwell": "1m", "stale_after": "never",
        "stuck_after": "2m", "search_steps": 7,
    }  # fmt: skip
    found_ = scenario(settings=words_).workload.settings
    assert found_.displacing == (Displacing.PREEMPT,)
    assert (found_.min_run_s, found_.dwell_s, found_.stuck_after_s) == (300, 60, 120)
    assert (found_.stale_after_s, found_.search_steps) == (-1, 7)
    assert scenario(settings={"displacing": []}).workload.settings.displacing == ()


def test_settings_that_are_not_given_are_those_of_the_engine() -> None:
    assert scenario().workload.settings == Settings()


def test_queues_are_taken_over() -> None:
    queues = [
        {"name": "top", "guarantee": {"gpu": 4}},
        {"name": "q", "parent": "top", "guarantee": {"gpu": 2}, "limit": {"cpu": "500m"},
         "lend": {"gpu": 0.5}, "weight": 3, "tier": 1, "min_run": "5m"},
    ]  # fmt: skip
    top, queue = scenario(queues=queues).workload.queues
    assert (top.min_run_s, queue.min_run_s) == (None, 300)
    assert (queue.parent, queue.weight, queue.tier) == ("top", 3, 1)
    assert (queue.guarantee, queue.limit) == ({"gpu": 2000}, {"cpu": 500})
    assert queue.lend == {"gpu": 500}


@pytest.mark.parametrize(
    ("asked", "inside"),
    [
        ({"gpus": 2}, (2, 1000, 0, "")),
        ({"gpus": 0.5}, (1, 500, 0, "")),
        ({"gpus": 0.5, "devices": 2}, (2, 500, 0, "")),
        ({"gpu_memory": "10Gi"}, (1, 1000, 10240, "")),
        ({"gpu_memory": "10Gi", "devices": 2}, (2, 1000, 10240, "")),
        ({"mig": {"profile": "1g.10gb", "count": 2}}, (2, 1000, 0, "1g.10gb")),
    ],
)
def test_gpus_may_be_asked_for_in_four_ways(asked: dict[str, Any], inside: tuple[Any, ...]) -> None:
    gpu = job(**asked).tasks[0].shape.request.gpu
    assert gpu is not None
    assert (gpu.count, gpu.milli, gpu.memory_mib, gpu.profile) == inside


def test_a_job_without_gpus_asks_for_none() -> None:
    assert job(gpus=0).tasks[0].shape.request.gpu is None


def test_a_minimum_makes_a_job_elastic() -> None:
    assert job(tasks=6, minimum=2).gang.groups == (Group("", 2),)
    assert len(job(tasks=6, minimum=2).tasks) == 6
    assert job(tasks=6).gang.needed() == 6


def test_groups_take_from_the_job_what_they_do_not_say() -> None:
    groups = [
        {"name": "head", "gpus": 0.5, "devices": 2},
        {"name": "hands", "tasks": 2, "minimum": 0, "cpu": 2, "labels": {"l": "m"}},
    ]
    arrival = job(groups=groups, gpus=1, cpu=1, labels={"k": "v"})
    assert [task.group for task in arrival.tasks] == ["head", "hands", "hands"]
    head, hands, _ = (task.shape.request for task in arrival.tasks)
    assert (head.cpu_milli, hands.cpu_milli) == (1000, 2000)
    assert head.gpu is not None
    assert hands.gpu is not None
    assert (head.gpu.count, head.gpu.milli, hands.gpu.milli) == (2, 500, 1000)
    assert arrival.tasks[1].labels == (("job", "j"), ("k", "v"), ("l", "m"))
    assert arrival.gang.needed() == 1


def test_a_job_says_how_it_displaces_and_is_displaced() -> None:
    plain = job()
    assert (plain.gang.displaces_after_s, plain.gang.stale_after_s) == (0, None)
    assert (plain.saves_every_s, plain.terminates_s) == (None, 10)
    said = job(displaces_after="2m", stale_after="3m", saves_every="10m", terminates=0)
    assert (said.gang.displaces_after_s, said.gang.stale_after_s) == (120, 180)
    assert (said.saves_every_s, said.terminates_s) == (600, 0)
    never = job(displaces_after="never", stale_after="never", terminates="never")
    assert (never.gang.displaces_after_s, never.gang.stale_after_s) == (None, -1)
    assert never.terminates_s is None


def test_a_domain_finds_the_only_topology() -> None:
    topologies = [{"name": "net", "levels": ["rack"]}]
    jobs = [{"name": "j", "queue": "q", "domain": {"level": "rack", "required": False}}]
    arrival = scenario(topologies=topologies, jobs=jobs).workload.arrivals[0]
    assert arrival.gang.domain == Domain("net", "rack", required=False)


def test_neighbours_are_named_by_job_or_label() -> None:
    constraints = job(
        near=[{"job": "other", "over": "rack"}],
        apart=[{}, {"labels": {"app": "x"}, "weight": 7}],
        spread=[{"over": "rack"}],
    ).tasks[0].shape.constraints  # fmt: skip
    (near,), (apart,), (wish,) = constraints.near, constraints.apart, constraints.pod_preferences
    assert [(e.key, e.operator, e.values) for e in near.selector] == [
        ("job", Operator.IN, ("other",))
    ]
    assert (apart.topology_key, apart.selector[0].values) == (HOSTNAME, ("j",))
    assert (wish.weight, wish.term.selector[0].key) == (-7, "app")
    assert constraints.spread[0].selector[0].values == ("j",)


def test_events_become_changes_of_nodes_and_deletions() -> None:
    events = [
        {"at": "3m", "node_back": "a"},
        {"at": "1m", "cordon": "a"},
        {"at": "2m", "node_gone": "a"},
        {"at": "4m", "delete": "j"},
    ]
    jobs = [{"name": "j", "queue": "q", "count": 2}]
    workload = scenario(events=events, jobs=jobs).workload
    changes = [(each.at, each.node and each.node.cordoned) for each in workload.node_changes]
    assert changes == [(60, True), (120, None), (180, False)]
    assert [each.deleted_at for each in workload.arrivals] == [240, 240]


# -- expectations


def test_an_expectation_that_is_met_says_nothing() -> None:
    assert found([{"name": "j", "gpus": 4}], [{"job": "j", "state": "running", "devices": 4}]) == []


@pytest.mark.parametrize(
    ("wanted", "difference"),
    [
        ({"state": "waiting"}, "expected state waiting, found running"),
        ({"state": "absent"}, "expected state absent, found running"),
        ({"reason": "NoRoom"}, "expected reason NoRoom, found no reason"),
        ({"tasks": 1}, "expected tasks 1, found 2"),
        ({"node": "b"}, "expected node b, found a"),
        ({"nodes": 2}, "expected nodes 2, found 1"),
        ({"devices": 4}, "expected devices 4, found 2"),
        ({"model": "T4-16GB"}, "expected model T4-16GB, found A100-80GB"),
        ({"within": "kubernetes.io/hostname", "tasks": 3}, "expected tasks 3, found 2"),
        ({"started_at": "1m"}, "expected started at 1m, found 10s"),
        ({"finished_at": "1m"}, "expected finished at 1m, found unfinished"),
        ({"started_before": "i"}, "found its start at 10s, the other's at 0s"),
        ({"waited_at_least": "1s"}, "expected waited at least 1s, found 0s"),
        ({"restarts": 1}, "expected restarts 1, found 0"),
        ({"evicted": 1}, "expected evicted 1, found 0"),
        ({"moved": 2}, "expected moved 2, found 0"),
        ({"displaced_by": "i"}, "expected displaced by i, found nobody"),
        ({"copies": 0, "state": "running"}, "expected 0 copies with state running, found 1"),
    ],
)
def test_a_job_that_comes_otherwise_is_told(wanted: dict[str, Any], difference: str) -> None:
    jobs = [{"name": "i"}, {"name": "j", "at": "10s", "tasks": 2, "gpus": 1}]
    nodes = [*NODES, {"name": "b"}]
    told = found(jobs, [{"job": "j", "at": "1h"} | wanted], nodes=nodes)
    assert len(told) == 1
    assert told[0].startswith("job j at 1h: ")
    assert difference in told[0]


@pytest.mark.parametrize(
    ("wanted", "difference"),
    [
        ({"queue": "q", "gpus": 1}, "queue q at rest: expected gpus 1 GPU, found 2 GPUs"),
        ({"queue": "q", "gpus_at_most": 1.5}, "expected gpus at most 1.5 GPUs, found 2 GPUs"),
        ({"queue": "q", "gpus_at_least": 3}, "expected gpus at least 3 GPUs, found 2 GPUs"),
        ({"queue": "q", "gpus": 1, "model": "A100-80GB"}, "found 2 GPUs"),
        ({"queue": "q", "share": 1}, "expected share 1 GPU, found 2 GPUs"),
        ({"queue": "q", "running": 2}, "expected running 2, found 1"),
        ({"queue": "q", "waiting": 1}, "expected waiting 1, found 0"),
        ({"node": "a", "gpus": 1}, "node a at rest: expected gpus 1 GPU, found 2 GPUs"),
        ({"node": "a", "tasks": 2}, "expected tasks 2, found 1"),
    ],
)
def test_a_queue_or_node_that_comes_otherwise_is_told(
    wanted: dict[str, Any], difference: str
) -> None:
    told = found([{"name": "j", "gpus": 2}], [wanted])
    assert len(told) == 1
    assert difference in told[0]


def test_a_job_that_waits_is_told_with_its_reasons() -> None:
    told = found([{"name": "j", "gpus": 8}], [{"job": "j", "state": "running"}])
    assert "found never (no node could ever run a task that asks for 8 GPUs" in told[0]


def test_an_expectation_holds_for_every_copy() -> None:
    told = found([{"name": "j", "gpus": 3, "count": 3}], [{"job": "j", "state": "running"}])
    assert [each.split(" at ")[0] for each in told] == ["job j-1", "job j-2"]


def test_a_deleted_job_is_deleted_and_a_failed_task_comes_back() -> None:
    jobs = [
        {"name": "d", "gpus": 1, "deleted_at": "1m"},
        {"name": "f", "gpus": 1, "runs": "1h", "fails_after": "10m"},
    ]
    expect = [
        {"job": "d", "state": "deleted"},
        {"job": "d", "at": "59s", "state": "running"},
        {"job": "f", "state": "finished", "restarts": 1, "finished_at": "1h10m"},
    ]
    assert found(jobs, expect) == []


def test_a_job_that_made_room_is_told_for_whom() -> None:
    jobs = [
        {"name": "low", "gpus": 4, "runs": "1h", "count": 1},
        {"name": "high", "gpus": 4, "at": "10m", "runs": "1h", "priority": 5, "count": 1},
    ]
    expect = [
        {"job": "low", "evicted": 1, "moved": 0, "displaced_by": "high", "restarts": 0},
        {"job": "low", "displaced_by": "high-0", "finished_at": "2h10m10s"},
        {"job": "high", "evicted": 0, "started_at": "10m10s"},
    ]
    assert found(jobs, expect) == []
    told = found(jobs, [{"job": "low", "displaced_by": "low"}])
    assert told == ["job low-0 at rest: expected displaced by low, found high-0"]


def test_a_snapshot_shows_the_moment_before_the_decision() -> None:
    played = scenario(jobs=[{"name": "j", "queue": "q", "gpus": 1, "at": "5m"}])
    assert [task.node for task in snapshot_at(played, 300).tasks] == [""]
    assert [task.node for task in snapshot_at(played, 301).tasks] == ["a"]
    assert snapshot_at(played, 299).tasks == ()


# -- the schema and the manual


def test_the_committed_schema_is_the_generated_one() -> None:
    committed = json.loads((REFERENCE / "scenario.schema.json").read_text())
    assert committed == json.loads(json.dumps(scenario_schema())), "run: windlass scenario --schema"


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": "8"},
        {"runs": 60},
        {"memory": "8GB"},
        {"colour": "red"},
        {"mig": {"count": 1}},
        {"terminates": "soon"},
        {"displaces_after": -1},
        {"saves_every": "never"},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(wrong: dict[str, Any]) -> None:
    value = {"name": "n", "nodes": NODES, "queues": [{"name": "q"}]}
    validator = jsonschema.Draft202012Validator(scenario_schema())
    assert validator.is_valid(value | {"jobs": [{"name": "j", "queue": "q"}]})
    assert not validator.is_valid(value | {"jobs": [{"name": "j", "queue": "q"} | wrong]})


def test_every_word_is_in_the_manual() -> None:
    manual = (REFERENCE / "scenario.md").read_text()
    told = set(re.findall(r"`(\w+)[`:]", manual))
    files = (words,)
    models = [each for file in files for _, each in inspect.getmembers(file, inspect.isclass)]
    used = {
        field
        for model in models
        if issubclass(model, words.ScenarioModel)
        for field in model.model_fields
    }
    assert sorted(used - told) == []
