"""Reclaim, preemption and consolidation, the choice of victims, and their protection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.given import (
    TEAM,
    ask,
    cluster,
    job,
    node,
    outcome_of,
    pods,
    queue,
)
from tests.support.preemption_given import LATER, ONE, OTHER, OWNER, TAKES, TWO, late, only, runs
from windlass.engine.plan import Verdict
from windlass.model.actions import EvictionRule
from windlass.model.constraints import HOSTNAME, Constraints
from windlass.model.gpus import Slice
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Displacing

# --- reclaim --------------------------------------------------------------------------------------


def test_a_queue_reclaims_its_guarantee_from_one_above_its_own():
    borrower = runs("loan", 0, 1, queue="other")
    outcome = late(OWNER, OTHER, node("n1", gpus=2), borrower, job("due", 1, TWO, queue="owner"))
    assert outcome.evicted == {"loan-0": EvictionRule.GUARANTEE}
    assert outcome.held == {"due": ["n1"]}


def test_the_preemptor_waits_for_its_hold_and_the_victim_names_the_preemptor():
    borrower = runs("loan", 0, 1, queue="other")
    outcome = late(OWNER, OTHER, node("n1", gpus=2), borrower, job("due", 1, TWO, queue="owner"))
    assert outcome.whys("due") == {ReasonCode.HELD}
    assert outcome.verdict("loan") == Verdict.DISPLACED
    assert outcome.reason("loan", ReasonCode.LOST_BY_GUARANTEE).values["gang"] == "due"


def test_a_preemptor_is_bound_once_its_places_are_free():
    borrower = runs("loan", 0, 1, queue="other")
    there = late(OWNER, OTHER, node("n1", gpus=2), borrower, job("due", 1, TWO, queue="owner"))
    assert outcome_of(there.carried_out()).started("due") == 0
    after = outcome_of(there.settled())
    assert (after.started("due"), after.started("loan"), after.held) == (1, 0, {})


def test_nothing_is_reclaimed_from_a_queue_within_its_guarantee():
    peer = queue("peer", gpus=2)
    outcome = late(OWNER, peer, node("n1", gpus=2), runs("a", 0, 1, queue="peer"),
                   job("due", 1, TWO, queue="owner"))  # fmt: skip
    assert outcome.evicted == {}


def test_a_queue_reclaims_nothing_beyond_its_guarantee():
    outcome = late(queue("owner", gpus=1), queue("other", gpus=1), node("n1", gpus=2),
                   runs("a", 0, 1, queue="other"), job("due", 1, TWO, queue="owner"))  # fmt: skip
    assert outcome.evicted == {}


def test_a_queue_below_its_share_reclaims_from_one_above_its_own():
    running = [runs(f"a{i}", i, queue="a") for i in range(4)]
    outcome = late(
        queue("a"), queue("b"), node("n1", gpus=4), *running, job("b", 1, TWO, queue="b")
    )
    assert list(outcome.evicted.values()) == [EvictionRule.SHARE, EvictionRule.SHARE]


def test_reclaimed_gpus_may_be_borrowed_though_a_third_queue_lends_nothing():
    keeps = queue("keeps", gpus=4, lend_gpus=0)
    running = [runs(f"a{i}", i, queue="a") for i in range(4)]
    outcome = late(
        *(keeps, queue("a"), queue("b"), node("n1", gpus=8)),
        *(*running, job("b", 1, TWO, queue="b")),
    )
    assert list(outcome.evicted.values()) == [EvictionRule.SHARE, EvictionRule.SHARE]
    assert outcome_of(outcome.settled()).started("b") == 1


def test_nothing_is_reclaimed_from_a_queue_within_its_share():
    running = [*(runs(f"a{i}", i, queue="a") for i in (0, 1)), runs("b0", 2, 3, queue="b")]
    outcome = late(
        queue("a"), queue("b"), node("n1", gpus=4), *running, job("b1", 1, ONE, queue="b")
    )
    assert outcome.evicted == {}


def test_shares_follow_the_weights_of_queues():
    running = [runs(f"a{i}", i, queue="a") for i in range(3)]
    waiting = [job(f"b{i}", 1, ONE, queue="b") for i in range(3)]
    outcome = late(queue("a"), queue("b", weight=2), node("n1", gpus=3), *running, *waiting)
    assert len(outcome.evicted) == 2


def test_guaranteed_gpus_are_not_evicted_to_reclaim_cpus():
    tree = queue("owner", guarantee={"cpu": 4000}), queue("peer", gpus=1)
    there = node("n1", gpus=1, cpu_milli=4000)
    busy = job("busy", 1, ask(gpus=1, cpu=4000), queue="peer").runs(0, on="n1", devices=[0])
    due = job("due", 1, ask(cpu=1000), queue="owner")
    assert late(*tree, there, busy, due, patience_s=0).evicted == {}


def test_lacking_guaranteed_memory_is_reclaimed_though_gpus_beside_it_are_guaranteed():
    tree = queue("owner", gpus=2, guarantee={"memory": 4}), queue("peer", gpus=1)
    there = node("n1", gpus=3, memory_mib=4)
    busy = job("busy", 1, ask(gpus=1, memory=2), queue="peer").runs(0, on="n1", devices=[0])
    due = job("due", 1, ask(gpus=2, memory=4), queue="owner")
    assert late(*tree, there, busy, due, patience_s=0).evicted == {"busy-0": EvictionRule.GUARANTEE}
    roomy = replace(there, gpus=there.gpus[:2], memory_mib=8)  # GPUs lack, memory does not
    assert late(*tree, roomy, busy, due, patience_s=0).evicted == {}


def test_a_gang_without_borrowed_dimensions_is_no_victim():
    """Only a pod slot lacks, and every victim frees one: the gang with the lent GPU is evicted."""
    tree = queue("owner", gpus=2), queue("other")
    small = job("small", queue="other").runs(0, on="n1")
    things = node("n1", gpus=2, pods=2), small, runs("loan", 0, queue="other")
    outcome = late(*tree, *things, job("due", 1, ONE, queue="owner"))
    assert outcome.evicted == {"loan-0": EvictionRule.GUARANTEE}


def test_queues_are_compared_below_their_lowest_common_ancestor():
    tree = queue("x", gpus=2), queue("x1", "x"), queue("x2", "x"), queue("y")
    running = runs("loan", 0, 1, queue="y")
    outcome = late(*tree, node("n1", gpus=2), running, job("due", 1, TWO, queue="x1"))
    assert outcome.evicted == {"loan-0": EvictionRule.GUARANTEE}


def test_a_sibling_within_its_guarantee_is_no_victim():
    tree = queue("x", gpus=2), queue("x1", "x", gpus=2), queue("x2", "x")
    outcome = late(*tree, node("n1", gpus=2), runs("a", 0, 1, queue="x1"),
                   job("b", 1, ONE, queue="x2"))  # fmt: skip
    assert outcome.evicted == {}


def test_a_gang_that_straddles_the_guarantee_is_evicted_whole_and_not_taken_back():
    """`other` is guaranteed 1 and runs one gang of 3: it counts as borrowed, all of it."""
    things = queue("owner", gpus=2), queue("other", gpus=1), node("n1", gpus=3)
    there = late(*things, runs("wide", 0, 1, 2, tasks=3, queue="other"),
                 job("due", 1, TWO, queue="owner"))  # fmt: skip
    assert there.evicted == dict.fromkeys(["wide-0", "wide-1", "wide-2"], EvictionRule.GUARANTEE)
    after = outcome_of(there.settled(seconds=30))
    assert after.started("due") == 1
    again = outcome_of(after.settled(seconds=LATER))
    assert (again.evicted, again.started("wide")) == ({}, 0)


def test_without_reclaim_nothing_is_reclaimed():
    ways = (Displacing.PREEMPT, Displacing.CONSOLIDATE)
    borrower, due = runs("loan", 0, 1, queue="other"), job("due", 1, TWO, queue="owner")
    assert late(OWNER, OTHER, node("n1", gpus=2), borrower, due, displacing=ways).evicted == {}


# --- preempt --------------------------------------------------------------------------------------


def test_a_higher_priority_preempts_a_lower_one_in_its_queue():
    outcome = late(node("n1", gpus=1), runs("low", 0), job("high", 1, ONE, priority=1))
    assert outcome.evicted == {"low-0": EvictionRule.PRIORITY}


def test_a_gang_does_not_evict_its_own_affinity_target():
    near = Constraints(near=(pods("db", per=HOSTNAME),))
    old = runs("old", 0, labels={"app": "db"})
    outcome = late(node("n1", gpus=2), old, job("high", 2, ONE, priority=1, constraints=near))
    assert outcome.evicted == {}


def test_an_equal_priority_preempts_nothing():
    outcome = late(node("n1", gpus=1), runs("low", 0, priority=1), job("high", 1, ONE, priority=1))
    assert outcome.evicted == {}


def test_a_priority_preempts_nothing_in_another_queue():
    high = job("high", 1, ONE, queue="b", priority=9)
    outcome = late(
        queue("a", gpus=1), queue("b"), node("n1", gpus=1), runs("low", 0, queue="a"), high
    )
    assert outcome.evicted == {}


def test_a_gang_at_its_queues_limit_may_preempt_within_the_queue():
    team = queue(TEAM, limit_gpus=1)
    outcome = late(team, node("n1", gpus=2), runs("low", 0), job("high", 1, ONE, priority=1))
    assert outcome.evicted == {"low-0": EvictionRule.PRIORITY}
    assert outcome_of(outcome.settled()).started("high") == 1


def test_victims_below_a_parents_limit_come_from_its_branch_only():
    tree = queue("lab", limit_gpus=1), queue("x", "lab"), queue("y")
    running = runs("low", 0, queue="x"), runs("else", 1, queue="y")
    outcome = late(*tree, node("n1", gpus=3), *running, job("high", 1, ONE, queue="x", priority=1))
    assert set(outcome.evicted) == {"low-0"}


def test_without_preempt_nothing_is_preempted():
    things = node("n1", gpus=1), runs("low", 0), job("high", 1, ONE, priority=1)
    assert late(*things, displacing=(Displacing.RECLAIM,)).evicted == {}


# --- patience and protection ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waits", "displaces"), [(0, True), (LATER, True), (LATER + 1, False), (None, False)]
)
def test_a_gang_waits_for_displaces_after_before_it_evicts_others(
    waits: int | None, displaces: bool
):
    high = job("high", 1, ONE, priority=1, displaces_after_s=waits)
    outcome = late(node("n1", gpus=1), runs("low", 0), high)
    assert bool(outcome.evicted) == displaces


def test_the_plan_wakes_when_displaces_after_is_over():
    high = job("high", 1, ONE, priority=1, displaces_after_s=LATER + 7)
    early = late(node("n1", gpus=1), runs("low", 0), high)
    assert early.plan.wake_at == LATER + 7
    there = early.carried_out()
    there.advance(LATER + 7)
    assert set(outcome_of(there).evicted) == {"low-0"}


@pytest.mark.parametrize(
    ("tree", "settings", "protected"),
    [
        ([queue(TEAM, min_run_s=1700)], {}, True),
        ([queue(TEAM, min_run_s=900)], {}, False),
        ([queue("lab", min_run_s=1700), queue(TEAM, "lab")], {}, True),
        ([queue("lab", min_run_s=1700), queue(TEAM, "lab", min_run_s=0)], {}, False),
        ([queue(TEAM)], {"min_run_s": 1700}, True),
        ([queue(TEAM, min_run_s=0)], {"min_run_s": 1700}, False),
    ],
)
def test_min_run_of_the_nearest_queue_protects_running_work(
    tree: list[Any], settings: dict[str, int], protected: bool
):
    things = node("n1", gpus=1), runs("low", 0), job("high", 1, ONE, priority=1)
    outcome = late(*tree, *things, **settings)
    assert bool(outcome.evicted) != protected
    assert outcome.plan.wake_at == (1700 if protected else outcome.plan.wake_at)


def test_the_dwell_protects_from_reclaim_by_share():
    running = [runs(f"a{i}", i, queue="a") for i in range(2)]
    things = queue("a"), queue("b"), node("n1", gpus=2), *running, job("b", 1, ONE, queue="b")
    assert late(*things, now=599).evicted == {}
    assert late(*things, now=599).plan.wake_at == 600
    assert len(late(*things, now=600).evicted) == 1


def test_the_dwell_does_not_protect_from_guarantee_or_priority():
    due = job("due", 1, TWO, queue="owner")
    assert late(
        OWNER, OTHER, node("n1", gpus=2), runs("a", 0, 1, queue="other"), due, now=1
    ).evicted
    high = job("high", 1, ONE, priority=1)
    assert late(node("n1", gpus=1), runs("low", 0), high, now=1).evicted


def test_the_dwell_protects_from_consolidation():
    things = fragmented()
    assert late(*things, now=599).moved == {}
    assert late(*things, now=600).moved != {}


def test_a_gang_that_is_not_preemptible_is_never_a_victim():
    team = queue(TEAM, gpus=1)
    firm = runs("firm", 0, preemptible=False)
    outcome = late(team, node("n1", gpus=1), firm, job("high", 1, ONE, priority=9))
    assert outcome.evicted == {}


def test_a_gang_that_is_not_preemptible_reclaims_nothing_beyond_its_guarantee():
    firm = job("firm", 1, TWO, queue="owner", preemptible=False)
    things = OTHER, node("n1", gpus=2), runs("loan", 0, 1, queue="other"), firm
    assert late(queue("owner", gpus=2), *things).held == {"firm": ["n1"]}
    assert late(queue("owner", gpus=1), *things).evicted == {}


# --- gangs ----------------------------------------------------------------------------------------


def test_a_victim_is_evicted_whole_on_all_its_nodes():
    wide = job("wide", 2, ONE).runs(0, on="n1", devices=[0]).runs(1, on="n2", devices=[0])
    high = job("high", 1, ONE, priority=1, constraints=only("n1"))
    outcome = late(
        node("n1", gpus=1), node("n2", gpus=1), wide, high, displacing=(Displacing.PREEMPT,)
    )
    assert set(outcome.evicted) == {"wide-0", "wide-1"}


def test_a_gang_gets_room_on_several_nodes_at_once_or_evicts_nothing():
    nodes = node("n1", gpus=1), node("n2", gpus=1)
    low, other = runs("low", 0), runs("other", 0, on="n2")
    high = job("high", 2, ONE, priority=1)
    assert late(*nodes, low, other, high).held == {"high": ["n1", "n2"]}
    same = runs("other", 0, on="n2", priority=1)
    assert late(*nodes, low, same, high).evicted == {}


def test_elastic_members_are_evicted_first_the_last_one_first():
    low = runs("low", 0, 1, 2, tasks=3, minimum=1)
    outcome = late(node("n1", gpus=3), low, job("high", 1, ONE, priority=1))
    assert set(outcome.evicted) == {"low-2"}
    outcome = late(node("n1", gpus=3), low, job("high", 1, TWO, priority=1))
    assert set(outcome.evicted) == {"low-1", "low-2"}
    outcome = late(node("n1", gpus=3), low, job("high", 1, ask(gpus=3), priority=1))
    assert set(outcome.evicted) == {"low-0", "low-1", "low-2"}


def test_growth_evicts_only_elastic_members_of_others():
    grows = runs("high", 0, tasks=1, minimum=1, priority=1)
    grows = replace(grows, tasks=(*grows.tasks, *job("high", 2, ONE, minimum=1).tasks[1:]))
    whole, grown = runs("low", 1), runs("low", 1, 2, tasks=2, minimum=1)
    assert late(node("n1", gpus=2), grows, whole).evicted == {}
    assert set(late(node("n1", gpus=3), grows, grown).evicted) == {"low-1"}


def test_a_gang_that_grew_on_evicted_members_grows_further():
    grows = runs("high", 0, minimum=1, priority=1)
    grows = replace(grows, tasks=(*grows.tasks, *job("high", 3, ONE, minimum=1).tasks[1:]))
    there = late(node("n1", gpus=4), grows, runs("low", 1, 2, 3, tasks=3, minimum=1)).settled()
    bound = outcome_of(there)
    assert bound.started("high") == 1
    assert bound.plan.wake_at == there.now + 1


# --- consolidate ----------------------------------------------------------------------------------


def fragmented(**fields: Any) -> list[Any]:
    """Return two nodes of two GPUs, one GPU of each in use; `big` needs a whole node."""
    nodes = node("n1", gpus=2), node("n2", gpus=2)
    return [*nodes, runs("a", 0, **fields), runs("b", 0, on="n2"), job("big", 1, TWO)]


def test_gangs_that_fit_elsewhere_are_moved_for_a_large_gang():
    outcome = late(*fragmented())
    assert (outcome.evicted, len(outcome.moved)) == ({}, 1)
    assert set(outcome.held) == {"big", *(task[0] for task in outcome.moved)}


def test_a_moved_gang_starts_again_at_its_held_place():
    there = late(*fragmented())
    ((task, place),) = there.moved.items()
    after = outcome_of(there.settled())
    assert after.places[f"{task}.1"] == place
    assert (after.started("big"), after.held) == (1, {})


def test_a_move_waits_while_it_costs_more_than_the_wait():
    """`a` and `b` would lose 1,000 GPU-seconds each; `big` needs two GPUs and waits since 501."""
    things = [*fragmented()[:-1], job("big", 1, TWO, created_at=501)]
    outcome = late(*things)
    assert outcome.moved == {}
    assert outcome.plan.wake_at is not None
    assert late(*fragmented()[:-1], job("big", 1, TWO, created_at=500)).moved != {}


def test_a_move_is_made_once_the_wait_has_cost_as_much():
    things = [*fragmented()[:-1], job("big", 1, TWO, created_at=900)]
    there = cluster(*things, now=LATER)
    for _ in range(20):
        found = outcome_of(there)
        if found.moved:
            break
        assert found.plan.wake_at is not None
        there = found.carried_out()
        there.advance(found.plan.wake_at)
    else:
        pytest.fail("never")
    assert there.now - 900 >= (there.now - 0) / 2  # 2 GPUs × waited ≥ 1 GPU × run


def test_a_gang_with_a_checkpoint_is_moved_rather_than_one_without():
    assert set(late(*fragmented(saved_at=990)).moved) == {"a-0"}
    swapped = [*fragmented()[:-2], runs("b", 0, on="n2", saved_at=990), job("big", 1, TWO)]
    assert set(late(*swapped).moved) == {"b-0"}


def test_without_consolidate_nothing_is_moved():
    assert late(*fragmented(), displacing=(Displacing.RECLAIM, Displacing.PREEMPT)).moved == {}


def test_moves_come_before_evictions():
    things = [*fragmented()[:-1], job("big", 1, TWO, priority=1)]
    outcome = late(*things)
    assert (outcome.evicted, len(outcome.moved)) == ({}, 1)


# --- least harm -----------------------------------------------------------------------------------


def pair(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """Return which of two gangs on two nodes is evicted for a third."""
    nodes = node("n1", gpus=1), node("n2", gpus=1)
    running = runs("a", 0, **one), runs("b", 0, on="n2", **other)
    return set(late(*nodes, *running, job("high", 1, ONE, priority=5), **TAKES).evicted)


def test_a_gang_with_a_checkpoint_is_evicted_rather_than_one_without():
    assert pair({"saved_at": 990}, {}) == {"a-0"}
    assert pair({}, {"saved_at": 990}) == {"b-0"}


def test_the_lowest_priority_is_evicted_first_whatever_it_costs():
    assert pair({"priority": 1, "saved_at": 999}, {}) == {"b-0"}
    assert pair({}, {"priority": 1, "saved_at": 999}) == {"a-0"}


def test_of_equal_victims_the_younger_is_evicted():
    assert pair({"created_at": 5}, {}) == {"a-0"}
    assert pair({}, {"created_at": 5}) == {"b-0"}


def test_the_victim_that_has_run_for_less_is_evicted():
    nodes = node("n1", gpus=1), node("n2", gpus=1)
    old, young = runs("a", 0), runs("b", 0, on="n2").become(0, started_at=900)
    outcome = late(*nodes, old, young, job("high", 1, ONE, priority=5), **TAKES)
    assert set(outcome.evicted) == {"b-0"}


def test_one_victim_is_evicted_rather_than_two():
    nodes = node("n1", gpus=2), node("n2", gpus=2)
    two, one = [runs("a", 0), runs("b", 1)], runs("c", 0, 1, on="n2")
    outcome = late(*nodes, *two, one, job("high", 1, TWO, priority=5), **TAKES)
    assert set(outcome.evicted) == {"c-0"}


def test_a_victim_that_is_not_needed_returns_to_its_place():
    """The cheapest, a half GPU, would not be enough by itself, and is not needed with the other."""
    small = job("small", 1, ask(gpus=1, milli=500), created_at=9)
    small = small.runs(0, on="n1", devices=[Slice(1, 500)]).become(0, started_at=900)
    running = runs("a", 0), small, runs("firm", 2, priority=9)
    outcome = late(node("n1", gpus=3), *running, job("high", 1, ONE, priority=5), **TAKES)
    assert outcome.started("high") + len(outcome.evicted) == 1


# --- patience -------------------------------------------------------------------------------------


def much_for_little(**fields: Any) -> Any:
    """One GPU is due to `owner`, and a gang of four straddles the line of `other`."""
    wide = runs("wide", 0, 1, 2, 3, tasks=4, queue="other", **fields)
    due = job("due", 1, ONE, queue="owner", created_at=LATER * 10 - 60)
    return queue("owner", gpus=1), queue("other", gpus=3), node("n1", gpus=4), wide, due


def test_a_far_larger_victim_is_evicted_only_after_the_patience():
    assert late(*much_for_little(), now=LATER * 10).evicted == {}
    after = late(*much_for_little(), now=LATER * 10 + 1800)
    assert len(after.evicted) == 4


def test_a_far_larger_victim_that_loses_little_is_evicted_at_once():
    saved = late(*much_for_little(saved_at=LATER * 10 - 1), now=LATER * 10)
    assert len(saved.evicted) == 4


def test_patience_is_a_setting():
    assert len(late(*much_for_little(), now=LATER * 10, patience_s=30).evicted) == 4


def test_by_share_a_far_larger_victim_is_evicted_once_the_wait_has_cost_as_much():
    wide = runs("wide", 0, 1, 2, 3, tasks=4, queue="other")
    due = job("due", 1, ONE, queue="owner", created_at=LATER * 10)
    things = queue("owner"), queue("other"), node("n1", gpus=4), wide, due
    assert late(*things, now=LATER * 10 + 10 * 1800 - 1).evicted == {}
    assert set(late(*things, now=LATER * 10 + 10 * 1800).evicted.values()) == {EvictionRule.SHARE}
