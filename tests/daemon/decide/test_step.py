"""One step of the daemon, from observed objects to the writes that follow."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.kube_given import (
    Stage,
    crew,
    gang_id,
    job,
    made_by,
    node,
    pod,
    queue,
    task_id,
)
from windlass.daemon.decide.step import SchedulerStep
from windlass.kube.ingest.assumed import EXPIRES_AFTER_S
from windlass.kube.ingest.scope import Scope
from windlass.kube.refs import ObjectLost, ObjectObserved, PodLost, PodRead, PodRef
from windlass.kube.writers.placement_promises import hold_of, promise_of, read
from windlass.kube.writes import EvictRefused
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.events import BindFailed
from windlass.model.gpus import WHOLE, GpuRequest, Slice
from windlass.model.jobs import TaskId, TaskState
from windlass.model.resources import Request
from windlass.model.settings import Settings
from windlass.workloads.objects.annotations import PREEMPTIBLE, PROMISE

TEAM = queue("team", "ml", guarantee={"gpu": 8})
"""Bare pods cannot be preempted, so they need a guarantee."""
ONE_GPU = Request(gpu=GpuRequest(1))


# --- starting


def test_a_gang_is_bound_whole_in_one_start_and_promised_first():
    there = Stage(TEAM, node("n1", 2), node("n2", 2), *crew("w", 4))
    (start,) = there.step().work.starts
    assert sorted(each.pod.name for each in start.bindings) == ["w-0", "w-1", "w-2", "w-3"]
    promise = read(start.promise)
    assert promise is not None
    promised = {place.task: at for at, places in promise.places.items() for place in places}
    assert promised == {each.pod.task: each.node for each in start.bindings}


def test_a_gang_that_does_not_fit_whole_is_not_bound_and_has_a_reason():
    there = Stage(TEAM, node("n1", 2), *crew("w", 3))
    first, second = there.step(), there.step(2)
    assert (first.bound, second.bound) == ({}, {})
    assert second.said == dict.fromkeys(("w-0", "w-1", "w-2"), "Unschedulable")
    assert all("3 tasks of 1 GPU" in each for each in second.texts.values())


def test_a_single_pod_needs_no_promise():
    (start,) = Stage(TEAM, node("n1", 2), pod("a", 1)).step().work.starts
    assert (start.promise, start.bindings[0].node) == ("", "n1")


def test_an_incomplete_gang_waits_for_its_other_pods():
    there = Stage(TEAM, node("n1", 4), *crew("w", 3)[:2])
    assert there.settle().said == {"w-0": "GangIncomplete", "w-1": "GangIncomplete"}
    there.see(crew("w", 3)[2])
    assert set(there.step().bound) == {"w-0", "w-1", "w-2"}


def test_an_indexed_job_starts_whole_and_the_pods_of_another_one_by_one():
    whole, single = job("whole", 3), job("single", 3, completionMode="NonIndexed")
    there = Stage(TEAM, node("n1", 2), whole, single)
    there.see(*(pod(f"whole-{i}", 1, owner=whole) for i in range(3)))
    there.see(*(pod(f"single-{i}", 1, owner=single) for i in range(3)))
    assert set(there.step().bound) == {"single-0", "single-1"}


def test_elastic_pods_join_a_running_gang():
    members = [pod(f"w-{i}", 1, gang=("w", 2)) for i in range(4)]
    there = Stage(TEAM, node("n1", 3), *members)
    assert set(there.step().bound) == {"w-0", "w-1", "w-2"}
    assert there.step(2).said == {"w-3": "WaitsToGrow"}


def test_a_plan_is_not_repeated_while_the_watch_is_behind():
    there = Stage(TEAM, node("n1", 2), *crew("w", 2))
    assert len(there.step().bound) == 2
    there.see(*crew("w", 2))
    assert there.step().bound == {}
    assert {each.state for each in there.cluster.tasks.values()} == {TaskState.BOUND}


def test_nothing_is_written_in_shadow_mode():
    brain = SchedulerStep(Scope(), 0, shadow=True)
    pods = [ObjectObserved("pods", each) for each in crew("w", 2)]
    brain.take([TEAM, ObjectObserved("nodes", node("n1", 2)), *pods])
    work = brain.step(0)
    assert (len(work.plan.binds), work.starts, work.messages, work.promises) == (2, [], [], [])


# --- news of what became of it


def test_a_failed_bind_is_retried_after_a_backoff_and_the_others_stay():
    there = Stage(TEAM, node("n1", 2), *crew("w", 2))
    there.step()
    there.see(BindFailed(task_id("w-1"), "the webhook said no"))
    assert there.step().bound == {}
    assert there.task("w-0").state is TaskState.BOUND
    assert there.step(1).bound == {"w-1": "n1"}


def test_an_overdue_bind_is_read_again():
    there = Stage(TEAM, node("n1", 2), pod("a", 1))
    there.step()
    assert there.step(EXPIRES_AFTER_S - 1).work.overdue_binds == []
    (ref,) = there.step(1).work.overdue_binds
    assert (ref.name, ref.uid) == ("a", "uid-of-a")
    there.see(PodRead(pod("a", 1, node="n1")))
    assert there.step(EXPIRES_AFTER_S).work.overdue_binds == []


def test_a_pod_that_a_writer_found_deleted_is_forgotten():
    there = Stage(TEAM, node("n1", 2), pod("a", 1))
    there.step()
    there.see(PodLost(PodRef(task_id("a"), "ml", "a", "uid-of-a")))
    assert (dict(there.cluster.tasks), there.step().bound) == ({}, {})


def test_the_victim_of_a_refused_eviction_runs_on():
    there = full_of_borrowers()
    victims = [each.pod.task for each in there.step().work.evictions[0].victims]
    assert there.cluster.tasks[victims[0]].state is TaskState.RELEASING
    there.see(EvictRefused(victims[0], "a budget"))
    assert there.cluster.tasks[victims[0]].state is TaskState.RUNNING


def test_a_preemptor_backs_off_with_a_reason_when_its_victim_is_not_evicted():
    there = full_of_borrowers()
    for wait_s in (1, 2):
        (clearing,) = there.step().work.evictions
        there.see(EvictRefused(clearing.victims[0].pod.task, "a budget says no"))
        assert there.step().work.evictions == []
        there.now += wait_s - 1
        told = there.step()
        assert told.work.evictions == []
        there.now += 1
    assert told.said == dict.fromkeys(("w-0", "w-1"), "EvictionRefused")
    assert all("(a budget says no); it is tried again" in each for each in told.texts.values())


def test_an_input_of_an_unexpected_type_raises():
    with pytest.raises(TypeError, match="unhandled input type: NodeObject among pods"):
        Stage(ObjectLost("pods", node("n1")))


# --- making room


def full_of_borrowers() -> Stage:
    """Return a stage with a node full of borrowers, and a waiting gang within its guarantee."""
    running = [
        pod(f"b-{i}", 1, queue="loan", owner=made_by("ReplicaSet", name=f"b{i}"), **RUNS)
        for i in range(2)
    ]
    return Stage(
        *(queue("team", "ml", guarantee={"gpu": 2}), queue("loan", "ml"), node("n1", 2)),
        *(*running, *crew("w", 2, queue="team")),
        now=1_800_000_000,
    )


RUNS: dict[str, Any] = {
    "node": "n1",
    "phase": "Running",
    "labels": {PREEMPTIBLE: "true"},
    "status": {"startTime": "2026-01-01T00:00:00Z"},
}


def test_the_promise_to_a_preemptor_is_written_before_its_victims_are_evicted():
    (clearing,) = full_of_borrowers().step().work.evictions
    assert {each.pod.name for each in clearing.victims} == {"b-0", "b-1"}
    assert clearing.gainer is not None
    assert clearing.gainer.name == "w-0"
    promise = read(clearing.promise)
    assert promise is not None
    assert set(promise.evicts) == {task_id("b-0"), task_id("b-1")}
    assert {place.task for places in promise.places.values() for place in places} == {
        task_id("w-0"),
        task_id("w-1"),
    }


def test_a_preemptor_with_a_hold_is_not_unschedulable():
    there = full_of_borrowers()
    said = there.step().said | there.step(2).said
    assert said == {"w-0": "PlaceHeld", "w-1": "PlaceHeld"}


def test_the_grace_of_a_victim_is_its_own_within_the_policy():
    there = full_of_borrowers()
    for at, own_s in enumerate((45, 315_360_000)):
        lives = RUNS | {"terminationGracePeriodSeconds": own_s}
        owner = made_by("ReplicaSet", name=f"b{at}")
        there.see(pod(f"b-{at}", 1, queue="loan", owner=owner, **lives))
    (clearing,) = there.step().work.evictions
    graces = {each.pod.name: each.grace_s for each in clearing.victims}
    assert graces == {"b-0": 45, "b-1": Settings().longest_grace_s}


def test_nothing_is_evicted_while_paused():
    there = full_of_borrowers()
    there.brain.pause(True)
    assert there.step().work.evictions == []
    there.brain.pause(False)
    assert len(there.step().work.evictions) == 1


# --- promises, and taking over


def test_a_promise_is_read_as_it_was_written():
    slices = (Slice(3, WHOLE), Slice(5, 500, "1g.10gb", 2))
    claims = [
        PlaceClaim(TaskId("a"), "n2", slices, ONE_GPU),
        PlaceClaim(TaskId("b"), "n1", (), ONE_GPU),
    ]
    text = promise_of(claims, Hold(gang_id("w"), tuple(claims), 77, False), [TaskId("v")])
    promise = read(text)
    assert promise is not None
    assert promise.evicts == ("v",)
    requests = {TaskId("a"): ONE_GPU, TaskId("b"): ONE_GPU}
    hold = hold_of(gang_id("w"), promise, requests)
    assert hold == Hold(gang_id("w"), tuple(claims), 77, False)


def test_promised_places_are_in_the_order_of_tasks_two_before_ten():
    claims = [PlaceClaim(TaskId(f"w-{i}"), f"n{20 - i}") for i in (10, 2, 1)]
    promise = read(promise_of(claims, None, ()))
    assert promise is not None
    found = hold_of(gang_id("w"), promise, {each.task: ONE_GPU for each in claims})
    assert found is not None
    assert [(each.task, each.node) for each in found.claims] == [
        ("w-1", "n19"),
        ("w-2", "n18"),
        ("w-10", "n10"),
    ]


def test_a_promise_holds_only_for_pods_that_still_wait():
    text = promise_of([PlaceClaim(TaskId("a"), "n1"), PlaceClaim(TaskId("b"), "n1")], None, ())
    promise = read(text)
    assert promise is not None
    found = hold_of(gang_id("w"), promise, {TaskId("b"): ONE_GPU})
    assert found is not None
    assert [each.task for each in found.claims] == ["b"]
    assert hold_of(gang_id("w"), promise, {}) is None


def test_a_promise_for_a_thousand_pods_can_be_written():
    claims = [
        PlaceClaim(task_id(f"w-{i}"), f"n{i % 128}", (Slice(i % 8, WHOLE),)) for i in range(1000)
    ]
    assert 0 < len(promise_of(claims, None, ())) < 200_000


def test_a_promise_that_is_too_long_is_empty():
    claims = [PlaceClaim(TaskId("x" * 300), f"n{i}") for i in range(1000)]
    assert promise_of(claims, None, ()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"places": {"n1": [["a", [[-99, 1000, "", 0]]]]}}',
        '{"places": {"n1": [["a", [[0, 99999, "", 0]]]]}}',
        '{"places": {"n1": [["a", [["x", 1000, "", 0]]]]}}',
        '{"places": {}, "starts_at": -5}',
        '{"places": {}, "starts_at": 1000000000000000000000000000000}',
    ],
)
def test_a_malformed_promise_is_ignored(text: str):
    assert read(text) is None


def half_bound(promise: str, *others: Any, now: int = 1000) -> Stage:
    """Return a stage with a gang of three, one bound to n3, and a promise to the gang."""
    first = pod("w-0", 1, gang=("w", 3), node="n3", promise=promise)
    rest = [pod(f"w-{i}", 1, gang=("w", 3)) for i in (1, 2)]
    nodes = [node(f"n{i}", 1) for i in (0, 1, 2, 3)]
    there = Stage(TEAM, *nodes, first, *rest, *others, now=now)
    there.brain.resume()
    return there


def promised(**places: str) -> str:
    claims = [
        PlaceClaim(task_id(f"w-{i}"), at, (Slice(0, WHOLE),))
        for i, at in enumerate(places.values())
    ]
    return promise_of(claims, None, ())


def test_a_half_bound_gang_is_completed_on_the_places_it_was_promised():
    there = half_bound(promised(a="n3", b="n2", c="n1"))
    assert there.step().bound == {"w-1": "n2", "w-2": "n1"}


def test_the_places_of_a_half_bound_gang_are_held():
    urgent = [pod(f"u-{i}", 1, priority=1000) for i in range(2)]
    there = half_bound(promised(a="n3", b="n2", c="n1"), *urgent)
    assert there.step().bound == {"u-0": "n0", "w-1": "n2", "w-2": "n1"}


def test_a_gang_whose_promised_node_is_gone_is_completed_elsewhere():
    there = half_bound(promised(a="n3", b="lost", c="n1"))
    assert set(there.step().bound) == {"w-1", "w-2"}


def test_a_promise_that_was_not_acted_on_is_dropped():
    text = promised(a="n3", b="n2", c="n1")
    members = [pod(f"w-{i}", 1, gang=("w", 3)) for i in range(3)]
    members[0] = pod("w-0", 1, gang=("w", 3), promise=text)
    there = Stage(TEAM, *(node(f"n{i}", 1) for i in (1, 2, 3)), *members)
    there.brain.resume()
    assert there.cluster.holds == {}
    assert set(there.step().bound) == {"w-0", "w-1", "w-2"}


def test_a_promise_in_an_annotation_is_ignored():
    text = promised(a="n3", b="n2", c="n1")
    forged = pod("w-0", 1, gang=("w", 3), node="n3", annotations={PROMISE: text})
    there = Stage(TEAM, *(node(f"n{i}", 1) for i in (1, 2, 3)), forged)
    there.brain.resume()
    assert there.cluster.holds == {}


def test_evictions_that_a_previous_leader_promised_are_finished():
    there = full_of_borrowers()
    text = there.step().work.evictions[0].promise
    after = full_of_borrowers()
    after.see(pod("w-0", 1, gang=("w", 2), queue="team", promise=text))
    after.brain.resume()
    (clearing,) = after.brain.evictions.unfinished()
    assert {each.pod.name for each in clearing.victims} == {"b-0", "b-1"}
    assert after.step().work.evictions == []
    after.lose(*(pod(f"b-{i}", 1, queue="loan", **RUNS) for i in range(2)))
    assert after.step().bound == {"w-0": "n1", "w-1": "n1"}


def test_a_promise_with_invalid_devices_is_ignored():
    there = half_bound(msgspec.json.encode({"places": {"n1": [["x", [[-9, 1, "", 0]]]]}}).decode())
    assert set(there.step().bound) == {"w-1", "w-2"}


def test_a_promise_is_cleared_when_its_gang_is_bound():
    there = half_bound(promised(a="n3", b="n2", c="n1"))
    there.step()
    assert list(there.brain._nominations.evictions()) == []
