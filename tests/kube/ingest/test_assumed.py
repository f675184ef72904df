"""Binds under way: what was heard of them, when they are overdue, and how long failures rest."""

from __future__ import annotations

from windlass.kube.ingest.assumed import EXPIRES_AFTER_S, LONGEST_RETRY_S, Assumed
from windlass.model.actions import Bind
from windlass.model.jobs import GangId, TaskId

A, B, GANG = TaskId("a"), TaskId("b"), GangId("g")


def assumed(*tasks: TaskId, now: int = 0) -> Assumed:
    found = Assumed()
    for each in tasks:
        found.bind(Bind(each, "n1"), now)
    return found


def test_a_pod_is_on_its_node_from_the_moment_it_is_assumed():
    found = assumed(A)
    assert (found.node_of(A), found.node_of(B), len(found)) == ("n1", "", 1)


def test_a_bind_that_is_settled_is_over():
    found = assumed(A)
    assert found.settle(A) == Bind(A, "n1")
    assert (found.settle(A), found.node_of(A), len(found)) == (None, "", 0)


def test_a_bind_of_which_nothing_is_heard_is_named_once_per_while():
    found = assumed(A)
    assert found.overdue(EXPIRES_AFTER_S - 1) == []
    assert found.overdue(EXPIRES_AFTER_S) == [A]
    assert found.overdue(EXPIRES_AFTER_S + 1) == []
    assert found.overdue(2 * EXPIRES_AFTER_S) == [A]


def test_a_bind_is_still_assumed_when_it_is_overdue():
    found = assumed(A)
    found.overdue(EXPIRES_AFTER_S)
    assert found.node_of(A) == "n1"


def test_the_daemon_wakes_when_the_next_bind_is_overdue_or_the_next_gang_may_be_tried():
    found = assumed(A, now=5)
    assert found.wake_at(5) == 5 + EXPIRES_AFTER_S
    found.fail(GANG, "no", 5)
    assert found.wake_at(5) == 6
    assert found.wake_at(6) == 5 + EXPIRES_AFTER_S


def test_each_failure_rests_twice_as_long_up_to_a_bound():
    found, now, waits = Assumed(), 0, []
    for _ in range(9):
        found.fail(GANG, "no", now)
        end = next(at for at in range(now, now + 100) if found.backoff_reason(GANG, at) is None)
        waits.append(end - now)
        now = end
    assert waits == [1, 2, 4, 8, 16, 32, LONGEST_RETRY_S, LONGEST_RETRY_S, LONGEST_RETRY_S]


def test_pods_of_a_gang_that_fail_together_count_once():
    found = Assumed()
    for _ in range(8):
        found.fail(GANG, "no", 0)
    assert found.backoff_reason(GANG, 0) is not None
    assert found.backoff_reason(GANG, 1) is None


def test_a_failure_says_what_happened_and_when_it_is_tried_again():
    found = Assumed()
    found.fail(GANG, "the webhook said no", 0)
    assert str(found.backoff_reason(GANG, 0)) == (
        "it could not be bound (the webhook said no); it is tried again in 1 s"
    )


def test_gangs_are_named_in_the_moment_in_which_their_rest_ends():
    found = Assumed()
    found.fail(GANG, "no", 10)
    assert (
        found.ended_backoffs(9, 10),
        found.ended_backoffs(10, 11),
        found.ended_backoffs(11, 12),
    ) == ([], [GANG], [])


def test_a_bind_that_goes_well_clears_the_record():
    found = Assumed()
    found.fail(GANG, "no", 0)
    found.succeed(GANG)
    assert found.backoff_reason(GANG, 0) is None
    found.fail(GANG, "no", 0)
    assert found.backoff_reason(GANG, 1) is None


def test_an_eviction_lasts_until_the_pod_is_gone_or_stays_after_all():
    found = Assumed()
    found.evict(A, 7)
    found.evict(B, 8)
    assert (found.leaving_since(A), found.stay(A), found.leaving_since(A)) == (7, True, None)
    found.forget(B)
    assert (found.leaving_since(B), found.stay(B)) == (None, False)
