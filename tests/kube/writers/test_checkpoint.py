"""Checkpoint requests: pods that can checkpoint are asked before an eviction; answers are verified.

These tests run whole scheduler steps: they check the orders that the writers would get.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.kube_given import NAMESPACE, Stage, crew, gang_id, job, node, pod, queue, task_id
from windlass.checkpoint.protocol import (
    ACK,
    BUDGET,
    EVERY,
    EXIT_SAVED,
    MODE,
    PATH,
    PORT,
    REQUEST,
    Ack,
    SaveState,
    read_request,
)
from windlass.daemon.decide.checkpoint_requests import RequestOutcome
from windlass.kube.writers.placement_promises import read
from windlass.kube.writes import EvictRefused, GangCheckpoint, Heard, RequestUnwritable
from windlass.model.jobs import TaskState
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import LATENCY_CRITICAL, SAVED, STOPS
from windlass.workloads.pods.checkpointing import (
    CheckpointSettings,
    checkpoint_settings_of,
    complaints,
    endpoint_of,
)

OWN, LOAN = queue("team", "ml", guarantee={"gpu": 2}), queue("loan", "ml")
LOW = job("low", 2)
IP = "10.0.0.9"
NOW = 1_800_000_000


def low(number: int, notes: Mapping[str, str] | None = None, **fields: Any) -> wire.Pod:
    """Return a running pod of a gang of two with the checkpoint mode `file`."""
    status = {"startTime": "2026-01-01T00:00:00Z", "podIP": IP} | fields.pop("status", {})
    annotations = {MODE: "file", BUDGET: "60s"} | dict(notes or {})
    defaults: dict[str, Any] = {"node": "n1", "phase": "Running", "queue": "loan", "owner": LOW}
    return pod(f"low-{number}", 1, annotations=annotations, status=status, **(defaults | fields))


def urgent(**fields: Any) -> list[wire.Pod]:
    return crew("w", 2, queue="team", **fields)


def crowded(**fields: Any) -> Stage:
    """Return a stage where a guarantee is claimed whose GPUs a gang with checkpoints borrows."""
    fields.setdefault("notes", {})
    return Stage(
        OWN, LOAN, node("n1", 2), LOW, low(0, **fields), low(1, **fields), *urgent(), now=NOW
    )


def requested(stage: Stage) -> GangCheckpoint:
    (order,) = stage.step().work.checkpoint_requests
    return order


def observe_requests(stage: Stage, order: GangCheckpoint, **notes: str) -> None:
    """Let the pods be observed with their requests."""
    stage.see(*(low(i, {REQUEST: order.request.text()} | notes) for i in range(2)))


def done(order: GangCheckpoint, **fields: Any) -> Ack:
    return replace(Ack(order.request.id, SaveState.DONE, 7, at=NOW), **fields)


def evicted(stage: Stage, seconds: int = 0) -> set[str]:
    clearings = stage.step(seconds).work.evictions
    return {victim.pod.name for clearing in clearings for victim in clearing.victims}


# --- reading


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, CheckpointSettings()),
        ({MODE: "none"}, CheckpointSettings()),
        ({MODE: "file"}, CheckpointSettings(True, 120)),
        ({MODE: "http", BUDGET: "45s", EVERY: "15m"}, CheckpointSettings(True, 45, 900)),
        ({MODE: "signal"}, CheckpointSettings(True, None, 20)),
        ({MODE: "signal", EVERY: "5s"}, CheckpointSettings(True, None, 5)),
        ({MODE: "file", BUDGET: "99d"}, CheckpointSettings(True, 1800)),
        ({LATENCY_CRITICAL: "true"}, CheckpointSettings(hurry_s=30)),
        ({LATENCY_CRITICAL: "10s"}, CheckpointSettings(hurry_s=10)),
        ({LATENCY_CRITICAL: "false"}, CheckpointSettings()),
    ],
)
def test_checkpoint_annotations_of_a_pod_are_read(
    notes: dict[str, str], expected: CheckpointSettings
):
    annotated = pod("a", annotations=notes, terminationGracePeriodSeconds=20)
    assert checkpoint_settings_of(annotated) == expected


def test_termination_grace_and_allowed_stops_are_read():
    made = pod("a", 1, annotations={STOPS: "2"}, terminationGracePeriodSeconds=90)
    (gang,) = Stage(OWN, node("n1", 1), made).cluster.gangs.values()
    assert (gang.terminates_s, gang.stops_at_most, gang.refusal) == (90, 2, None)


@pytest.mark.parametrize("many", ["two", "-1", "1.5"])
def test_an_invalid_number_of_stops_refuses_the_gang(many: str):
    stage = Stage(OWN, node("n1", 1), pod("a", 1, annotations={STOPS: many}))
    (gang,) = stage.cluster.gangs.values()
    assert "must be a number such as 2" in str(gang.refusal)


@pytest.mark.parametrize(
    "notes",
    [
        {MODE: "telepathy"},
        {MODE: "file", BUDGET: "soon"},
        {MODE: "file", BUDGET: "0s"},
        {MODE: "file", BUDGET: "99d"},
        {MODE: "file", EVERY: "-1s"},
        {MODE: "http", PORT: "22"},
        {MODE: "http", PATH: "//other/../..?x"},
        {LATENCY_CRITICAL: "very"},
    ],
)
def test_an_invalid_checkpoint_annotation_causes_an_event_and_does_not_block_the_pod(
    notes: dict[str, str],
):
    stage = Stage(OWN, LOAN, node("n1", 1), pod("a", 1, queue="team", annotations=notes))
    step = stage.step()
    assert step.bound == {"a": "n1"}
    assert ("a", "CheckpointUnreadable") in step.events
    assert stage.step(1).events == []


def test_valid_annotations_cause_no_complaint():
    notes = {MODE: "http", BUDGET: "60s", EVERY: "5m", PORT: "8000", PATH: "/save/me"}
    assert list(complaints(low(0, notes | {LATENCY_CRITICAL: "true"}))) == []


def test_the_endpoint_is_at_the_address_of_the_pod():
    assert endpoint_of(low(0)) == ""
    assert endpoint_of(low(0, {MODE: "http"})) == f"http://{IP}:8471/checkpoint"
    six = low(0, {MODE: "http", PORT: "9000", PATH: "/s"}, status={"podIP": "fd00::1"})
    assert endpoint_of(six) == "http://[fd00::1]:9000/s"
    assert endpoint_of(low(0, {MODE: "http"}, status={"podIP": ""})) == ""


def test_a_gang_checkpoints_as_slowly_as_its_slowest_pod_and_ignores_its_launcher():
    stage = Stage(LOAN, node("n1", 2), LOW, low(0), low(1, {BUDGET: "90s", EVERY: "5m"}))
    gang = stage.gang_of("low-0")
    assert (gang.saves_within_s, gang.unsaved_at_most_s) == (90, None)
    mixed = Stage(LOAN, node("n1", 2), LOW, low(0), low(1, {MODE: "none"}))
    assert mixed.gang_of("low-0").saves_within_s == 60


# --- requests


def test_a_checkpoint_is_requested_after_the_promise_and_before_any_eviction():
    stage = crowded()
    step = stage.step()
    (order,) = step.work.checkpoint_requests
    assert step.work.evictions == []
    assert [each.pod.name for each in order.pods] == ["low-0", "low-1"]
    assert order.request.deadline == stage.now + 60
    assert "make room for ml/w" in order.request.reason
    assert order.gainer is not None
    assert order.gainer.name == "w-0"
    promise = read(order.promise)
    assert promise is not None
    (parting,) = promise.pending_checkpoints
    assert parting == stage.cluster.partings.now()[0]
    assert promise.evicts == ()
    assert ("low-0", "AskedToSave") in step.events


def test_a_checkpoint_is_requested_only_once():
    stage = crowded()
    order = requested(stage)
    assert stage.step(1).work.checkpoint_requests == []
    observe_requests(stage, order)
    work = stage.step(1).work
    assert (work.checkpoint_requests, work.checkpoint_withdrawals, work.evictions) == ([], [], [])


def test_a_request_in_http_mode_names_the_endpoints():
    order = requested(crowded(notes={MODE: "http"}))
    assert {each.url for each in order.pods} == {f"http://{IP}:8471/checkpoint"}


def test_a_gang_is_evicted_once_every_pod_has_saved_and_the_answers_are_noted():
    stage = crowded()
    order = requested(stage)
    observe_requests(stage, order)
    stage.see(low(0, {REQUEST: order.request.text(), ACK: done(order).text()}))
    step = stage.step(1)
    assert [(each.pod.name, each.ack.step) for each in step.work.checkpoint_notes] == [("low-0", 7)]
    assert step.work.evictions == []
    stage.see(low(1, {REQUEST: order.request.text(), ACK: done(order, at=NOW - 10).text()}))
    work = stage.step().work
    assert {each.pod.name for each in work.evictions[0].victims} == {"low-0", "low-1"}
    assert "make room for ml/w" in work.evictions[0].victims[0].message
    assert [(each.outcome, each.waited_s) for each in work.ended_requests] == [
        (RequestOutcome.SAVED, 1)
    ]
    promise = read(work.evictions[0].promise)
    assert promise is not None
    assert (len(promise.evicts), promise.asks) == (2, ())


def test_a_gang_is_evicted_at_the_deadline_and_the_lost_work_is_counted():
    stage = crowded()
    observe_requests(stage, requested(stage))
    assert evicted(stage, 59) == set()
    work = stage.step(1).work
    assert {each.pod.name for each in work.evictions[0].victims} == {"low-0", "low-1"}
    assert [each.outcome for each in work.ended_requests] == [RequestOutcome.LATE]
    assert set(work.lost) == {"guarantee"}


def test_a_refused_checkpoint_is_not_waited_for():
    stage = crowded()
    order = requested(stage)
    observe_requests(stage, order)
    no = done(order, state=SaveState.REFUSED)
    stage.see(Heard(task_id("low-1"), no))
    assert evicted(stage) == {"low-0", "low-1"}


def test_no_pod_is_evicted_before_all_pods_of_the_gang_were_asked():
    stage = crowded()
    order = requested(stage)
    stage.see(low(1, {REQUEST: order.request.text()}))
    stage.see(Heard(task_id("low-1"), done(order, state=SaveState.REFUSED)))
    assert evicted(stage) == set()
    stage.see(low(0, {REQUEST: order.request.text()}))
    assert evicted(stage) == {"low-0", "low-1"}


def test_a_request_that_can_never_be_written_is_not_waited_for():
    stage = crowded()
    order = requested(stage)
    stage.see(low(1, {REQUEST: order.request.text()}))
    stage.see(RequestUnwritable(task_id("low-0"), order.request.id, "forbidden"))
    assert evicted(stage) == {"low-0", "low-1"}


def test_if_the_promise_cannot_be_written_no_pod_is_evicted():
    stage = crowded()
    order = requested(stage)
    stage.see(*(EvictRefused(each.pod.task, "no promise") for each in order.pods))
    assert stage.task("low-0").state is TaskState.RUNNING
    stage.lose(*urgent())
    assert stage.step().work.checkpoint_requests == []
    assert stage.cluster.partings.now() == ()


def test_a_launcher_without_checkpoints_does_not_delay_the_eviction():
    stage = Stage(OWN, LOAN, node("n1", 2), LOW, low(0), low(1, {MODE: "none"}), *urgent(), now=NOW)
    order = requested(stage)
    assert [each.pod.name for each in order.pods] == ["low-0"]
    stage.see(low(0, {REQUEST: order.request.text(), ACK: done(order).text()}))
    assert evicted(stage) == {"low-0", "low-1"}


# --- answers


@pytest.mark.parametrize("code", [EXIT_SAVED, 1])
def test_the_termination_message_of_a_container_counts_as_an_answer_also_under_torchrun(code: int):
    stage = crowded()
    order = requested(stage)
    observe_requests(stage, order)
    ended = {"terminated": {"exitCode": code, "message": done(order).text()}}
    for i in range(2):  # the container was restarted, the pod still runs
        status = {"containerStatuses": [{"name": "main", "lastState": ended}]}
        stage.see(low(i, {REQUEST: order.request.text()}, status=status))
    assert evicted(stage) == {"low-0", "low-1"}


def test_a_gang_that_saved_and_exited_is_not_evicted():
    stage = crowded()
    order = requested(stage)
    observe_requests(stage, order)
    ended = {"terminated": {"exitCode": EXIT_SAVED, "message": done(order).text()}}
    status = {"containerStatuses": [{"name": "main", "state": ended}]}
    for i in range(2):
        stage.see(low(i, {REQUEST: order.request.text()}, status=status, phase="Failed"))
    step = stage.step()
    assert (step.bound, step.work.evictions) == ({"w-0": "n1", "w-1": "n1"}, [])
    assert [each.outcome for each in step.work.ended_requests] == [RequestOutcome.SAVED]
    stage.see(pod("low-0b", 1, owner=LOW, queue="loan"), pod("low-1b", 1, owner=LOW, queue="loan"))
    assert stage.gang_of("low-0b").saved_at == stage.now  # replacement pods inherit it


@pytest.mark.parametrize(
    "wrong",
    [{"id": "forged"}, {"id": ""}, {"step": 6}],
    ids=["another id", "no id", "a step before the one that was safe"],
)
def test_stale_and_forged_answers_are_refused_and_reported_once(wrong: dict[str, Any]):
    stage = crowded()
    order = requested(stage)
    before = done(order, id="earlier")
    noted = {"type": SAVED, "status": "True", "message": before.text()}
    status = {"conditions": [noted]}
    bad = done(order, **wrong).text()
    notes = {REQUEST: order.request.text(), ACK: bad}
    stage.see(*(low(i, notes, status=status) for i in range(2)))
    first, second = stage.step(1).work, stage.step(1).work
    assert {each.task for each in first.refused_answers} == {task_id("low-0"), task_id("low-1")}
    assert (first.evictions, second.evictions, second.refused_answers) == ([], [], [])
    assert evicted(stage, 60) == {"low-0", "low-1"}  # the deadline still holds


def test_an_answer_without_a_request_is_ignored():
    stage = crowded()
    stage.see(Heard(task_id("low-0"), Ack("x", SaveState.DONE, 9, at=NOW)))
    assert stage.gang_of("low-0").saved_at is None
    assert len(stage.step().work.checkpoint_requests) == 1


def test_the_time_of_a_checkpoint_is_clamped_between_its_request_and_now():
    stage = crowded()
    order = requested(stage)
    observe_requests(stage, order)
    stage.step(5)
    stage.see(Heard(task_id("low-0"), done(order, at=1)))
    stage.see(Heard(task_id("low-1"), done(order, at=1 << 40)))
    assert stage.gang_of("low-0").saved_at == NOW


# --- withdrawals


def test_a_request_that_is_no_longer_needed_is_withdrawn_from_every_pod():
    stage = crowded()
    order = requested(stage)
    observe_requests(stage, order)
    stage.lose(*urgent())
    step = stage.step()
    (withdrawal,) = step.work.checkpoint_withdrawals
    assert withdrawal.id == order.request.id
    assert [each.pod.name for each in withdrawal.pods] == ["low-0", "low-1"]
    assert [each.outcome for each in step.work.ended_requests] == [RequestOutcome.WITHDRAWN]
    assert ("low-0", "WorksOn") in step.events
    assert stage.task("low-0").state is TaskState.RUNNING
    assert stage.step(1).work.checkpoint_withdrawals == []


def test_a_request_that_was_written_after_its_withdrawal_is_withdrawn_again():
    stage = crowded()
    order = requested(stage)
    stage.lose(*urgent())
    assert len(stage.step().work.checkpoint_withdrawals) == 1
    observe_requests(stage, order)
    assert (
        stage.step(5).work.checkpoint_withdrawals == []
    )  # the first withdrawal may still be in flight
    assert len(stage.step(5).work.checkpoint_withdrawals) == 1


# --- after a crash


def successor(order: GangCheckpoint, *pods: wire.Pod) -> Stage:
    """Return the stage of a new leader that finds these pods and the promise."""
    first, *rest = urgent()
    first = pod("w-0", 1, gang=("w", 2), queue="team", promise=order.promise)
    stage = Stage(OWN, LOAN, node("n1", 2), LOW, *pods, first, *rest, now=NOW + 10)
    stage.brain.resume()
    return stage


def test_a_new_leader_requests_missing_checkpoints_with_the_same_id():
    order = requested(crowded())
    after = successor(order, low(0, {REQUEST: order.request.text()}), low(1))
    again = requested(after)
    assert [each.pod.name for each in again.pods] == ["low-1"]
    assert (again.request.id, again.request.deadline) == (order.request.id, NOW + 60)
    assert evicted(after, 49) == set()
    assert evicted(after, 1) == {"low-0", "low-1"}


def test_a_new_leader_accepts_earlier_answers():
    order = requested(crowded())
    note = {"type": SAVED, "status": "True", "message": done(order).text()}
    after = successor(
        order,
        low(0, {REQUEST: order.request.text(), ACK: done(order).text()}),
        low(1, {REQUEST: order.request.text()}, status={"conditions": [note]}),
    )
    assert evicted(after) == {"low-0", "low-1"}


def test_a_new_leader_polls_the_endpoints_again():
    order = requested(crowded(notes={MODE: "http"}))
    notes = {MODE: "http", REQUEST: order.request.text()}
    after = successor(order, low(0, notes), low(1, notes))
    assert [each.pod.name for each in requested(after).pods] == ["low-0", "low-1"]


def test_a_request_without_a_promise_is_withdrawn_by_a_new_leader():
    order = requested(crowded())
    request = {REQUEST: order.request.text()}
    after = Stage(OWN, LOAN, node("n1", 2), LOW, low(0, request), low(1, request), now=NOW)
    after.brain.resume()
    (withdrawal,) = after.step().work.checkpoint_withdrawals
    assert (withdrawal.id, len(withdrawal.pods)) == (order.request.id, 2)


def test_a_forged_request_causes_no_eviction_and_no_request():
    forged = {REQUEST: json.dumps({"id": "x", "deadline": "2020-01-01T00:00:00Z"})}
    assert read_request(forged[REQUEST]) is not None
    stage = Stage(OWN, LOAN, node("n1", 4), LOW, low(0, forged), low(1, forged), now=NOW)
    stage.brain.resume()
    assert evicted(stage) == set()
    assert stage.cluster.partings.now() == ()


def test_the_time_of_a_checkpoint_survives_a_restart_of_the_scheduler():
    order = requested(crowded())
    status = {"conditions": [{"type": SAVED, "status": "True", "message": done(order).text()}]}
    after = Stage(LOAN, node("n1", 2), LOW, low(0, status=status), low(1, status=status), now=NOW)
    after.brain.resume()
    assert after.gang_of("low-0").saved_at == NOW


def test_no_checkpoint_is_requested_in_shadow_mode():
    assert gang_id("w") == f"{NAMESPACE}/w"
    stage = crowded()
    stage.brain._shadow = True
    assert stage.step().work.checkpoint_requests == []
