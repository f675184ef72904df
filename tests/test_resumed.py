"""Work that lost its place to others comes before its equals, and before nobody else."""

from __future__ import annotations

from typing import Any

from tests.displaced import ONE, late
from tests.given import Job, job, node
from tests.played import arrives, play, record


def back(**fields: Any) -> Job:
    """A gang that was stopped once and waits again."""
    return job("back", 1, ONE, created_at=500, stops=1, **fields)


def test_who_lost_its_place_comes_before_older_work_of_its_queue():
    assert set(late(node("n1", gpus=1), job("old", 1, ONE), back()).places) == {"back-0"}


def test_and_before_the_work_of_a_user_who_has_less():
    runs = job("other", 1, ONE, user="ann").runs(0, on="n1", devices=(0,))
    two = node("n1", gpus=2), runs, job("new", 1, ONE, user="bob")
    assert set(late(*two, back(user="ann")).places) == {"back-0"}


def test_but_not_before_a_higher_priority():
    urgent = job("urgent", 1, ONE, priority=1)
    assert set(late(node("n1", gpus=1), urgent, back()).places) == {"urgent-0"}


def test_the_simulator_tells_who_was_displaced():
    low = arrives(job("low", 1, ONE), runs=300)
    high = arrives(job("high", 1, ONE, priority=5), at=100, runs=50)
    played = play(node("n1", gpus=1), low, high)
    assert [record(played, name).gang.stops for name in ("low", "high")] == [1, 0]
