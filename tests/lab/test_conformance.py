"""Foreign scenarios: translated faithfully, played by their rules, judged without mercy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from windlass.cli import windlass
from windlass.engine.plan import Plan
from windlass.model.actions import Bind, Evict, EvictionRule, Hold, PlaceClaim
from windlass.model.gpus import GpuRequest, Slice
from windlass.model.jobs import Domain, Gang, GangId, TaskId
from windlass.model.resources import Request
from windlass.model.settings import Displacing
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot
from windlass_lab.conformance import schema
from windlass_lab.conformance.compare import compare, judge
from windlass_lab.conformance.devices import Untranslatable
from windlass_lab.conformance.laws import broken_laws
from windlass_lab.conformance.play import Gpus, play
from windlass_lab.conformance.schema import TaskStatus
from windlass_lab.conformance.translate import NOW, translate

ALL = ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"]
HALF, TWO = {"gpu_fraction": 0.5}, {"gpus": 2}


def scenario(*things: dict[str, Any], expect: Any = None, **fields: Any) -> schema.ForeignScenario:
    """One pass of allocate over one node of 2 GPUs and one queue, unless said otherwise."""
    kinds = ("nodes", "queues", "jobs")
    given = {kind: [each[kind] for each in things if kind in each] for kind in kinds}
    given["nodes"] = given["nodes"] or [node("n")["nodes"]]
    given["queues"] = given["queues"] or [queue("q")["queues"]]
    told = {"id": "x", "mode": "single_pass", "actions": ["allocate"], "expect": expect or {}}
    return msgspec.convert(told | given | fields, schema.ForeignScenario)


def cycle(*things: dict[str, Any], **fields: Any) -> schema.ForeignScenario:
    return scenario(*things, **({"mode": "full_cycle", "actions": ALL} | fields))


def node(name: str, gpus: int = 2, **fields: Any) -> dict[str, Any]:
    return {"nodes": {"name": name, "gpus": gpus} | fields}


def queue(name: str, quota: float = 2, **fields: Any) -> dict[str, Any]:
    gpu = {"quota": quota, "limit": fields.pop("limit", -1)}
    return {"queues": {"name": name, "gpu": gpu | {"over_quota_weight": 0}} | fields}


def job(name: str, *tasks: dict[str, Any], least: int = 0, **fields: Any) -> dict[str, Any]:
    """A job of the queue q; its tasks are called NAME-0, NAME-1 and so on."""
    named = [{"name": f"{name}-{i}"} | each for i, each in enumerate(tasks)]
    gang = {"podsets": [{"name": "default", "min_available": least or len(tasks)}]}
    told = {"name": name, "queue": "q", "request": {"gpus": 1}, "gang": gang}
    return {"jobs": told | {"tasks": named} | fields}


def on(place: str, state: str = "Running", **fields: Any) -> dict[str, Any]:
    return {"state": state, "node": place} | fields


def snapshot(*things: dict[str, Any], **fields: Any) -> Snapshot:
    return translate(scenario(*things, **fields)).snapshot


def states(played: schema.ForeignScenario) -> dict[str, str]:
    """The states when it is first compared."""
    return {name: each.status.value for name, each in play(played).moments[0].tasks.items()}


PENDING: dict[str, Any] = {}


# --- translation ----------------------------------------------------------------------------------


def test_a_quota_is_a_guarantee_and_an_unlimited_one_is_all_there_is():
    small, all_ = snapshot(queue("q", 0.5), queue("r", -1)).queues
    assert (small.guarantee, all_.guarantee) == ({"gpu": 500}, {"gpu": 2000})
    assert small.limit == {}


def test_cpu_is_named_only_where_a_queue_has_a_quota_or_a_limit_in_it():
    limited = queue("q", cpu_milli={"quota": -1, "limit": 3000})
    (found,) = snapshot(limited, node("n", cpu=8)).queues
    assert (found.limit, found.guarantee) == ({"cpu": 3000}, {"gpu": 2000, "cpu": 3000})


def test_fractions_of_weight_become_whole_numbers_in_the_same_proportion():
    def weighed(name: str, weight: float) -> dict[str, Any]:
        return queue(name, gpu={"quota": 0, "over_quota_weight": weight})

    queues = snapshot(weighed("q", 0.5), weighed("r", 0.75), weighed("s", -1)).queues
    assert [each.weight for each in queues] == [2, 3, 4]


def test_the_priority_of_a_queue_is_its_tier_and_most_have_the_same():
    assert [each.tier for each in snapshot(queue("q"), queue("r", priority=7)).queues] == [100, 7]


def test_tasks_that_share_a_device_by_name_share_one_of_ours_and_whole_ones_lie_elsewhere():
    half = job("a", on("n", gpu_groups=["g"]), on("n", gpu_groups=["g"]), request=HALF)
    tasks = snapshot(half, job("b", on("n"))).tasks
    assert [each.devices for each in tasks] == [
        (Slice(0, 500),),
        (Slice(0, 500),),
        (Slice(1, 1000),),
    ]


def test_halves_without_a_named_device_fill_one_before_they_begin_another():
    tasks = snapshot(job("a", on("n"), on("n"), on("n"), request=HALF)).tasks
    assert [each.devices[0].device for each in tasks] == [0, 0, 1]


def test_memory_of_a_gpu_is_asked_on_as_many_devices_as_are_named():
    shared = {"gpu_memory_mib": 60, "num_devices": 2}
    (task,) = snapshot(job("a", on("n"), request=shared)).tasks
    assert task.devices == (Slice(0, 600), Slice(1, 600))


def test_a_mig_instance_of_three_slices_is_charged_as_three_gpus():
    cut = node("n", 0, mig_strategy="mixed", mig_instances={"mig-3g.20gb": 2})
    found = snapshot(cut, job("a", {"mig": {"mig-3g.20gb": 1}}, request={"gpus": 0}))
    assert len(found.nodes[0].gpus) == 6
    assert found.tasks[0].shape.request.gpu == GpuRequest(3, models=("mig-3g.20gb",))


@pytest.mark.parametrize(("strategy", "request_"), [("mixed", {"gpus": 1}), ("single", HALF)])
def test_a_node_cut_by_mig_refuses_what_its_strategy_excludes(strategy: str, request_: Any):
    refused = scenario(node("n", mig_strategy=strategy), job("a", PENDING, request=request_))
    assert states(refused) == {"a-0": "Pending"}


def test_a_task_that_uses_mig_uncounted_spoils_its_node_for_mig():
    cut = node("n", 0, mig_instances={"mig-1g.5gb": 2})
    old = job("a", on("n", legacy_mig=True), request={"gpus": 0})
    new = job("b", {"mig": {"mig-1g.5gb": 1}}, request={"gpus": 0})
    assert states(scenario(cut, old, new)) == {"a-0": "Running", "b-0": "Pending"}
    assert states(scenario(cut, new)) == {"b-0": "Binding"}


def test_memory_below_a_megabyte_is_not_rounded_away():
    tiny = job("a", PENDING, request={"memory": 750})
    found = snapshot(node("n", memory=2000), tiny)
    assert found.nodes[0].memory_mib // found.tasks[0].shape.request.memory_mib == 2


def test_tasks_of_higher_priority_come_first_in_their_gang():
    told = translate(scenario(job("a", {"task_priority": 1}, {"task_priority": 2})))
    assert [told.names[each] for each in sorted(told.names)] == ["a-1", "a-0"]


def test_only_the_nodes_that_a_task_names_will_do():
    picky = job("a", {"node_names_allowed": ["m"]})
    assert play(scenario(node("n"), node("m"), picky)).moments[0].tasks["a-0"].node == "m"


def test_ages_delays_and_graces_are_counted_from_now():
    timed = {"age_minutes": 2, "preemption_delay_s": 600, "staleness_grace_s": -1}
    (gang,) = snapshot(job("a", PENDING, **timed), actions=ALL).gangs
    assert (gang.created_at, gang.displaces_after_s, gang.stale_after_s) == (NOW - 120, 600, -1)


def test_nothing_is_stale_where_nobody_looks_for_it():
    assert snapshot(job("a", PENDING), actions=["preempt"]).gangs[0].stale_after_s == -1
    assert snapshot(job("a", PENDING), actions=["stalegangeviction"]).gangs[0].stale_after_s is None


def test_who_may_reclaim_may_also_move_and_who_may_only_allocate_does_neither():
    assert snapshot(actions=["reclaim"]).settings.displacing == (
        Displacing.CONSOLIDATE,
        Displacing.RECLAIM,
    )
    assert snapshot(actions=["allocate"]).settings.displacing == ()


def test_a_place_that_is_held_already_is_a_firm_hold():
    held = on("n", "Pipelined", gpu_groups=["g"])
    (hold,) = snapshot(job("a", held, request=HALF)).holds
    assert hold.firm
    assert hold.claims[0].devices == (Slice(0, 500),)


def test_what_runs_where_nothing_is_left_cannot_be_told_in_our_words():
    crowded = scenario(job("a", on("n"), on("n"), on("n")))
    with pytest.raises(Untranslatable, match="more runs on a node than its GPUs hold"):
        translate(crowded)
    assert judge(crowded).differences[0].startswith("it cannot be played")


# --- trees of groups ------------------------------------------------------------------------------


def gang_of(tree: dict[str, Any], *subgroups: str, **fields: Any) -> Gang:
    """The gang of a job whose tasks belong to these podsets."""
    tasks = [{"subgroup": each} | fields for each in subgroups]
    return snapshot(job("a", *tasks, gang=tree)).gangs[0]


def podset(name: str, least: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "min_available": least} | fields


def test_nested_groups_stand_side_by_side_under_their_paths():
    tree = {"podsets": [podset("x", 2)], "groups": [{"name": "g", "podsets": [podset("y")]}]}
    found = gang_of(tree, "x", "x", "y")
    assert [(each.name, each.minimum) for each in found.groups] == [("x", 2), ("g/y", 1)]


def test_of_parts_of_which_only_some_are_needed_the_first_count():
    tree = {"podsets": [podset("x"), podset("y")], "min_subgroups": 1}
    assert [each.minimum for each in gang_of(tree, "x", "y").groups] == [1, 0]


def test_a_part_that_runs_counts_before_one_that_does_not():
    tree = {"podsets": [podset("x"), podset("y")], "min_subgroups": 1}
    tasks = ({"subgroup": "x"}, on("n", subgroup="y"))
    (gang,) = snapshot(job("a", *tasks, gang=tree)).gangs
    assert [each.minimum for each in gang.groups] == [0, 1]


def test_podsets_that_must_lie_close_to_each_other_become_one_group():
    near = {"topology": "net", "required": "rack"}
    group = {"name": "g", "podsets": [podset("x"), podset("y")], "topology": near}
    (found,) = gang_of({"groups": [group]}, "x", "y").groups
    assert (found.name, found.minimum, found.domain) == ("g", 2, Domain("net", "rack"))


def test_closeness_that_is_required_outweighs_what_is_preferred():
    near = {"topology": "net", "required": "zone", "preferred": "rack"}
    tree = {"podsets": [podset("x")], "topology": near}
    assert gang_of(tree, "x").domain == Domain("net", "zone")


def test_closeness_that_names_nothing_asks_for_nothing():
    assert gang_of({"podsets": [podset("x")], "topology": {}}, "x").domain is None


def test_a_task_of_a_group_that_its_gang_lacks_cannot_be_told():
    with pytest.raises(Untranslatable, match="sub-group that its gang lacks"):
        gang_of({"podsets": [podset("x")]}, "y")


# --- playing --------------------------------------------------------------------------------------


def test_one_pass_binds_what_fits_and_leaves_the_rest():
    assert states(scenario(job("a", PENDING, PENDING), job("b", PENDING))) == {
        "a-0": "Binding",
        "a-1": "Binding",
        "b-0": "Pending",
    }


def test_a_pass_that_may_not_allocate_leaves_those_for_whom_there_is_room():
    assert states(scenario(job("a", PENDING), actions=["preempt"])) == {"a-0": "Pending"}


def test_a_victim_is_releasing_and_its_place_is_kept_for_the_one_that_gains():
    low, high = job("a", on("n", gpus=2)), job("b", {"gpus": 2}, priority=90)
    assert states(scenario(low, high, actions=["preempt"])) == {
        "a-0": "Releasing",
        "b-0": "Pipelined",
    }


def test_in_a_full_cycle_the_victim_waits_again_and_the_one_that_gains_runs():
    low, high = job("a", on("n", gpus=2)), job("b", {"gpus": 2}, priority=90)
    played = play(cycle(low, high))
    assert len(played.moments) == 6
    assert {name: each.status for name, each in played.moments[-1].tasks.items()} == {
        "a-0": TaskStatus.PENDING,
        "b-0": TaskStatus.RUNNING,
    }


@pytest.mark.parametrize(
    ("state", "fields"), [("StuckInReleasing", {}), ("Releasing", {"stays_releasing": True})]
)
def test_what_never_finishes_terminating_stays(state: str, fields: Any):
    assert states(cycle(job("a", on("n", state), **fields))) == {"a-0": state}


def test_what_terminates_by_itself_waits_again_and_starts_anew():
    assert states(cycle(job("a", on("n", "Releasing")))) == {"a-0": "Running"}


def test_a_shared_gpu_is_being_freed_only_if_all_who_share_it_leave():
    stays = job("a", on("n", gpu_groups=["g"]), request=HALF)
    leaves = job("b", on("n", "Releasing", gpu_groups=["g"]), request=HALF, stays_releasing=True)
    assert play(cycle(stays, leaves)).moments[0].nodes["n"] == Gpus(idle=1, releasing=0)
    assert play(cycle(leaves)).moments[0].nodes["n"] == Gpus(idle=1, releasing=1)


def test_a_gang_below_its_minimum_goes_at_once_in_rounds_and_after_a_minute_in_one_pass():
    torn = job("a", on("n"), {"state": "Failed"}, stale_for_s=30)
    assert states(cycle(torn))["a-0"] == "Pending"
    assert states(scenario(torn, actions=["stalegangeviction"]))["a-0"] == "Running"


# --- judging --------------------------------------------------------------------------------------


def test_a_state_that_is_expected_and_found_agrees():
    expect = {"jobs": {"a": {"status": "Binding", "node": "n"}}, "max_binds": 1}
    verdict = judge(scenario(job("a", PENDING), expect=expect))
    assert verdict.agree
    assert verdict.agree_with_nodes
    assert verdict.differences == ()


def test_a_state_that_differs_is_one_sentence():
    verdict = judge(scenario(job("a", PENDING), expect={"tasks": {"a-0": {"status": "Pending"}}}))
    assert not verdict.agree
    assert verdict.differences == ("a-0 should be Pending and is Binding on n",)


def test_another_node_agrees_in_its_state_only():
    expect = {"jobs": {"a": {"status": "Binding", "node": "m"}}}
    verdict = judge(scenario(job("a", PENDING), expect=expect))
    assert (verdict.agree, verdict.agree_with_nodes) == (True, False)
    assert verdict.differences == ("a-0 should be on m and is on n",)


def test_more_evictions_than_allowed_break_an_invariant_and_more_binds_do_not():
    low, high = job("a", on("n", gpus=2)), job("b", {"gpus": 2}, priority=90)
    evicting = judge(scenario(low, high, actions=["preempt"], expect={"max_evictions": 0}))
    binding = judge(scenario(job("a", PENDING), expect={"max_binds": 0}))
    assert (evicting.invariants_hold, binding.invariants_hold) == (False, True)
    assert not binding.agree_with_nodes


def test_rest_that_does_not_last_is_told_with_the_round():
    told = cycle(job("a", PENDING), expect={"jobs": {"a": {"status": "Running"}}})
    played, other = play(told), play(cycle(job("a", PENDING, queue="nowhere")))
    played.moments[3] = other.moments[0]
    (found,) = compare(told, played).differences
    assert (
        found == "a-0 should be Running and is Pending (3 rounds after it should have come to rest)"
    )


def test_binding_counts_as_running_once_a_round_is_over():
    assert judge(cycle(job("a", PENDING), expect={"jobs": {"a": {"status": "Binding"}}})).agree


# --- the laws -------------------------------------------------------------------------------------


def broken(
    told: schema.ForeignScenario, *actions: Bind | Evict, holds: tuple[Hold, ...] = ()
) -> list[str]:
    """What is wrong with a plan that no engine should make."""
    cluster, plan = Cluster.of(translate(told).snapshot), Plan(actions, holds=holds)
    cluster.assume(plan)
    return broken_laws(cluster, plan, dict.fromkeys(cluster.gangs, True))


def id_of(name: str) -> TaskId:
    gang, _, index = name.rpartition("-")
    return TaskId(f"{gang}/{int(index):05}.0000")


def test_a_device_given_twice_breaks_a_law():
    told = scenario(job("a", on("n")), job("b", PENDING))
    assert broken(told, Bind(id_of("b-0"), "n", (Slice(1, 1000),))) == []
    (found,) = broken(told, Bind(id_of("b-0"), "n", (Slice(0, 1000),)))
    assert found == "node n gives 2000 thousandths of its device 0"


def test_more_cpu_than_a_node_has_breaks_a_law():
    told = scenario(node("n", cpu=1), job("a", PENDING, request={"cpu": 2}))
    (found,) = broken(told, Bind(id_of("a-0"), "n"))
    assert found == "node n gives 2000 of its 1000 cpu"


def test_a_place_held_where_somebody_stays_breaks_a_law():
    told = scenario(job("a", on("n")), job("b", PENDING))
    asked = Request(gpu=GpuRequest())
    hold = Hold(GangId("b"), (PlaceClaim(id_of("b-0"), "n", (Slice(0, 1000),), asked),), firm=True)
    assert broken(told, holds=(hold,)) == ["node n gives 2000 thousandths of its device 0"]


def test_a_place_held_where_somebody_leaves_does_not():
    told = scenario(job("a", on("n")), job("b", PENDING))
    asked = Request(gpu=GpuRequest())
    hold = Hold(GangId("b"), (PlaceClaim(id_of("b-0"), "n", (Slice(0, 1000),), asked),), firm=True)
    leaves = Evict(id_of("a-0"), EvictionRule.PRIORITY, GangId("b"))
    assert broken(told, leaves, holds=(hold,)) == []


def test_part_of_a_gang_bound_or_left_behind_breaks_a_law():
    starting = scenario(job("a", PENDING, PENDING))
    running = scenario(job("a", on("n"), on("n")))
    sentence = "job a is left with less than it needs to run"
    assert broken(starting, Bind(id_of("a-0"), "n", (Slice(0, 1000),))) == [sentence]
    assert broken(running, Evict(id_of("a-0"), EvictionRule.STALE)) == [sentence]


def test_a_queue_above_its_limit_breaks_a_law():
    told = scenario(queue("q", 1, limit=1), job("a", on("n")), job("b", PENDING))
    (found,) = broken(told, Bind(id_of("b-0"), "n", (Slice(1, 1000),)))
    assert found == "queue q gets 2000 gpu, above its limit of 1000"


def test_an_eviction_for_nobody_breaks_a_law_unless_the_gang_is_stale():
    told = scenario(job("a", on("n")), job("b", PENDING))
    assert broken(told, Evict(id_of("a-0"), EvictionRule.STALE)) == []
    (found,) = broken(told, Evict(id_of("a-0"), EvictionRule.SHARE, GangId("b")))
    assert found.endswith("is evicted for b, which gets nothing")


# --- the command and the corpus -------------------------------------------------------------------


def run(tmp_path: Path, *scenarios: schema.ForeignScenario, options: tuple[str, ...] = ()) -> Any:
    file = tmp_path / "scenarios.json"
    file.write_bytes(msgspec.json.encode({"scenarios": scenarios}))
    return CliRunner().invoke(windlass, ["conformance", str(file), *options])


def test_the_command_counts_each_case_in_one_group(tmp_path: Path):
    agreeing = scenario(job("a", PENDING), expect={"jobs": {"a": {"status": "Binding"}}})
    differing = cycle(job("a", PENDING), expect={"jobs": {"a": {"status": "Pending"}}})
    near = scenario(job("a", PENDING), features=["topology"], id="near")
    found = json.loads(run(tmp_path, agreeing, differing, near, options=("--json",)).stdout)
    assert (found["total"], found["agree"]) == (3, 2)
    assert found["groups"] == {
        "full_cycle": {"total": 1, "agree": 0},
        "single_pass": {"total": 1, "agree": 1},
        "sub_groups_or_topology": {"total": 1, "agree": 1},
    }


def test_a_difference_alone_is_no_failure_but_a_broken_invariant_is(tmp_path: Path):
    differing = scenario(job("a", PENDING), expect={"jobs": {"a": {"status": "Pending"}}})
    low, high = job("a", on("n", gpus=2)), job("b", {"gpus": 2}, priority=90)
    breaking = scenario(low, high, actions=["preempt"], expect={"max_evictions": 0})
    assert run(tmp_path, differing).exit_code == 0
    assert run(tmp_path, breaking).exit_code == 1


def test_only_the_cases_that_are_asked_for_are_played(tmp_path: Path):
    two = (scenario(job("a", PENDING), id="one"), scenario(job("a", PENDING), id="two"))
    found = json.loads(run(tmp_path, *two, options=("--json", "--only", "tw")).stdout)
    assert [each["id"] for each in found["cases"]] == ["two"]


def test_in_the_whole_corpus_no_law_is_broken_and_no_task_is_lost(
    require: Callable[[Path | None, str], Path],
):
    for told in schema.read(require(_corpus(), SKIP).read_bytes(), "corpus"):
        played = play(told)
        names = {task.name for each in told.jobs for task in each.tasks}
        assert played.broken == [], told.id
        assert all(set(moment.tasks) == names for moment in played.moments), told.id


SKIP = "WINDLASS_DATA names no folder with conformance/kai_scenarios.json, beside it or in it"


def _corpus() -> Path | None:
    """The data folder holds it, or the folder around it does."""
    data = os.environ.get("WINDLASS_DATA")
    if not data:
        return None
    around = (Path(data), Path(data).parent)
    files = (each / "conformance" / "kai_scenarios.json" for each in around)
    return next((file for file in files if file.exists()), None)
