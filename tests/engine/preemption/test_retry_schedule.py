"""The schedule of searches: first search, backoff, budget, and equal searches that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.given import cluster, job, node, queue
from tests.support.preemption_given import ONE
from windlass.engine.preemption.retry_schedule import RetrySchedule
from windlass.engine.preemption.search import SearchResult
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import gang_progress
from windlass.engine.queueing.shares import compute_shares
from windlass.model.jobs import GangId
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.state.snapshot import FailedSearch

A = GangId("a")


def waiting(now: int = 1000, **settings: Any) -> Cluster:
    """Return a cluster in which gang `a` waits since 0, in a queue with a guarantee of one GPU."""
    defaults: dict[str, Any] = {"search_again_s": 30, "epoch_s": 10}
    gang = job("a", 1, ONE, queue="q", displaces_after_s=100)
    things = queue("q", gpus=1), queue("r"), node("n1", gpus=1), gang
    return cluster(*things, now=now, settings=Settings(**(defaults | settings)))


def schedule_of(there: Cluster) -> RetrySchedule:
    limits = Limits(there)
    return RetrySchedule(there, limits, compute_shares(there, limits))


def test_a_gang_is_not_searched_for_before_displaces_after():
    schedule = schedule_of(there := waiting(now=99))
    assert not schedule.is_due(there.gangs[A])
    assert schedule.wake_at == 100
    assert schedule_of(waiting(now=100)).is_due(there.gangs[A])


def test_the_backoff_is_a_quarter_of_the_wait_rounded_up_to_an_epoch():
    there = waiting()
    there.searched = (FailedSearch(A, 902),)
    schedule = schedule_of(there)
    assert not schedule.is_due(there.gangs[A])
    assert schedule.wake_at == 1130, "902 + 902 // 4 = 1127"
    assert schedule.searched == {A: there.searched[0]}, "it is remembered until it is due"


def test_the_backoff_is_bounded_on_both_sides():
    there = waiting(now=10_000)
    gang = there.gangs[A]
    there.searched = (FailedSearch(A, 9_990),)
    schedule = schedule_of(there)
    assert not schedule.is_due(gang)
    assert schedule.wake_at == 9_990 + 10 * 30
    young = replace(gang, created_at=9_800)
    schedule = schedule_of(there)
    assert not schedule.is_due(young)
    assert schedule.wake_at == 10_040, "190 // 4 = 47, at the end of an epoch"


def test_a_gang_within_its_guarantee_is_searched_for_when_a_protection_ends():
    there = waiting()
    schedule = schedule_of(there)
    schedule.postpone(gang_progress(there, A), ready_at=1005)
    assert schedule.searched == {A: FailedSearch(A, 1000, 1005)}
    there.searched = tuple(schedule.searched.values())
    there.advance(1005)
    assert schedule_of(there).is_due(there.gangs[A])


def test_the_next_cycle_goes_on_when_the_budget_is_spent():
    there = waiting(search_steps=10)
    schedule = schedule_of(there)
    schedule.spend(9)
    assert (schedule.has_budget(), schedule.wake_at) == (True, None)
    schedule.spend(1)
    assert (schedule.has_budget(), schedule.wake_at) == (False, 1001)


def test_an_equal_search_is_not_made_again_until_a_protection_ends():
    there = waiting()
    gang = there.gangs[A]
    schedule_of(there).note_failure(gang, "alike", SearchResult(), protected_until=1020)
    later = schedule_of(there)
    assert later.fails_again("alike")
    assert (later.ready_at("alike"), later.wake_at) == (1020, 1020)
    assert not later.fails_again("another")
    there.advance(1020)
    assert not schedule_of(there).fails_again("alike")


def test_a_search_that_was_too_costly_or_patient_is_not_remembered_for_equal_gangs():
    there = waiting()
    schedule, gang = schedule_of(there), there.gangs[A]
    schedule.note_failure(gang, "costly", SearchResult(too_costly=True), None)
    assert schedule.wake_at == 60 * 32, "when the wait has doubled again: 60, 120, ... 1920"
    schedule.note_failure(gang, "patient", SearchResult(wait_until=1200), None)
    assert schedule.wake_at == 1200
    assert not schedule.fails_again("costly")
    assert not schedule.fails_again("patient")
