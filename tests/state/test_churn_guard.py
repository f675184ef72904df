"""A gang that was preempted after it had preempted others does not preempt again at once."""

from __future__ import annotations

from tests.given import job, node, outcome_of, submit
from tests.support.preemption_given import ONE, late, only, runs
from windlass.state.cluster import Cluster


def overtaken() -> Cluster:
    """`mid` took the place of `low`, and `high`, which may displace later, took that of `mid`."""
    high = job("high", 1, ONE, priority=2, constraints=only("n1"), displaces_after_s=1060)
    mid = job("mid", 1, ONE, priority=1)
    things = node("n1", gpus=1), node("n2", gpus=1), runs("low", 0), runs("other", 0, on="n2")
    there = late(*things, mid, high, min_run_s=0, search_again_s=0, epoch_s=10**6)
    assert set(there.evicted) == {"low-0"}
    after = outcome_of(there.settled(seconds=30))
    assert after.started("mid") == 1
    overtaken = outcome_of(after.settled(seconds=60))
    assert set(overtaken.evicted) == {"mid-0"}
    return overtaken.settled(seconds=30)


def test_a_victim_that_had_preempted_does_not_preempt_again_while_nothing_changes():
    found = outcome_of(overtaken())
    assert (found.started("high"), found.evicted) == (1, {})
    assert outcome_of(found.settled(seconds=30)).evicted == {}


def test_the_churn_guard_is_part_of_a_snapshot():
    assert outcome_of(Cluster.of(overtaken().snapshot())).evicted == {}


def test_a_new_gang_lets_it_preempt_again():
    there = outcome_of(overtaken()).settled(seconds=30)
    submit(there, job("somebody"))
    assert set(outcome_of(there).evicted) == {"other-0"}
