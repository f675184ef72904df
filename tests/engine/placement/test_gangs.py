"""Gangs start whole or not at all; growth, lost members and reservations."""

import pytest

from tests.given import ask, group, grouped, job, node, outcome_of, queue, schedule
from windlass.engine.plan import Verdict
from windlass.model.events import (
    BindFailed,
    GangGone,
    GangSeen,
    NodeGone,
    NodeSeen,
    TaskEnded,
    TaskGone,
    TaskSeen,
)
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.model.reasons import ReasonCode
from windlass.model.settings import Settings
from windlass.sim.run import Simulation
from windlass.sim.workload import Arrival, Workload


def test_a_gang_that_fits_whole_starts_whole():
    outcome = schedule(node("n1", gpus=2), node("n2", gpus=2), job("a", 4, ask(gpus=1)))
    assert outcome.started("a") == 4
    assert outcome.verdict("a") == Verdict.PLACED


def test_a_gang_that_does_not_fit_whole_holds_nothing():
    outcome = schedule(node("n1", gpus=3), job("a", 4, ask(gpus=1)))
    assert outcome.nothing_of("a")


def test_capacity_that_a_large_gang_cannot_use_goes_to_the_next_gang():
    big, small = job("big", 4, ask(gpus=1), created_at=1), job("small", 3, ask(1), created_at=2)
    outcome = schedule(node("n1", gpus=3), big, small)
    assert (outcome.started("big"), outcome.started("small")) == (0, 3)


def test_a_gang_starts_with_its_minimum_when_there_is_no_room_for_all():
    outcome = schedule(node("n1", gpus=3), job("a", 5, ask(gpus=1), minimum=2))
    assert outcome.started("a") == 3


def test_minimums_of_all_gangs_come_before_growth_of_any():
    elastic = job("a", 4, ask(gpus=1), minimum=1, created_at=1)
    outcome = schedule(node("n1", gpus=4), elastic, job("b", 2, ask(gpus=1), created_at=2))
    assert (outcome.started("a"), outcome.started("b")) == (2, 2)


def test_elastic_gangs_of_two_users_grow_one_task_at_a_time_side_by_side():
    pair = [job(name, 6, ask(gpus=1), minimum=1, user=name) for name in ("a", "b")]
    outcome = schedule(node("n1", gpus=6), *pair)
    assert (outcome.started("a"), outcome.started("b")) == (3, 3)


def test_a_running_gang_grows_when_room_appears():
    elastic = job("a", 3, ask(gpus=1), minimum=1).runs(0, on="n1", devices=[0])
    outcome = schedule(node("n1", gpus=2), elastic)
    assert outcome.started("a") == 1
    assert outcome.verdict("a") == Verdict.GREW


def test_a_gang_grows_by_the_tasks_that_fit_even_if_others_do_not():
    parts = group("x", 2, ask(gpus=1), minimum=1), group("y", 2, ask(cpu=1), minimum=1)
    outcome = schedule(node("n1", gpus=1), grouped("a", *parts))
    assert sorted(outcome.places) == ["a-0", "a-2", "a-3"]


def test_every_group_needs_its_own_minimum():
    parts = group("ps", 1, ask(cpu=1000)), group("worker", 2, ask(gpus=1))
    assert schedule(node("n1", gpus=2), grouped("a", *parts)).started("a") == 3
    assert schedule(node("n1", gpus=2, cpu_milli=999), grouped("a", *parts)).nothing_of("a")


def test_a_full_group_does_not_compensate_for_an_incomplete_one():
    parts = group("ps", 4, ask(cpu=1), minimum=1), group("worker", 2, ask(gpus=1))
    assert schedule(node("n1", gpus=1), grouped("a", *parts)).nothing_of("a")


def test_the_gang_as_a_whole_may_need_more_than_its_groups():
    parts = [group(name, 2, ask(gpus=1), minimum=1) for name in ("x", "y")]
    assert schedule(node("n1", gpus=2), grouped("a", *parts, at_least=3)).nothing_of("a")
    assert schedule(node("n1", gpus=3), grouped("a", *parts, at_least=3)).started("a") == 3


def test_a_gang_waits_until_enough_of_its_tasks_exist():
    whole = job("a", 3, ask(gpus=1))
    part = type(whole)(whole.gang, whole.tasks[:2])
    outcome = schedule(node("n1", gpus=4), part)
    assert outcome.nothing_of("a")
    assert outcome.whys("a") == {ReasonCode.INCOMPLETE}


def test_members_that_succeeded_count_towards_the_minimum():
    outcome = schedule(node("n1", gpus=1), job("a", 2, ask(gpus=1)).ended(0))
    assert outcome.places == {"a-1": "n1"}


def test_members_that_failed_do_not_count_towards_the_minimum():
    outcome = schedule(node("n1", gpus=2), job("a", 2, ask(gpus=1)).ended(0, succeeded=False))
    assert outcome.nothing_of("a")


def test_the_replacement_of_a_lost_member_joins_its_running_gang_first():
    hurt = job("hurt", 2, ask(gpus=1), created_at=9).runs(0, on="n1", devices=[0])
    older = job("older", 1, ask(gpus=1), created_at=1, priority=100)
    outcome = schedule(node("n1", gpus=2), older, hurt)
    assert outcome.places == {"hurt-1": "n1"}


def test_a_gang_with_lost_members_gets_all_of_them_back_or_none():
    hurt = job("hurt", 3, ask(gpus=1)).runs(0, on="n1", devices=[0])
    assert schedule(node("n1", gpus=2), hurt).nothing_of("hurt")
    assert schedule(node("n1", gpus=3), hurt).started("hurt") == 2


def test_a_terminating_task_does_not_count_towards_the_minimum():
    leaving = job("a", 2, ask(gpus=1)).runs(0, on="n1", devices=[0])
    leaving = leaving.become(0, state=TaskState.RELEASING)
    assert schedule(node("n1", gpus=2), leaving).nothing_of("a")


def test_a_gang_whose_minimum_runs_needs_no_decision():
    whole = job("a", 1, ask(gpus=1)).runs(0, on="n1", devices=[0])
    assert schedule(node("n1", gpus=1), whole).plan.decisions == ()


def test_a_gang_may_use_many_nodes_for_different_tasks():
    parts = group("big", 1, ask(gpus=4)), group("small", 2, ask(gpus=2))
    outcome = schedule(node("n1", gpus=4), node("n2", gpus=4), grouped("a", *parts))
    assert outcome.started("a") == 3


def test_a_group_that_requires_a_model_is_placed_before_groups_that_accept_any():
    parts = group("easy", 2, ask(gpus=1)), group("hard", 1, ask(gpus=2, models=("T4",)))
    outcome = schedule(node("n1", gpus=2, model="T4"), node("n2", gpus=2), grouped("a", *parts))
    assert outcome.started("a") == 3


@pytest.mark.parametrize("size", [1, 8, 64])
def test_a_gang_fills_the_cluster_to_the_last_gpu(size):
    nodes = [node(f"n{i}", gpus=8) for i in range(size)]
    assert schedule(*nodes, job("a", 8 * size, ask(gpus=1))).started("a") == 8 * size
    assert schedule(*nodes, job("a", 8 * size + 1, ask(gpus=1))).nothing_of("a")


# --- later events ---------------------------------------------------------------------------------


def test_a_failed_bind_makes_the_task_wait_again():
    cluster = schedule(node("n1", gpus=1), job("a", 1, ask(gpus=1))).carried_out()
    cluster.apply(BindFailed(TaskId("a-0"), "the node said no"))
    assert outcome_of(cluster).places == {"a-0": "n1"}


def test_a_task_that_ends_frees_its_gpu_for_the_next_gang():
    waiting = job("b", 1, ask(gpus=1), created_at=1)
    cluster = schedule(node("n1", gpus=1), job("a", 1, ask(gpus=1)), waiting).carried_out()
    assert outcome_of(cluster).nothing_of("b")
    cluster.apply(TaskEnded(TaskId("a-0")))
    assert outcome_of(cluster).places == {"b-0": "n1"}


def test_tasks_of_a_lost_node_are_replaced():
    pair = job("a", 2, ask(gpus=1))
    nodes = node("n1", gpus=1), node("n2", gpus=1), node("n3", gpus=1, cordoned=True)
    cluster = schedule(*nodes, pair).carried_out()
    cluster.apply(NodeGone("n1"))
    assert len(cluster.members(pair.gang.id)) == 1
    cluster.apply(TaskSeen(type(pair.tasks[0])(TaskId("a-9"), pair.gang.id, pair.tasks[0].shape)))
    assert outcome_of(cluster).nothing_of("a")
    cluster.apply(NodeSeen(node("n3", gpus=1)))
    assert outcome_of(cluster).places == {"a-9": "n3"}


def test_a_deleted_task_frees_its_place_at_once():
    cluster = schedule(node("n1", gpus=1), job("a", 1, ask(gpus=1))).carried_out()
    cluster.apply(TaskGone(TaskId("a-0")))
    assert cluster.allocated("team", "gpu") == 0


def test_a_deleted_gang_leaves_nothing_behind():
    gone = job("a", 2, ask(gpus=1))
    cluster = schedule(node("n1", gpus=2), gone).carried_out()
    cluster.apply(GangGone(gone.gang.id))
    assert (dict(cluster.gangs), dict(cluster.tasks)) == ({}, {})
    assert cluster.allocated("team", "gpu") == 0


def test_a_gang_that_arrives_by_events_is_scheduled_like_any_other():
    cluster = schedule(node("n1", gpus=2)).cluster
    late = job("a", 2, ask(gpus=1))
    cluster.apply(GangSeen(late.gang))
    for task in late.tasks:
        cluster.apply(TaskSeen(task))
    assert outcome_of(cluster).started("a") == 2


# --- reservations ---------------------------------------------------------------------------------


def reserved(*more):
    """Schedule a gang that gets all of n1 reserved, of which half is in use until 10,600."""
    old = job("old", 2, ask(gpus=1), duration_s=10_600)
    old = old.runs(0, on="n1", devices=[0]).runs(1, on="n1", devices=[1])
    return schedule(node("n1", gpus=4), old, job("big", 4, ask(gpus=1)), *more, now=10_000)


def see(cluster, late):
    cluster.apply(GangSeen(late.gang))
    for task in late.tasks:
        cluster.apply(TaskSeen(task))
    return outcome_of(cluster)


def test_a_gang_that_waited_long_gets_a_reservation_at_the_expected_end_of_work():
    outcome = reserved()
    (hold,) = outcome.plan.holds
    assert (hold.gang, hold.starts_at, len(hold.claims)) == ("big", 10_600, 4)
    assert ReasonCode.RESERVATION in outcome.whys("big")


def test_an_overdue_reservation_is_a_reason():
    state = reserved().carried_out()
    state.advance(10_700)
    assert ReasonCode.OVERDUE in outcome_of(state).whys("big")


def test_a_gang_that_waited_shortly_gets_no_reservation():
    old = job("old", 1, ask(gpus=1)).runs(0, on="n1", devices=[0])
    assert schedule(node("n1", gpus=1), old, job("a", 1, ask(gpus=1)), now=100).plan.holds == ()


def test_wake_at_is_when_a_reservation_becomes_possible():
    old = job("old", 1, ask(gpus=1)).runs(0, on="n1", devices=[0])
    outcome = schedule(node("n1", gpus=1), old, job("a", 1, ask(gpus=1), created_at=100), now=500)
    assert outcome.plan.wake_at == 1900
    outcome.cluster.advance(1900)
    assert [each.gang for each in outcome_of(outcome.cluster).plan.holds] == ["a"]


def test_work_that_ends_in_time_may_use_a_reserved_place():
    late = job("short", 2, ask(gpus=1), duration_s=600, created_at=10_000)
    assert see(reserved().carried_out(), late).started("short") == 2


@pytest.mark.parametrize("duration_s", [601, None], ids=["too long", "who knows how long"])
def test_work_that_may_not_end_in_time_may_not_use_a_reserved_place(duration_s):
    late = job("long", 1, ask(gpus=1), duration_s=duration_s, created_at=10_000)
    outcome = see(reserved().carried_out(), late)
    assert outcome.started("long") == 0
    assert ReasonCode.RESERVED in outcome.whys("long")


def test_the_gang_with_the_reservation_starts_in_it():
    cluster = reserved().carried_out()
    cluster.advance(10_500)
    cluster.apply(TaskEnded(TaskId("old-0")))
    cluster.apply(TaskEnded(TaskId("old-1")))
    outcome = outcome_of(cluster)
    assert outcome.started("big") == 4
    assert outcome.plan.holds == ()


def test_a_reservation_ends_with_its_gang():
    cluster = reserved().carried_out()
    cluster.apply(GangGone(GangId("big")))
    late = job("long", 2, ask(gpus=1), created_at=10_000)
    assert see(cluster, late).started("long") == 2


def test_a_reservation_ends_with_its_node():
    cluster = reserved().carried_out()
    cluster.apply(NodeGone("n1"))
    assert outcome_of(cluster).plan.holds == ()


def test_a_reservation_survives_a_node_that_lost_devices():
    cluster = reserved().carried_out()
    cluster.apply(NodeSeen(node("n1", gpus=2)))
    assert outcome_of(cluster).places == {}


def test_no_gang_starves_behind_a_stream_of_small_ones():
    small = [job(f"s{i:02}", 1, ask(gpus=1), duration_s=90, created_at=20 * i) for i in range(99)]
    big = job("big", 4, ask(gpus=1), created_at=100)
    arrivals = [Arrival(each.gang.created_at, each.gang, each.tasks, 90) for each in small]
    arrivals.append(Arrival(100, big.gang, big.tasks, 90))
    patient = Settings(reserve_after_s=300)
    given_ = Workload((node("n1", gpus=4),), (queue("team"),), tuple(arrivals), settings=patient)
    played = Simulation(given_)
    played.run()
    assert played.records[big.gang.id].waited(0) < 300 + 2 * 90
