"""The ledger: past GPU time counts half after every half-life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.given import ask, cluster, job, node, queue, schedule
from windlass.model.events import NodeGone, NodeSeen, TaskEnded
from windlass.model.jobs import TaskId
from windlass.model.settings import Settings
from windlass.state.snapshot import UserUsage
from windlass.usage.ledger import Holder, Ledger

ANN = Holder("team", "ann", "T4")
HOUR = 3600


def total(ledger, now):
    return sum(value for _, value in ledger.at(now))


def integrated(changes, half_life_s, until, steps_per_second=8):
    """The same by brute force: in every small step, decay what there is and add what is held."""
    used, rate, keep = 0.0, 0, 2.0 ** (-1 / (half_life_s * steps_per_second))
    at = dict(changes)
    for second in range(until):
        rate += at.get(second, 0)
        for _ in range(steps_per_second):
            used = (used + rate / steps_per_second / 2) * keep + rate / steps_per_second / 2
    return used


@given(
    st.dictionaries(st.integers(0, 99), st.integers(0, 4000), min_size=1, max_size=5),
    st.integers(10, 300),
    st.integers(100, 200),
)
def test_usage_equals_a_fine_step_integration(changes, half_life_s, until):
    ledger = Ledger(half_life_s)
    for second, milli in sorted(changes.items()):
        ledger.change(ANN, milli, second)
    assert total(ledger, until) == pytest.approx(
        integrated(changes.items(), half_life_s, until), rel=1e-3, abs=2
    )


def test_usage_halves_in_one_half_life_once_nothing_is_held():
    ledger = Ledger(HOUR)
    ledger.restore(ANN, 8_000_000, now=0)
    assert [total(ledger, n * HOUR) for n in range(4)] == [8_000_000, 4_000_000, 2_000_000, 10**6]


def test_at_first_a_gpu_adds_a_gpu_second_every_second():
    ledger = Ledger(10**9)
    ledger.change(ANN, 2000, now=0)
    assert total(ledger, 100) == 200_000


def test_usage_of_a_gpu_held_forever_never_exceeds_its_ceiling():
    ledger = Ledger(HOUR)
    ledger.change(ANN, 1000, now=0)
    assert total(ledger, 100 * HOUR) == round(1000 * HOUR / 0.6931471805599453)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=6), st.integers(1, 10_000))
def test_reading_does_not_change_usage(looks, half_life_s):
    seen, unseen = Ledger(half_life_s), Ledger(half_life_s)
    for each in (seen, unseen):
        each.change(ANN, 700, now=0)
    for second in sorted(looks):
        total(seen, second)
    assert total(seen, 20_000) == total(unseen, 20_000)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(10, 10_000))
def test_decaying_in_two_steps_is_decaying_in_one(first, second, half_life_s):
    stepped, whole = Ledger(half_life_s), Ledger(half_life_s)
    for each in (stepped, whole):
        each.change(ANN, 1000, now=0)
    stepped.change(ANN, 0, now=first)
    assert total(stepped, first + second) == pytest.approx(total(whole, first + second), abs=1)


def test_usage_is_kept_apart_per_queue_user_and_model():
    ledger = Ledger(HOUR)
    for number, holder in enumerate([ANN, Holder("team", "bob", "T4"), Holder("team", "ann", "A")]):
        ledger.restore(holder, number + 1, now=0)
    assert [value for _, value in ledger.at(0)] == [3, 1, 2]


# --- in a cluster ---------------------------------------------------------------------------------


def test_a_queue_is_charged_from_bind_to_end():
    slow = Settings(half_life_s=10**9)
    running = schedule(node("n1", 1), job("a", 1, ask(1, milli=500)), settings=slow).carried_out()
    running.advance(100)
    running.apply(TaskEnded(TaskId("a-0")))
    running.advance(500)
    assert running.usage_of("team") == 50_000


def test_usage_of_a_queue_includes_the_queues_below():
    tree = queue("dept"), queue("x", "dept"), queue("y", "dept")
    department = cluster(*tree, UserUsage("x", "ann", "T4", 10), UserUsage("y", "bob", "T4", 20))
    assert department.usage_of("dept") == department.usage_of("x") + department.usage_of("y")
    assert department.usage_of("dept") == 30


def test_a_lost_node_ends_the_charge_for_what_ran_there():
    slow = Settings(half_life_s=10**9)
    running = schedule(node("n1", 1), job("a", 1, ask(1)), settings=slow).carried_out()
    running.apply(NodeGone("n1"))
    running.advance(1000)
    assert running.usage_of("team") == 0


def test_a_node_that_changes_its_model_ends_the_charge_for_the_old_one():
    slow = Settings(half_life_s=10**9)
    running = schedule(node("n1", 1), job("a", 1, ask(1)), settings=slow).carried_out()
    running.apply(NodeSeen(node("n1", 1, model="T4")))
    running.apply(TaskEnded(TaskId("a-0")))
    running.advance(1000)
    assert [each for each in running.snapshot().usage if each.milli_seconds] == []


def test_restored_usage_continues_to_decay():
    restarted = cluster(UserUsage("team", "ann", "T4", 8000), settings=Settings(half_life_s=HOUR))
    restarted.advance(HOUR)
    assert restarted.usage_of("team") == 4000
