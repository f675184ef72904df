"""Assumed binds and evictions, overdue binds, and the backoff of gangs whose binds failed."""

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


def test_an_assumed_bind_has_a_node_at_once():
    found = assumed(A)
    assert (found.node_of(A), found.node_of(B), len(found)) == ("n1", "", 1)


def test_a_settled_bind_is_no_longer_assumed():
    found = assumed(A)
    assert found.settle(A) == Bind(A, "n1")
    assert (found.settle(A), found.node_of(A), len(found)) == (None, "", 0)


def test_an_unconfirmed_bind_is_overdue_once_per_interval():
    found = assumed(A)
    assert found.overdue(EXPIRES_AFTER_S - 1) == []
    assert found.overdue(EXPIRES_AFTER_S) == [A]
    assert found.overdue(EXPIRES_AFTER_S + 1) == []
    assert found.overdue(2 * EXPIRES_AFTER_S) == [A]


def test_an_overdue_bind_is_still_assumed():
    found = assumed(A)
    found.overdue(EXPIRES_AFTER_S)
    assert found.node_of(A) == "n1"


def test_wakes_for_the_next_overdue_bind_or_the_end_of_a_backoff():
    found = assumed(A, now=5)
    assert found.wake_at(5) == 5 + EXPIRES_AFTER_S
    found.fail(GANG, "no", 5)
    assert found.wake_at(5) == 6
    assert found.wake_at(6) == 5 + EXPIRES_AFTER_S


def test_backoff_doubles_up_to_a_limit():
    found, now, waits = Assumed(), 0, []
    for _ in range(9):
        found.fail(GANG, "no", now)
        end = next(at for at in range(now, now + 100) if found.backoff_reason(GANG, at) is None)
        waits.append(end - now)
        now = end
    assert waits == [1, 2, 4, 8, 16, 32, LONGEST_RETRY_S, LONGEST_RETRY_S, LONGEST_RETRY_S]


def test_failures_of_one_gang_during_its_backoff_count_once():
    found = Assumed()
    for _ in range(8):
        found.fail(GANG, "no", 0)
    assert found.backoff_reason(GANG, 0) is not None
    assert found.backoff_reason(GANG, 1) is None


def test_backoff_reason_names_the_failure_and_the_wait():
    found = Assumed()
    found.fail(GANG, "the webhook said no", 0)
    assert str(found.backoff_reason(GANG, 0)) == (
        "it could not be bound (the webhook said no); it is tried again in 1 s"
    )


def test_a_gang_is_returned_once_when_its_backoff_ends():
    found = Assumed()
    found.fail(GANG, "no", 10)
    assert (
        found.ended_backoffs(9, 10),
        found.ended_backoffs(10, 11),
        found.ended_backoffs(11, 12),
    ) == ([], [GANG], [])


def test_a_confirmed_bind_resets_the_backoff():
    found = Assumed()
    found.fail(GANG, "no", 0)
    found.succeed(GANG)
    assert found.backoff_reason(GANG, 0) is None
    found.fail(GANG, "no", 0)
    assert found.backoff_reason(GANG, 1) is None


def test_an_assumed_eviction_ends_when_the_pod_is_gone_or_stays():
    found = Assumed()
    found.evict(A, 7)
    found.evict(B, 8)
    assert (found.leaving_since(A), found.stay(A), found.leaving_since(A)) == (7, True, None)
    found.forget(B)
    assert (found.leaving_since(B), found.stay(B)) == (None, False)
