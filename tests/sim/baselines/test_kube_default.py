"""What Kubernetes does by itself, as far as the comparison models it."""

from __future__ import annotations

from dataclasses import replace

from tests.given import Thing, ask, cluster, job, node, pods, rack, where
from tests.support.small_workloads import arrives, record, work
from windlass.model.constraints import (
    HOSTNAME,
    Constraints,
    Effect,
    Preference,
    Spread,
    Taint,
    Toleration,
)
from windlass.model.gpus import Slice
from windlass.sim.baselines.kube_default import default
from windlass.sim.records import GangStage
from windlass.sim.run import Simulation

ONE = ask(gpus=1)


def places(*things: Thing) -> dict[str, str]:
    return {str(bind.task): bind.node for bind in default(cluster(*things)).binds}


def devices(*things: Thing) -> dict[str, tuple[Slice, ...]]:
    return {str(bind.task): bind.devices for bind in default(cluster(*things)).binds}


def test_a_gang_that_does_not_fit_whole_takes_what_there_is():
    assert places(node("n", gpus=2), job("a", 3, ONE)) == {"a-0": "n", "a-1": "n"}


def test_two_gangs_with_a_part_each_block_each_other_for_good_where_windlass_runs_both():
    on_n2 = Constraints(selector=((HOSTNAME, "n2"),))
    workload = work(
        node("n1", gpus=2),
        node("n2", gpus=2),
        arrives(job("early", 1, ONE, constraints=on_n2), runs=50),
        arrives(job("a", 2, ask(gpus=2)), at=1),
        arrives(job("b", 3, ONE), at=2),
    )
    theirs, ours = Simulation(workload, default), Simulation(workload)
    theirs.run()
    ours.run()
    assert [record(theirs, name).stage for name in "ab"] == [GangStage.WAITING, GangStage.WAITING]
    assert [each.gang.id for each in theirs.world.half_started()] == ["a", "b"]
    assert [record(ours, name).stage for name in "ab"] == [GangStage.FINISHED, GangStage.FINISHED]


def test_a_pod_that_fits_nowhere_does_not_hold_up_the_next():
    assert places(node("n", gpus=1), job("a", 1, ask(gpus=2)), job("b", 1, ONE)) == {"b-0": "n"}


def test_the_older_and_before_it_the_more_important_comes_first():
    old, new = job("b", 1, ONE, created_at=1), job("a", 1, ONE, created_at=2)
    assert places(node("n", gpus=1), old, new) == {"b-0": "n"}
    urgent = job("c", 1, ONE, created_at=3, priority=5)
    assert places(node("n", gpus=1), old, new, urgent) == {"c-0": "n"}


def test_a_part_of_a_gpu_takes_a_whole_one():
    half, some = ask(gpus=1, milli=500), ask(gpus=1, memory_mib=1024)
    given = devices(node("n", gpus=3), job("a", 2, half), job("b", 2, some))
    assert given == {"a-0": (Slice(0, 1000),), "a-1": (Slice(1, 1000),), "b-0": (Slice(2, 1000),)}


def test_mig_instances_are_given_as_asked():
    small, large = ask(gpus=1, profile="1g.10gb"), ask(gpus=2, profile="3g.40gb")
    given = devices(node("n", gpus=1, mig=True), job("a", 1, large), job("b", 1, small))
    assert [each.start for each in given["a-0"]] == [0, 4]
    assert "b-0" not in given


def test_whole_gpus_are_not_taken_from_cut_or_broken_devices():
    broken = node("n1", gpus=1)
    broken = replace(broken, gpus=tuple(replace(gpu, healthy=False) for gpu in broken.gpus))
    assert places(broken, node("n2", gpus=1, mig=True), job("a", 1, ONE)) == {}


def test_gpu_models_are_respected():
    wanted = ask(gpus=1, models=("H100-80GB",))
    nodes = node("n1", gpus=1), node("n2", gpus=1, model="H100-80GB")
    assert places(*nodes, job("a", 1, wanted)) == {"a-0": "n2"}


def test_pods_are_spread_over_the_emptiest_nodes():
    task = ask(gpus=1, cpu=8000, memory=1024)
    found = places(node("n1", gpus=2), node("n2", gpus=2), job("a", 2, task))
    assert sorted(found.values()) == ["n1", "n2"]


def test_what_runs_already_takes_room():
    running = job("r", 1, ask(gpus=1, cpu=60_000)).runs(0, on="n", devices=[0])
    assert places(node("n", gpus=2), running, job("a", 1, ask(gpus=1, cpu=8000))) == {}
    found = devices(node("n", gpus=2), running, job("a", 1, ask(gpus=1, cpu=4000)))
    assert found == {"a-0": (Slice(1, 1000),)}


def test_pod_slots_and_named_extras_are_limits_too():
    assert places(node("n", gpus=2, pods=1), job("a", 2, ONE)) == {"a-0": "n"}
    wanted = ask(gpus=1, extra={"rdma": 1})
    assert places(node("n", gpus=2, extra={"rdma": 1}), job("a", 2, wanted)) == {"a-0": "n"}


def test_selectors_affinity_taints_and_cordons_keep_pods_away():
    nodes = (
        node("n1", gpus=1, labels={"disk": "ssd"}, taints=(Taint("x"),)),
        node("n2", gpus=1, labels={"disk": "ssd"}, cordoned=True),
        node("n3", gpus=1, labels={"disk": "hdd"}),
    )
    by_selector = Constraints(selector=(("disk", "ssd"),))
    by_affinity = Constraints(affinity=(where("disk", "ssd"),))
    for constraints in (by_selector, by_affinity):
        assert places(*nodes, job("a", 1, ONE, constraints=constraints)) == {}
        tolerant = replace(constraints, tolerations=(Toleration("x", exists=True),))
        assert places(*nodes, job("a", 1, ONE, constraints=tolerant)) == {"a-0": "n1"}


def test_preferences_and_soft_taints_choose_among_nodes():
    soft = Taint("x", effect=Effect.PREFER_NO_SCHEDULE)
    assert places(node("n1", gpus=1, taints=(soft,)), node("n2", gpus=1), job("a", 1, ONE)) == {
        "a-0": "n2"
    }
    wish = Constraints(preferences=(Preference(10, where("disk", "ssd")),))
    nodes = node("n1", gpus=1), node("n2", gpus=1, labels={"disk": "ssd"})
    assert places(*nodes, job("a", 1, ONE, constraints=wish)) == {"a-0": "n2"}


def test_pods_that_must_be_apart_are_and_those_that_must_be_near_follow():
    nodes = (*rack("r1", "n1", "n2", gpus=2), *rack("r2", "n3", gpus=2))
    apart = Constraints(apart=(pods("a"),))
    found = places(*nodes, job("a", 4, ONE, constraints=apart, labels={"app": "a"}))
    assert sorted(found.values()) == ["n1", "n2", "n3"]
    near = Constraints(near=(pods("a", per="rack"),))
    there = job("a", 1, ONE, labels={"app": "a"}).runs(0, on="n3", devices=[0])
    assert places(*nodes, there, job("b", 2, ONE, constraints=near)) == {"b-0": "n3"}


def test_the_first_of_pods_that_want_each_other_may_start():
    nodes = (*rack("r1", "n1", gpus=1), *rack("r2", "n2", gpus=2))
    near = Constraints(near=(pods("a", per="rack"),), selector=(("rack", "r2"),))
    found = places(*nodes, job("a", 2, ONE, constraints=near, labels={"app": "a"}))
    assert found == {"a-0": "n2", "a-1": "n2"}


def test_a_pod_that_keeps_others_away_does_so_before_they_come():
    lonely = job("a", 1, ONE, constraints=Constraints(apart=(pods("b"),)), labels={"app": "a"})
    there = lonely.runs(0, on="n1", devices=[0])
    nodes = node("n1", gpus=2), node("n2", gpus=1)
    assert places(*nodes, there, job("b", 2, ONE, labels={"app": "b"})) == {"b-0": "n2"}


def test_required_spread_keeps_domains_even():
    even = Constraints(spread=(Spread(HOSTNAME, 1, where("app", "a")),))
    nodes = node("n1", gpus=4), node("n2", gpus=1)
    found = places(*nodes, job("a", 5, ONE, constraints=even, labels={"app": "a"}))
    assert sorted(found.values()) == ["n1", "n1", "n2"]
