"""Evicted gangs: they come before equal gangs only, and return near their old nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.given import RACKS, Job, job, node, rack, schedule, within
from tests.support.preemption_given import ONE, late
from tests.support.small_workloads import arrives, play, record


def back(**fields: Any) -> Job:
    """Return a gang that was evicted once and waits again."""
    return job("back", 1, ONE, created_at=500, stops=1, **fields)


def test_an_evicted_gang_comes_before_older_gangs_of_its_queue():
    assert set(late(node("n1", gpus=1), job("old", 1, ONE), back()).places) == {"back-0"}


def test_an_evicted_gang_comes_before_a_gang_of_a_user_with_less_usage():
    runs = job("other", 1, ONE, user="ann").runs(0, on="n1", devices=(0,))
    two = node("n1", gpus=2), runs, job("new", 1, ONE, user="bob")
    assert set(late(*two, back(user="ann")).places) == {"back-0"}


def test_an_evicted_gang_does_not_come_before_a_higher_priority():
    urgent = job("urgent", 1, ONE, priority=1)
    assert set(late(node("n1", gpus=1), urgent, back()).places) == {"urgent-0"}


def test_the_simulator_counts_evictions_of_a_gang():
    low = arrives(job("low", 1, ONE), runs=300)
    high = arrives(job("high", 1, ONE, priority=5), at=100, runs=50)
    played = play(node("n1", gpus=1), low, high)
    assert [record(played, name).gang.stops for name in ("low", "high")] == [1, 0]


# --- near the old nodes


def racks() -> tuple[Any, ...]:
    """Return two racks of two nodes and their topology; without a home a gang uses the first."""
    return (rack("r1", "a", "b", gpus=1), rack("r2", "c", "d", gpus=1), RACKS)


@pytest.mark.parametrize(("home", "places"), [((), {"a", "b"}), (("c", "d"), {"c", "d"})])
def test_an_evicted_gang_returns_to_its_nodes(home: tuple[str, ...], places: set[str]):
    first, second, network = racks()
    gang = job("back", 2, ONE, stops=1, home=home)
    assert set(schedule(*first, *second, network, gang).places.values()) == places


def test_an_evicted_gang_returns_near_its_node_if_that_is_taken_or_gone():
    first, second, network = racks()
    taken = job("other", 1, ONE).runs(0, on="c", devices=(0,))
    gang = job("back", 1, ONE, stops=1, home=("c", "gone"))
    assert schedule(*first, *second, network, taken, gang).places == {"back-0": "d"}


def test_an_evicted_gang_does_not_wait_for_its_old_nodes():
    first, second, network = racks()
    taken = job("other", 1, ONE).runs(0, on="c", devices=(0,))
    gang = job("back", 2, ONE, stops=1, home=("c", "d"))
    assert schedule(*first, *second, network, taken, gang).started("back") == 2


def test_a_required_domain_comes_before_the_old_nodes():
    first, second, network = racks()
    taken = job("other", 1, ONE).runs(0, on="d", devices=(0,))
    gang = job("back", 2, ONE, stops=1, home=("c", "d"), domain=within("rack"))
    found = schedule(*first, *second, network, taken, gang)
    assert set(found.places.values()) == {"a", "b"}


def test_the_simulator_records_the_old_nodes_of_an_evicted_gang():
    low = arrives(job("low", 1, ONE), runs=300)
    high = arrives(job("high", 1, ONE, priority=5), at=100, runs=50)
    assert record(play(node("n1", gpus=1), low, high), "low").gang.home == ("n1",)
