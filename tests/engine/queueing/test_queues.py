"""Queue rules: limits, guarantees, the order of queues and gangs, shares and accounts."""

import pytest

from tests.given import ask, cluster, job, node, outcome_of, queue, schedule
from windlass.model.events import GangSeen, NodeGone, NodeSeen, QueueGone, TaskGone, TaskSeen
from windlass.model.gpus import Slice
from windlass.model.settings import Settings
from windlass.state.snapshot import UserUsage


def ones(name, count, start=0, **fields):
    """Return jobs of one GPU each."""
    return [job(f"{name}{i}", 1, ask(gpus=1), **fields) for i in range(start, start + count)]


def holding(name, devices, on="n1", **fields):
    """Return a running job with one task per device."""
    running = job(name, len(devices), ask(gpus=1), **fields)
    for index, device in enumerate(devices):
        running = running.runs(index, on=on, devices=[device])
    return running


def started(outcome, queue_name):
    tasks = [outcome.cluster.tasks[each.task] for each in outcome.plan.binds]
    return sum(outcome.cluster.gangs[each.gang].queue == queue_name for each in tasks)


# --- limits ---------------------------------------------------------------------------------------


def test_a_queue_never_has_more_than_its_limit():
    outcome = schedule(node("n1", gpus=4), queue("team", limit_gpus=2), *ones("a", 4))
    assert started(outcome, "team") == 2


def test_the_limit_of_a_department_binds_all_its_teams_together():
    tree = queue("dept", limit_gpus=2), queue("x", "dept"), queue("y", "dept")
    jobs = ones("a", 2, queue="x") + ones("b", 2, queue="y")
    outcome = schedule(node("n1", gpus=4), *tree, *jobs)
    assert (started(outcome, "x"), started(outcome, "y")) == (1, 1)


@pytest.mark.parametrize(
    ("limit", "request_"),
    [
        ({"cpu": 2500}, ask(cpu=1000)),
        ({"memory": 2500}, ask(memory=1000)),
        ({"gpu": 1300}, ask(1, milli=500)),
        ({"gpu/A100-80GB": 2000}, ask(1)),
    ],
    ids=["cpu", "memory", "fractions", "model"],
)
def test_every_dimension_can_be_limited(limit, request_):
    jobs = [job(f"j{i}", 1, request_) for i in range(4)]
    outcome = schedule(node("n1", gpus=4), queue("team", limit=limit), *jobs)
    assert started(outcome, "team") == 2


def test_a_gang_larger_than_what_its_queue_has_left_does_not_start_in_part():
    limited = queue("team", limit_gpus=3)
    outcome = schedule(node("n1", gpus=4), limited, holding("old", [0]), job("a", 3, ask(gpus=1)))
    assert outcome.nothing_of("a")


def test_elastic_growth_ends_at_the_limit():
    limited = queue("team", limit_gpus=3)
    outcome = schedule(node("n1", gpus=8), limited, job("a", 8, ask(gpus=1), minimum=1))
    assert outcome.started("a") == 3


def test_a_queue_above_a_lowered_limit_gets_nothing_more_of_that_dimension_only():
    limited = queue("team", limit_gpus=1)
    cpu, gpu = job("cpu", 1, ask(cpu=1)), job("gpu", 1, ask(gpus=1))
    outcome = schedule(node("n1", gpus=4), limited, holding("old", [0, 1]), cpu, gpu)
    assert outcome.places == {"cpu-0": "n1"}


def test_a_task_that_accepts_any_model_gets_one_that_its_queue_may_still_use():
    limited = queue("team", limit={"gpu/T4": 0})
    nodes = node("n1", gpus=1, model="T4"), node("n2", gpus=4)
    assert schedule(*nodes, limited, job("a", 1, ask(gpus=1))).places == {"a-0": "n2"}


def test_a_smaller_gang_behind_one_that_hit_the_limit_still_starts():
    limited = queue("team", limit_gpus=2)
    big, small = job("big", 3, ask(1), created_at=1), job("small", 2, ask(1), created_at=2)
    assert schedule(node("n1", gpus=4), limited, big, small).started("small") == 2


def test_a_limit_on_a_model_counts_whole_devices_beside_cut_ones():
    limited = queue("team", limit={"gpu/A100-80GB": 2000})
    nodes = node("n1", gpus=4), node("n2", gpus=4, mig=True)
    assert started(schedule(*nodes, limited, *ones("a", 4)), "team") == 2


def test_a_gang_refused_a_model_by_its_queue_does_not_make_equal_gangs_of_other_queues_fail():
    tree = queue("x", limit={"gpu/T4": 1000}), queue("y")
    nodes = node("n1", gpus=2, model="T4"), node("n2", gpus=1)
    full = holding("old", [0], on="n2", queue="y")
    pairs = [job(name, 2, ask(gpus=1), queue=name, created_at=ord(name)) for name in ("x", "y")]
    outcome = schedule(*nodes, *tree, full, *pairs)
    assert (outcome.started("x"), outcome.started("y")) == (0, 2)


def test_a_guarantee_that_is_not_lent_stays_free_for_its_owner():
    tree = queue("x", gpus=3, lend_gpus=1), queue("y")
    outcome = schedule(node("n1", gpus=4), *tree, *ones("b", 4, queue="y"))
    assert started(outcome, "y") == 2
    both = schedule(node("n1", gpus=4), *tree, *ones("a", 3, queue="x"), *ones("b", 4, queue="y"))
    assert (started(both, "x"), started(both, "y")) == (3, 1)


def test_a_guarantee_in_use_is_not_kept_free_twice():
    tree = queue("x", gpus=2, lend_gpus=0), queue("y")
    held = holding("old", [0, 1], queue="x")
    outcome = schedule(node("n1", gpus=4), *tree, held, *ones("b", 4, queue="y"))
    assert started(outcome, "y") == 2


# --- guarantees for work that cannot be preempted -------------------------------------------------


def test_work_that_cannot_be_preempted_stays_within_the_guarantee():
    jobs = ones("a", 3, preemptible=False)
    outcome = schedule(node("n1", gpus=4), queue("team", gpus=2), *jobs)
    assert started(outcome, "team") == 2


def test_work_that_can_be_preempted_does_not_use_up_the_guarantee_for_other_work():
    outcome = schedule(
        node("n1", gpus=4),
        queue("team", gpus=1),
        holding("old", [0, 1]),
        *ones("a", 2, preemptible=False),
    )
    assert started(outcome, "team") == 1


def test_without_a_guarantee_only_preemptible_work_runs():
    firm = job("firm", 1, ask(gpus=1), preemptible=False)
    outcome = schedule(node("n1", gpus=4), firm, job("soft", 1, ask(gpus=1)))
    assert outcome.places == {"soft-0": "n1"}


# --- order between queues -------------------------------------------------------------------------


def test_the_queue_furthest_below_its_guarantee_goes_first():
    tree = queue("x", gpus=2), queue("y", gpus=2)
    jobs = ones("a", 1, queue="x", created_at=1) + ones("b", 1, queue="y", created_at=2)
    outcome = schedule(node("n1", gpus=2), *tree, holding("old", [0], queue="x"), *jobs)
    assert list(outcome.places) == ["b0-0"]


def test_a_larger_guarantee_counts_as_more_to_fill():
    tree = queue("x", gpus=1), queue("y", gpus=3)
    jobs = ones("a", 4, queue="x") + ones("b", 4, queue="y")
    outcome = schedule(node("n1", gpus=4), *tree, *jobs)
    assert (started(outcome, "x"), started(outcome, "y")) == (1, 3)


def test_a_higher_tier_goes_first():
    tree = queue("x"), queue("y", tier=1)
    jobs = ones("a", 2, queue="x", created_at=1) + ones("b", 2, queue="y", created_at=2)
    outcome = schedule(node("n1", gpus=2), *tree, *jobs)
    assert (started(outcome, "x"), started(outcome, "y")) == (0, 2)


def test_equal_queues_take_turns():
    tree = queue("x"), queue("y")
    jobs = ones("a", 4, queue="x", created_at=1) + ones("b", 4, queue="y", created_at=2)
    outcome = schedule(node("n1", gpus=4), *tree, *jobs)
    assert (started(outcome, "x"), started(outcome, "y")) == (2, 2)


def test_of_two_equal_queues_the_one_whose_gang_waits_longer_goes_first():
    tree = queue("x"), queue("y")
    jobs = ones("a", 1, queue="x", created_at=2) + ones("b", 1, queue="y", created_at=1)
    assert list(schedule(node("n1", gpus=1), *tree, *jobs).places) == ["b0-0"]


def test_weights_divide_capacity_that_is_not_guaranteed():
    tree = queue("x", weight=3), queue("y", weight=1)
    jobs = ones("a", 8, queue="x") + ones("b", 8, queue="y")
    outcome = schedule(node("n1", gpus=8), *tree, *jobs)
    assert (started(outcome, "x"), started(outcome, "y")) == (6, 2)


def test_departments_are_equal_however_many_teams_they_have():
    tree = queue("p"), queue("q"), queue("p1", "p"), queue("p2", "p"), queue("q1", "q")
    jobs = ones("a", 4, queue="p1") + ones("b", 4, queue="p2") + ones("c", 4, queue="q1")
    outcome = schedule(node("n1", gpus=4), *tree, *jobs)
    assert [started(outcome, name) for name in ("p1", "p2", "q1")] == [1, 1, 2]


def test_a_queue_with_a_gang_that_cannot_start_does_not_block_the_others():
    tree = queue("x", gpus=4), queue("y")
    stuck = job("stuck", 1, ask(gpus=1, models=("T4",)), queue="x")
    outcome = schedule(node("n1", gpus=4), *tree, stuck, *ones("b", 4, queue="y"))
    assert started(outcome, "y") == 4


def test_free_gpus_are_used_beyond_every_guarantee():
    outcome = schedule(node("n1", gpus=4), queue("team", gpus=1), *ones("a", 4))
    assert started(outcome, "team") == 4


# --- order inside a queue -------------------------------------------------------------------------


def test_higher_priority_goes_first():
    low = job("low", 1, ask(gpus=1), created_at=1)
    high = job("high", 1, ask(gpus=1), created_at=2, priority=1)
    assert list(schedule(node("n1", gpus=1), low, high).places) == ["high-0"]


def test_the_user_who_has_less_goes_first():
    held = holding("old", [0], user="ann")
    ann = job("a", 1, ask(gpus=1), user="ann", created_at=1)
    bob = job("b", 1, ask(gpus=1), user="bob", created_at=2)
    assert list(schedule(node("n1", gpus=2), held, ann, bob).places) == ["b-0"]


def test_users_take_turns_within_a_cycle():
    ann = ones("a", 4, user="ann", created_at=1)
    bob = ones("b", 4, user="bob", created_at=2)
    outcome = schedule(node("n1", gpus=4), *ann, *bob)
    assert sorted(outcome.places) == ["a0-0", "a1-0", "b0-0", "b1-0"]


def test_priority_comes_before_fairness_between_users():
    held = holding("old", [0], user="ann")
    ann = job("a", 1, ask(gpus=1), user="ann", priority=1)
    bob = job("b", 1, ask(gpus=1), user="bob")
    assert list(schedule(node("n1", gpus=2), held, ann, bob).places) == ["a-0"]


def test_older_gangs_go_first():
    young, old = ones("a", 1, created_at=2), ones("b", 1, created_at=1)
    assert list(schedule(node("n1", gpus=1), *young, *old).places) == ["b0-0"]


def test_equal_gangs_are_ordered_by_name():
    assert list(schedule(node("n1", gpus=1), *reversed(ones("a", 3))).places) == ["a0-0"]


# --- shares ---------------------------------------------------------------------------------------


def shares(outcome, *names, dimension="gpu"):
    return [outcome.plan.shares[name].get(dimension, 0) for name in names]


def test_a_share_is_never_more_than_the_demand():
    jobs = ones("a", 1, queue="x") + ones("b", 9, queue="y")
    outcome = schedule(node("n1", gpus=8), queue("x"), queue("y"), *jobs)
    assert shares(outcome, "x", "y") == [1000, 7000]


def test_running_work_is_part_of_the_demand():
    outcome = schedule(node("n1", gpus=4), queue("x"), holding("old", [0, 1], queue="x"))
    assert shares(outcome, "x") == [2000]


def test_a_guarantee_comes_before_any_surplus():
    tree = queue("x", gpus=6), queue("y", weight=9)
    jobs = ones("a", 9, queue="x") + ones("b", 9, queue="y")
    outcome = schedule(node("n1", gpus=8), *tree, *jobs)
    assert shares(outcome, "x", "y") == [6200, 1800]


def test_guarantees_shrink_together_when_machines_are_lost():
    tree = queue("x", gpus=6), queue("y", gpus=2)
    jobs = ones("a", 9, queue="x") + ones("b", 9, queue="y")
    assert shares(schedule(node("n1", gpus=4), *tree, *jobs), "x", "y") == [3000, 1000]


def test_a_higher_tier_takes_surplus_first():
    tree = queue("x", tier=1), queue("y")
    jobs = ones("a", 3, queue="x") + ones("b", 9, queue="y")
    assert shares(schedule(node("n1", gpus=4), *tree, *jobs), "x", "y") == [3000, 1000]


def test_a_limit_caps_the_share():
    tree = queue("x", limit_gpus=1), queue("y")
    jobs = ones("a", 9, queue="x") + ones("b", 9, queue="y")
    assert shares(schedule(node("n1", gpus=4), *tree, *jobs), "x", "y") == [1000, 3000]


def test_the_share_of_a_department_is_capped_by_the_limits_of_its_teams():
    tree = queue("p"), queue("q"), queue("p1", "p", limit_gpus=1), queue("q1", "q")
    jobs = ones("a", 9, queue="p1") + ones("b", 9, queue="q1")
    assert shares(schedule(node("n1", gpus=8), *tree, *jobs), "p", "q") == [1000, 7000]


def test_an_idle_guarantee_is_lent_in_full_by_default():
    tree = queue("x", gpus=3), queue("y")
    assert shares(schedule(node("n1", gpus=4), *tree, *ones("b", 9, queue="y")), "y") == [4000]


@pytest.mark.parametrize(("lent", "left"), [(0, 1000), (1, 2000), (3, 4000), (9, 4000)])
def test_an_idle_guarantee_is_lent_up_to_the_lend_limit(lent, left):
    tree = queue("x", gpus=3, lend_gpus=lent), queue("y")
    assert shares(schedule(node("n1", gpus=4), *tree, *ones("b", 9, queue="y")), "y") == [left]


def test_shares_add_up_to_the_last_thousandth():
    tree = queue("x"), queue("y"), queue("z")
    jobs = [each for name in "xyz" for each in ones(name, 4, queue=name)]
    divided = shares(schedule(node("n1", gpus=1), *tree, *jobs), "x", "y", "z")
    assert sorted(divided) == [333, 333, 334]


def test_a_department_divides_its_own_share_among_its_teams():
    tree = queue("p"), queue("q"), queue("p1", "p", weight=3), queue("p2", "p"), queue("q1", "q")
    jobs = ones("a", 9, queue="p1") + ones("b", 9, queue="p2") + ones("c", 9, queue="q1")
    outcome = schedule(node("n1", gpus=8), *tree, *jobs)
    assert shares(outcome, "p", "q", "p1", "p2", "q1") == [4000, 4000, 3000, 1000, 4000]


def test_broken_and_cordoned_gpus_are_not_shared_out():
    nodes = node("n1", gpus=2), node("n2", gpus=2, cordoned=True)
    assert shares(schedule(*nodes, *ones("a", 9)), "team") == [2000]


def test_past_usage_lowers_the_share_of_the_surplus():
    tree = queue("x"), queue("y")
    jobs = ones("a", 9, queue="x") + ones("b", 9, queue="y")
    outcome = schedule(node("n1", gpus=4), *tree, *jobs, UserUsage("x", "ann", "T4", 10**9))
    x, y = shares(outcome, "x", "y")
    assert x < y
    assert x + y == 4000


def test_past_usage_does_not_touch_a_guarantee():
    tree = queue("x", gpus=2), queue("y", gpus=2)
    jobs = ones("a", 9, queue="x") + ones("b", 9, queue="y")
    outcome = schedule(node("n1", gpus=4), *tree, *jobs, UserUsage("x", "ann", "T4", 10**9))
    assert shares(outcome, "x", "y") == [2000, 2000]


def test_the_effect_of_past_usage_can_be_turned_off():
    tree = queue("x"), queue("y")
    jobs = ones("a", 9, queue="x") + ones("b", 9, queue="y")
    used = UserUsage("x", "ann", "T4", 10**9)
    outcome = schedule(node("n1", gpus=4), *tree, *jobs, used, settings=Settings(usage_effect=0))
    assert shares(outcome, "x", "y") == [2000, 2000]


# --- accounts -------------------------------------------------------------------------------------


def test_a_queue_is_charged_for_everything_below_it_in_every_dimension():
    tree = queue("dept"), queue("x", "dept")
    asked = job("a", 1, ask(1, milli=300, cpu=2000, memory=512), queue="x")
    after = schedule(node("n1", gpus=1, model="T4"), *tree, asked).carried_out()
    for name in ("dept", "x"):
        charged = [after.allocated(name, each) for each in ("gpu", "gpu/T4", "cpu", "memory")]
        assert charged == [300, 300, 2000, 512]


def test_a_memory_request_is_charged_as_the_part_of_the_device_it_takes():
    half = job("a", 1, ask(1, memory_mib=8 * 1024)).runs(0, on="n1", devices=[Slice(0, 500)])
    outcome = schedule(node("n1", gpus=1, model="T4"), half)
    assert outcome.cluster.allocated("team", "gpu") == 500


@pytest.mark.parametrize("dimension", ["gpu", "gpu/A100-80GB", "cpu"])
def test_a_lost_node_gives_back_what_its_tasks_were_charged(dimension):
    asked = job("a", 1, ask(gpus=1, cpu=1))
    after = schedule(node("n1", gpus=1), asked).carried_out()
    after.apply(NodeGone("n1"))
    assert after.allocated("team", dimension) == 0


def test_tasks_seen_before_their_node_are_charged_like_any_other():
    running = holding("a", [0])
    there = cluster(queue("team"))
    there.apply(GangSeen(running.gang))
    there.apply(TaskSeen(running.tasks[0]))
    there.apply(NodeSeen(node("n1", gpus=1)))
    assert there.allocated("team", "gpu/A100-80GB") == 1000
    there.apply(TaskGone(running.tasks[0].id))
    assert there.allocated("team", "gpu/A100-80GB") == 0


def test_a_queue_whose_parent_was_deleted_is_still_scheduled():
    tree = queue("dept"), queue("x", "dept"), queue("y")
    there = cluster(node("n1", gpus=2), *tree, *ones("a", 1, queue="x"), *ones("b", 1, queue="y"))
    there.apply(QueueGone("dept"))
    outcome = outcome_of(there)
    assert outcome.started("b0") == 1
    assert outcome.started("a0") == 1 or outcome.decision("a0").reasons
