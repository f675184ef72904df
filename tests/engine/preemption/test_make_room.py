"""The loop of pass two: holds, stale gangs, the step budget and repeated searches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.given import (
    RACKS,
    TEAM,
    Outcome,
    ask,
    cluster,
    group,
    grouped,
    job,
    let_go,
    node,
    outcome_of,
    pods,
    queue,
    rack,
    submit,
    where,
    within,
)
from tests.support.preemption_given import LATER, ONE, TAKES, TWO, late, only, runs
from windlass.model.actions import EvictionRule
from windlass.model.constraints import HOSTNAME, Constraints, Spread
from windlass.model.events import EvictFailed, GangGone, GangSeen, NodeSeen, TaskEnded, TaskGone
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.model.settings import Packing, Settings
from windlass.state.cluster import Cluster

# --- holds ----------------------------------------------------------------------------------------


WEB = {"app": "web"}


def wishes(which: str, app: str = "web") -> Constraints:
    """Return pod affinity to, or anti-affinity against, tasks of an app, per node."""
    them = (pods(app),)
    return Constraints(near=them) if which == "near" else Constraints(apart=them)


def making_room() -> Outcome:
    """Plan in which `low` is evicted for `high`."""
    return late(node("n1", gpus=1), runs("low", 0), job("high", 1, ONE, priority=1))


def test_a_hold_survives_cycles_and_a_restart():
    there = making_room().carried_out()
    for _ in range(3):
        there.advance(there.now + 10)
        there = Cluster.of(outcome_of(there).carried_out().snapshot())
    assert outcome_of(there).held == {"high": ["n1"]}
    let_go(there)
    assert outcome_of(there).started("high") == 1


def test_no_second_victim_is_evicted_while_the_first_terminates():
    there = making_room().carried_out()
    there.advance(there.now + 10)
    assert outcome_of(there).evicted == {}


@pytest.mark.parametrize("fields", [{"priority": 9}, {"queue": "owner"}, {"duration_s": 1}])
def test_a_held_place_is_taken_by_no_other_gang(fields: dict[str, Any]):
    tree = queue(TEAM), queue("owner", gpus=1)
    things = node("n1", gpus=1), runs("low", 0), job("high", 1, ONE, priority=1)
    there = late(*tree, *things).carried_out()
    submit(there, job("late", 1, ONE, **fields))
    let_go(there)
    found = outcome_of(there)
    assert (found.started("high"), found.started("late")) == (1, 0)


@pytest.mark.parametrize("wish", ["near", "apart"])
def test_no_new_pod_violates_the_affinity_of_a_held_place(wish: str):
    """`high` has affinity to its own app, or against it: `late` must not start before it."""
    high = job("high", 1, ONE, priority=1, labels=WEB, constraints=wishes(wish))
    nodes = node("n1", gpus=1), node("n2", gpus=0)
    there = late(*nodes, runs("low", 0), high).carried_out()
    submit(there, job("late", labels=WEB, constraints=only("n2" if wish == "near" else "n1")))
    there = outcome_of(there).carried_out()
    assert there.tasks[TaskId("late-0")].state == TaskState.WAITING
    let_go(there)
    assert outcome_of(there).started("high") == 1


def test_no_new_pod_violates_the_spread_of_held_places():
    """Two tasks of `high` come to n1; the spread allows two more there than on n2, so no third."""
    evenly = Constraints(spread=(Spread(HOSTNAME, 2, where("app", "web")),))
    high = job("high", 2, ONE, priority=1, labels=WEB, constraints=evenly)
    there = late(node("n1", gpus=2), node("n2", gpus=0), runs("low", 0, 1), high).carried_out()
    submit(there, job("late", labels=WEB, constraints=only("n1")))
    there = outcome_of(there).carried_out()
    assert there.tasks[TaskId("late-0")].state == TaskState.WAITING
    let_go(there)
    assert outcome_of(there).started("high") == 2


def test_the_affinity_target_of_a_held_place_is_not_moved():
    """Only `low` may be evicted for `wide`: `high` has affinity to `db` and comes to its node."""
    high = job("high", 1, ONE, priority=2, constraints=wishes("near", "db"))
    db = job("db", 1, ask(cpu=1), labels={"app": "db"}).runs(0, on="n1")
    there = late(node("n1", gpus=1, cpu_milli=2), node("n2", cpu_milli=1), db, runs("low", 0), high)
    there = there.carried_out()
    submit(there, job("wide", 1, ask(cpu=2), priority=1, constraints=only("n1")))
    there.advance(there.now + 10)
    found = outcome_of(there)
    assert "db-0" not in found.evicted
    there = found.carried_out()
    let_go(there)
    assert outcome_of(there).started("high") == 1


def test_a_hold_ends_with_its_gang():
    there = making_room().carried_out()
    let_go(there)
    there.apply(GangGone(GangId("high")))
    assert outcome_of(there).started("low") == 1


def test_a_refused_eviction_leaves_its_task_running():
    there = making_room().carried_out()
    there.apply(EvictFailed(TaskId("low-0")))
    assert there.tasks[TaskId("low-0")].state == TaskState.RUNNING
    assert there.tasks[TaskId("low-0")].releasing_since is None


def test_after_a_refused_eviction_another_victim_is_searched():
    there = making_room().carried_out()
    there.apply(EvictFailed(TaskId("low-0")))
    there.advance(there.now + 700)
    found = outcome_of(there)
    assert set(found.evicted) == {"low-0"}


def test_a_stuck_victim_is_given_up_and_another_is_searched():
    nodes = node("n1", gpus=1), node("n2", gpus=1)
    running = runs("a", 0, saved_at=999), runs("b", 0, on="n2")
    there = late(*nodes, *running, job("high", 1, ONE, priority=1), **TAKES)
    assert set(there.evicted) == {"a-0"}
    stuck = there.carried_out()
    stuck.advance(LATER + 600)
    assert outcome_of(stuck).evicted == {}
    stuck.advance(LATER + 601)
    found = outcome_of(stuck)
    assert (set(found.evicted), found.held) == ({"b-0"}, {"high": ["n2"]})
    assert outcome_of(found.settled()).started("high") == 1


def test_a_gang_that_fits_on_terminating_places_evicts_nothing():
    leaving = runs("gone", 0).become(0, state=TaskState.RELEASING, releasing_since=LATER)
    things = node("n1", gpus=2), leaving, runs("low", 1), job("high", 1, ONE, priority=1)
    outcome = late(*things)
    assert (outcome.evicted, outcome.held) == ({}, {"high": ["n1"]})


# --- stale gangs ----------------------------------------------------------------------------------


def half(**fields: Any) -> Cluster:
    """Return a cluster with half a gang: its other member was lost at 1000, and nothing is free."""
    gang = job("half", 2, ONE, **fields)
    gang = gang.runs(0, on="n1", devices=[0]).runs(1, on="n2", devices=[0])
    there = cluster(node("n1", gpus=1), node("n2", gpus=1), gang, now=LATER)
    there.apply(NodeSeen(replace(node("n2", gpus=1), cordoned=True)))
    there.apply(TaskGone(TaskId("half-1")))
    return there


@pytest.mark.parametrize(("fields", "grace"), [({}, 60), ({"stale_after_s": 5}, 5)])
def test_a_stale_gang_is_evicted_after_a_grace(fields: dict[str, int], grace: int):
    there = half(**fields)
    there.advance(LATER + grace - 1)
    found = outcome_of(there)
    assert (found.evicted, found.plan.wake_at) == ({}, LATER + grace)
    there.advance(LATER + grace)
    assert outcome_of(there).evicted == {"half-0": EvictionRule.STALE}


def test_a_negative_grace_never_evicts_a_stale_gang():
    there = half(stale_after_s=-1)
    there.advance(LATER + 10**6)
    assert outcome_of(there).evicted == {}


def test_a_broken_gang_is_not_evicted_while_places_are_held_for_its_rest():
    half = job("half", 2, ONE, priority=1).runs(0, on="n1", devices=[0])
    there = late(node("n1", gpus=2), half, runs("low", 1), stale_after_s=60).carried_out()
    there.advance(there.now + 120)
    assert outcome_of(there).evicted == {}
    let_go(there)
    assert outcome_of(there).started("half") == 1


def test_places_of_a_stale_gang_are_used_in_the_same_cycle():
    there = half()
    there.advance(LATER + 60)
    submit(there, job("next", 1, ONE))
    found = outcome_of(there)
    assert found.held == {"next": ["n1"]}


# --- shapes and places ----------------------------------------------------------------------------


def test_room_is_made_inside_one_domain():
    nodes = *rack("r1", "n1", "n2", gpus=1), *rack("r2", "n3", gpus=2)
    running = runs("a", 0), runs("b", 0, on="n2", priority=9), runs("c", 0, 1, on="n3")
    high = job("high", 2, ONE, priority=1, domain=within("rack"))
    outcome = late(RACKS, *nodes, *running, high, **TAKES)
    assert (set(outcome.evicted), outcome.held) == ({"c-0"}, {"high": ["n3", "n3"]})


def test_a_fraction_evicts_one_fraction():
    half_gpu = ask(gpus=1, milli=500)
    running = [job(name, 1, half_gpu, created_at=at).runs(0, on="n1", devices=[Slice(0, 500)])
               for at, name in enumerate(("a", "b"))]  # fmt: skip
    outcome = late(node("n1", gpus=1), *running, job("high", 1, half_gpu, priority=1))
    assert set(outcome.evicted) == {"b-0"}


def test_a_whole_gpu_evicts_all_fractions_of_one_gpu():
    half_gpu = ask(gpus=1, milli=500)
    running = [job(name, 1, half_gpu).runs(0, on="n1", devices=[Slice(device, 500)])
               for name, device in (("a", 0), ("b", 0), ("c", 1), ("firm", 1))]  # fmt: skip
    running[3] = replace(running[3], gang=replace(running[3].gang, priority=9))
    outcome = late(node("n1", gpus=2), *running, job("high", 1, ONE, priority=1), **TAKES)
    assert set(outcome.evicted) == {"a-0", "b-0"}


def test_a_mig_instance_evicts_another_instance():
    small = ask(gpus=1, profile="3g.40gb")
    running = [job(name, 1, small).runs(0, on="n1", devices=[Slice(0, 500, "3g.40gb", start)])
               for name, start in (("a", 0), ("b", 4))]  # fmt: skip
    high = job("high", 1, ask(gpus=1, profile="7g.80gb"), priority=1)
    outcome = late(node("n1", gpus=1, mig=True), *running, high)
    assert set(outcome.evicted) == {"a-0", "b-0"}
    assert outcome_of(outcome.settled()).started("high") == 1


# --- the search -----------------------------------------------------------------------------------


def crowd() -> list[Any]:
    """Return ten nodes with a gang of low priority on each, and ten gangs that need one each."""
    nodes = [node(f"n{i}", gpus=1) for i in range(10)]
    running = [runs(f"low{i}", 0, on=f"n{i}") for i in range(10)]
    return [*nodes, *running, *(job(f"high{i}", 1, ONE, priority=1) for i in range(10))]


def test_a_small_step_budget_spreads_searches_over_cycles():
    assert len(late(*crowd()).evicted) == 10
    there = cluster(*crowd(), now=LATER, settings=Settings(search_steps=1))
    gone: list[int] = []
    while sum(gone) < 10 and len(gone) < 30:
        found = outcome_of(there)
        gone.append(len(found.evicted))
        there = found.carried_out()
        there.advance(found.plan.wake_at or there.now)
    assert (sum(gone), max(gone)) == (10, 1)


def test_the_step_budget_does_not_delay_gangs_that_fit():
    there = cluster(*crowd(), now=LATER, settings=Settings(search_steps=1))
    there.apply(NodeSeen(node("new", gpus=0)))
    submit(there, job("fits", 1, ask(cpu=1000)))
    assert outcome_of(there).started("fits") == 1


def test_searches_continue_where_they_stopped_even_after_a_restart():
    hopeless = [job(f"w{i}", 1, ONE, queue="b", user=f"u{i}") for i in range(3)]
    low, high = runs("low", 0, queue="a"), job("high", 1, ONE, queue="a", priority=1)
    things = queue("a", gpus=1), queue("b"), node("n1", gpus=1), low, high, *hopeless
    there = cluster(*things, now=LATER, settings=Settings(search_steps=1))
    found = outcome_of(there)
    for _ in range(5):
        if not found.evicted:
            there = Cluster.of(found.carried_out().snapshot())
            there.advance(there.now + 1)
            found = outcome_of(there)
    assert set(found.evicted) == {"low-0"}  # the search has reached the gang that can be helped


def test_a_hopeless_search_is_repeated_once_something_has_changed():
    things = (
        queue(TEAM),
        node("n1", gpus=1),
        runs("low", 0, priority=5),
        job("a", 1, ONE, priority=5),
    )
    there = cluster(*things, now=LATER)
    assert outcome_of(there).evicted == {}
    there.apply(GangSeen(replace(there.gangs[GangId("low")], priority=0)))
    there.advance(LATER + 300)
    assert set(outcome_of(there).evicted) == {"low-0"}


def test_a_gang_that_fits_on_free_room_evicts_nothing():
    there = making_room().carried_out()
    there.apply(TaskEnded(TaskId("low-0")))
    found = outcome_of(there)
    assert (found.started("high"), found.evicted, found.held) == (1, {}, {})


# --- past faults ----------------------------------------------------------------------------------


def comes_to_rest(*things: Any) -> bool:
    """Return whether nothing is left to do after some cycles, without the effect of past usage."""
    still = Settings(usage_effect=0, dwell_s=0, search_again_s=0)
    there = cluster(*things, now=LATER, settings=still)
    for _ in range(12):
        found = outcome_of(there)
        if not found.plan.actions:
            return True
        there = found.settled(seconds=30)
    return False


def test_one_gang_is_evicted_while_another_would_grow_in_the_same_cycle():
    small, large = ask(gpus=1, profile="3g.40gb"), ask(gpus=1, profile="7g.80gb")
    low = job("low", 1, small).runs(0, on="n1", devices=[Slice(0, 500, "3g.40gb", 0)])
    grows = job("grows", 2, ONE, minimum=1, priority=2, group_domain=within("rack"))
    grows = grows.runs(0, on="n2", devices=[0])
    nodes = *rack("r1", "n1", gpus=1, mig=True), *rack("r2", "n2", gpus=1)
    outcome = late(RACKS, *nodes, low, grows, job("high", 1, large, priority=1))
    assert set(outcome.evicted) == {"low-0"}


def test_a_preemptor_is_bound_where_its_places_are_held():
    parts = group("half", 1, ask(gpus=1, milli=500)), group("whole", 1, ONE)
    half_gpu = job("half", 1, ask(gpus=1, milli=500), priority=9)
    half_gpu = half_gpu.runs(0, on="n1", devices=[Slice(1, 500)])
    things = node("n1", gpus=2), half_gpu, runs("low", 0), grouped("high", *parts, priority=1)
    there = late(*things, gpus=Packing.SPREAD)
    assert set(there.evicted) == {"low-0"}
    assert outcome_of(there.settled()).started("high") == 2


def test_a_preemptor_on_several_nodes_is_bound_where_its_places_are_held():
    parts = group("two", 1, TWO), group("ones", 2, ONE)
    nodes = node("n1", gpus=2, pods=1), node("n2", gpus=2, cpu_milli=10_000)
    low = job("low", 2, TWO).runs(0, on="n1", devices=[0, 1]).runs(1, on="n2", devices=[0, 1])
    there = late(*nodes, low, grouped("high", *parts, priority=1))
    assert there.held == {"high": ["n1", "n2", "n2"]}
    assert outcome_of(there.settled()).started("high") == 3


def test_a_later_reservation_does_not_block_a_preemptor():
    """`big` has a reservation on the GPUs of `old`, with a third pod slot that does not exist."""
    things = queue("a"), queue("b"), node("n1", gpus=4, pods=3)
    running = runs("b0", 2, queue="b"), runs("a0", 0, queue="a"), runs("old", 1, 3, queue="a")
    old, due = job("big", 1, TWO, queue="a"), job("due", 1, ONE, queue="b", created_at=1900)
    young = [each.become(0, started_at=1000) for each in running]
    there = late(*things, *young, old, due, now=2000)
    assert set(there.evicted) == {"a0-0"}
    assert outcome_of(there.settled()).started("due") == 1


def test_a_gang_repaired_in_this_cycle_is_no_victim():
    broken = job("broken", 2, ONE).runs(0, on="n1", devices=[0])
    high = job("high", 1, ONE, priority=1, constraints=only("n1"))
    outcome = late(node("n1", gpus=1), node("n2", gpus=1), broken, high)
    assert outcome.started("broken") == 0 or outcome.evicted == {}


def test_two_queues_do_not_reclaim_by_turns_in_different_dimensions():
    """Of 2 GPUs `x1` is due 0.667 and `x2` 1.333; of 1.75 of their model, 0.583 and 1.167."""
    top = queue("x", guarantee={"gpu": 3000, "gpu/A100-80GB": 1500}), queue("z")
    tree = *top, queue("x1", "x"), queue("x2", "x", weight=2)
    one, two = job("one", 1, ONE, queue="x1"), runs("two", 0, 1, tasks=2, queue="x2")
    never = job("never", 2, TWO, queue="z")
    assert comes_to_rest(*tree, node("n1", gpus=2), one, two, never)


def test_no_preemption_for_a_gang_that_another_queue_would_reclaim_at_once():
    """Shares are 1.5 each: `a` stands above with 2, `small` takes its place, `high` takes that and
    the rest, and `a` reclaims it; round and round."""
    tree = queue("x"), queue("y")
    parts = replace(group("", 1, ONE), constraints=only("n1")), group("far", 1, ONE)
    a = grouped("a", *parts, queue="x").runs(0, on="n1", devices=[0]).runs(1, on="n2", devices=[0])
    small = job("small", 1, ONE, queue="y", constraints=only("n1"))
    high = job("high", 3, ONE, queue="y", priority=1)
    assert comes_to_rest(*tree, node("n1", gpus=1), node("n2", gpus=2), a, small, high)
