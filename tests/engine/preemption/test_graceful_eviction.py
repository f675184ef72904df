"""Graceful eviction: a gang that can checkpoint is requested to, and is evicted once it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.given import Job, Outcome, ask, job, node, outcome_of, queue, submit
from tests.support.preemption_given import LATER, ONE, TWO, late, runs
from windlass.engine.plan import Verdict
from windlass.model.actions import EvictionRule, PendingCheckpoint
from windlass.model.events import (
    Answered,
    CheckpointRequestSeen,
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
from windlass.state.cluster import Cluster
from windlass.state.snapshot import from_json, to_json

BUDGET = 120


def saver(name: str = "low", *devices: int, **fields: Any) -> Job:
    """Return a gang of two tasks on all GPUs of n1 that can checkpoint on request."""
    asked: dict[str, Any] = {"saves_within_s": BUDGET} | fields
    return runs(name, *(devices or (0, 1)), tasks=2, **asked)


def urgent(name: str = "high", **fields: Any) -> Job:
    return job(name, 1, TWO, priority=5, **fields)


def crowded(low: Job | None = None, high: Job | None = None) -> Outcome:
    """Plan for an urgent gang that finds no room beside one that can checkpoint."""
    return late(node("n1", gpus=2), low or saver(), high or urgent())


def parting(found: Outcome) -> PendingCheckpoint:
    [only] = found.plan.asks
    return only


def states(there: Cluster, gang: str = "low") -> set[TaskState]:
    return {task.state for task in there.members(GangId(gang))}


def after(found: Outcome, seconds: int) -> Outcome:
    there = found.carried_out()
    there.advance(there.now + seconds)
    return outcome_of(there)


def answer(found: Outcome, *tasks: str, name: str = "", saved: bool = True) -> Outcome:
    """Return the next plan, after these tasks have answered."""
    there = found.carried_out()
    asked = name or there.partings.now()[0].id
    for task in tasks:
        there.apply(Answered(TaskId(task), asked, saved))
    return outcome_of(there)


def test_a_gang_that_can_checkpoint_is_requested_to_and_not_evicted():
    found = crowded()
    asked = parting(found)
    assert found.evicted == {}
    assert (asked.gang, asked.asked_at, asked.deadline) == ("low", LATER, LATER + BUDGET)
    assert [(each.task, each.rule, each.gainer) for each in asked.evictions] == [
        ("low-0", EvictionRule.PRIORITY, "high"),
        ("low-1", EvictionRule.PRIORITY, "high"),
    ]
    assert found.verdict("low") is Verdict.DISPLACED
    assert found.held == {"high": ["n1"]}


def test_a_gang_that_cannot_checkpoint_is_evicted_at_once():
    assert set(crowded(saver(saves_within_s=None)).evicted) == {"low-0", "low-1"}


def test_a_gang_keeps_its_places_while_its_checkpoint_is_pending():
    found = after(crowded(), BUDGET - 1)
    assert found.plan.actions == ()
    assert found.plan.wake_at == LATER + BUDGET
    assert states(found.cluster) == {TaskState.RELEASING}
    assert found.held == {"high": ["n1"]}


def test_a_gang_is_evicted_once_every_task_has_checkpointed():
    asked = crowded()
    assert answer(asked, "low-0").plan.actions == ()
    both = answer(asked, "low-0", "low-1")
    assert both.evicted == {"low-0": EvictionRule.PRIORITY, "low-1": EvictionRule.PRIORITY}
    assert both.carried_out().partings.now() == ()
    assert outcome_of(both.settled()).places == {"high-0": "n1"}


def test_a_gang_is_evicted_at_the_deadline_of_its_request():
    assert set(after(crowded(), BUDGET).evicted) == {"low-0", "low-1"}


def test_a_gang_that_refuses_a_checkpoint_is_evicted_at_once():
    assert set(answer(crowded(), "low-1", saved=False).evicted) == {"low-0", "low-1"}


@pytest.mark.parametrize("name", ["another", "x"])
def test_an_answer_to_another_request_is_ignored(name: str):
    assert answer(crowded(), "low-0", "low-1", name=name).plan.actions == ()


def test_request_ids_are_unique_and_deterministic():
    first, again = parting(crowded()), parting(crowded())
    assert first == again
    another = late(node("n1", gpus=2), saver(), urgent(), now=LATER + 1)
    assert parting(another).id != first.id


def test_a_request_is_withdrawn_when_the_preemptor_is_gone():
    there = crowded().carried_out()
    there.apply(GangGone(GangId("high")))
    found = outcome_of(there)
    [withdrawn] = found.plan.withdrawals
    assert (withdrawn.gang, found.evicted) == ("low", {})
    rest = found.carried_out()
    assert states(rest) == {TaskState.RUNNING}
    assert rest.partings.now() == ()
    assert outcome_of(rest).plan.actions == ()


def test_a_request_is_withdrawn_when_the_preemptor_found_room_elsewhere():
    there = crowded().carried_out()
    there.apply(NodeSeen(node("n2", gpus=2)))
    found = outcome_of(there)
    assert found.places == {"high-0": "n2"}
    assert [each.gang for each in found.plan.withdrawals] == ["low"]


def test_a_request_stays_while_another_gang_holds_the_places():
    there = late(node("n1", gpus=2), saver(), job("high", 1, ONE, priority=5)).carried_out()
    submit(there, job("next", 1, ONE, priority=4))
    both = outcome_of(there)
    assert set(both.held) == {"high", "next"}
    there = both.carried_out()
    there.apply(GangGone(GangId("high")))
    assert outcome_of(there).plan.withdrawals == ()


def test_no_checkpoint_is_requested_from_a_gang_that_only_shrinks():
    found = crowded(saver(minimum=1), job("high", 1, ONE, priority=5))
    assert found.plan.asks == ()
    assert set(found.evicted) == {"low-1"}


def test_no_checkpoint_is_requested_before_all_tasks_run():
    bound = saver().become(1, state=TaskState.BOUND, started_at=None)
    assert set(crowded(bound).evicted) == {"low-0", "low-1"}


def test_no_checkpoint_is_requested_from_a_stale_gang():
    broken = runs("low", 0, minimum=2, saves_within_s=BUDGET)
    there = late(node("n1", gpus=1), broken).carried_out()
    there.advance(LATER + 100)
    found = outcome_of(there)
    assert (found.evicted, found.plan.asks) == ({"low-0": EvictionRule.STALE}, ())


def test_a_gang_below_its_minimum_is_evicted_without_a_request():
    torn = runs("low", 0, 1, minimum=2, saves_within_s=BUDGET)
    assert set(crowded(torn).evicted) == {"low-0"}


def test_the_hurry_of_a_preemptor_shortens_the_deadline():
    assert parting(crowded(high=urgent(hurry_s=30))).deadline == LATER + 30
    assert parting(crowded(high=urgent(hurry_s=300))).deadline == LATER + BUDGET


def test_a_preemptor_in_a_hurry_takes_victims_that_lose_least_in_that_time():
    slow = runs("slow", 0, saves_within_s=300)
    mute = runs("mute", 1, saved_at=LATER - 400)

    def goes(**fields: Any) -> set[str]:
        found = late(node("n1", gpus=2), slow, mute, job("high", 1, ONE, priority=5, **fields))
        return {each.gang for each in found.plan.asks} | set(found.evicted)

    assert goes() == goes(hurry_s=300) == {"slow"}
    assert goes(hurry_s=30) == {"mute-0"}


def test_a_preemptor_in_a_hurry_takes_of_equal_victims_those_that_leave_soonest():
    things = (node("n1", gpus=2), runs("a", 0, terminates_s=60), runs("b", 1, terminates_s=5))
    assert set(late(*things, job("high", 1, ONE, priority=5)).evicted) == {"a-0"}
    assert set(late(*things, job("high", 1, ONE, priority=5, hurry_s=30)).evicted) == {"b-0"}


def test_a_checkpoint_is_requested_before_a_move_too():
    low = runs("low", 0, saves_within_s=BUDGET)
    there = (node("n1", gpus=2), node("n2", gpus=1), low)
    found = late(*there, job("wide", 1, TWO, created_at=0))
    assert [each.moves_to for each in parting(found).evictions] == ["n2"]
    gone = answer(found, "low-0")
    assert gone.moved == {"low-0": "n2"}
    assert outcome_of(gone.settled()).places == {"low-0.1": "n2", "wide-0": "n1"}


def test_a_task_that_ends_meanwhile_needs_no_answer():
    there = crowded().carried_out()
    there.apply(TaskEnded(TaskId("low-0"), succeeded=False))
    there.apply(TaskGone(TaskId("low-0")))
    there.apply(Answered(TaskId("low-1"), there.partings.now()[0].id))
    assert set(outcome_of(there).evicted) == {"low-1"}


def test_a_request_ends_with_its_node():
    there = crowded().carried_out()
    there.apply(NodeGone("n1"))
    found = outcome_of(there)
    assert found.evicted == {}
    assert found.carried_out().partings.now() == ()


def test_a_long_checkpoint_is_not_taken_for_a_stuck_termination():
    long = BUDGET * 100
    found = after(crowded(saver(saves_within_s=long)), long - 1)
    assert found.held == {"high": ["n1"]}
    gone = after(found, 1)
    assert set(gone.evicted) == {"low-0", "low-1"}
    assert outcome_of(gone.settled(30)).places == {"high-0": "n1"}


def test_a_snapshot_contains_requests_and_their_answers():
    found = answer(crowded(), "low-0")
    snapshot = found.cluster.snapshot()
    assert from_json(to_json(snapshot)) == snapshot
    assert Cluster.of(snapshot).partings.now()[0].saved == ("low-0",)


def test_a_new_leader_continues_a_request_from_the_snapshot():
    asked = parting(crowded())
    there = late(node("n1", gpus=2), saver(), urgent()).cluster
    there.apply(CheckpointRequestSeen(asked))
    assert there.partings.now() == (asked,)
    assert states(there) == {TaskState.RELEASING}


def test_withdrawing_a_request_does_not_stop_tasks_that_already_leave():
    low = saver("low", 0, 1, minimum=1)
    there = crowded(low, job("one", 1, ONE, priority=5)).carried_out()
    submit(there, job("two", 1, ONE, priority=5))
    found = outcome_of(there)
    assert [each.task for each in parting(found).evictions] == ["low-0"]
    rest = found.carried_out()
    rest.apply(GangGone(GangId("two")))
    rest = outcome_of(rest).carried_out()
    assert rest.partings.now() == ()
    assert {each.id: each.state for each in rest.members(GangId("low"))} == {
        "low-0": TaskState.RUNNING,
        "low-1": TaskState.RELEASING,
    }


def test_a_gang_with_a_pending_checkpoint_does_not_grow():
    low = saver("low", 0, 1, minimum=1)
    there = crowded(low).carried_out()
    there.apply(TaskEnded(TaskId("low-0"), succeeded=False))
    there.apply(TaskGone(TaskId("low-0")))
    there.apply(TaskSeen(replace(low.tasks[0].successor(TaskId("low-0.1")))))
    there.apply(NodeSeen(node("n2", gpus=1)))
    found = outcome_of(there)
    assert found.places == {}
    assert found.whys("low") == {ReasonCode.SAVING}


def test_an_answer_does_not_reset_the_churn_guard():
    there = crowded().carried_out()
    before = there.gains.now()
    there.apply(Answered(TaskId("low-0"), there.partings.now()[0].id))
    there.apply(GangSeen(replace(there.gangs[GangId("low")], saved_at=there.now)))
    assert before
    assert there.gains.now() == before


def test_a_gang_that_can_checkpoint_is_the_cheaper_victim():
    things = (node("n1", gpus=2), runs("mute", 0), runs("saver", 1, saves_within_s=BUDGET))
    found = late(*things, job("high", 1, ONE, priority=5))
    assert parting(found).gang == "saver"


def test_reclaim_requests_a_checkpoint_too():
    own, other = queue("own", gpus=2), queue("other")
    low = replace(saver(), gang=replace(saver().gang, queue="other"))
    found = late(own, other, node("n1", gpus=2), low, job("mine", 2, ask(gpus=1), queue="own"))
    assert {each.rule for each in parting(found).evictions} == {EvictionRule.GUARANTEE}
