"""Pods that can save their work are asked first, and only right answers are believed."""

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
from windlass.kube.writers.checkpoint import Asking, Heard, Unasked
from windlass.kube.writers.evictor import EvictRefused
from windlass.kube.writers.placement_promises import read
from windlass.model.jobs import TaskState
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import LATENCY_CRITICAL, SAVED, STOPS
from windlass.workloads.pods.checkpointing import (
    CheckpointSettings,
    complaints,
    endpoint_of,
    saving_of,
)

OWN, LOAN = queue("team", "ml", guarantee={"gpu": 2}), queue("loan", "ml")
LOW = job("low", 2)
IP = "10.0.0.9"
NOW = 1_800_000_000


def low(number: int, notes: Mapping[str, str] | None = None, **fields: Any) -> wire.Pod:
    """A running pod of a gang of two that can be asked by file."""
    status = {"startTime": "2026-01-01T00:00:00Z", "podIP": IP} | fields.pop("status", {})
    said = {MODE: "file", BUDGET: "60s"} | dict(notes or {})
    known: dict[str, Any] = {"node": "n1", "phase": "Running", "queue": "loan", "owner": LOW}
    return pod(f"low-{number}", 1, annotations=said, status=status, **(known | fields))


def urgent(**fields: Any) -> list[wire.Pod]:
    return crew("w", 2, queue="team", **fields)


def crowded(**fields: Any) -> Stage:
    """Somebody claims its guarantee, and both GPUs are lent to a gang that can save."""
    fields.setdefault("notes", {})
    return Stage(
        OWN, LOAN, node("n1", 2), LOW, low(0, **fields), low(1, **fields), *urgent(), now=NOW
    )


def asked(there: Stage) -> Asking:
    (only,) = there.step().work.askings
    return only


def carrying(there: Stage, asking: Asking, **notes: str) -> None:
    """The pods are seen with their requests."""
    there.see(*(low(i, {REQUEST: asking.request.text()} | notes) for i in range(2)))


def done(asking: Asking, **fields: Any) -> Ack:
    return replace(Ack(asking.request.id, SaveState.DONE, 7, at=NOW), **fields)


def evicted(there: Stage, seconds: int = 0) -> set[str]:
    clearings = there.step(seconds).work.clearings
    return {each.pod.name for clearing in clearings for each in clearing.victims}


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
def test_what_a_pod_says_about_saving(notes: dict[str, str], expected: CheckpointSettings):
    found = pod("a", annotations=notes, terminationGracePeriodSeconds=20)
    assert saving_of(found) == expected


def test_how_long_it_takes_to_stop_and_how_often_it_may_be_stopped_is_read_too():
    made = pod("a", 1, annotations={STOPS: "2"}, terminationGracePeriodSeconds=90)
    (gang,) = Stage(OWN, node("n1", 1), made).cluster.gangs.values()
    assert (gang.terminates_s, gang.stops_at_most, gang.refusal) == (90, 2, None)


@pytest.mark.parametrize("many", ["two", "-1", "1.5"])
def test_a_number_of_stops_that_is_none_is_told(many: str):
    there = Stage(OWN, node("n1", 1), pod("a", 1, annotations={STOPS: many}))
    (gang,) = there.cluster.gangs.values()
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
def test_what_cannot_be_read_refuses_nothing_and_is_told(notes: dict[str, str]):
    there = Stage(OWN, LOAN, node("n1", 1), pod("a", 1, queue="team", annotations=notes))
    step = there.step()
    assert step.bound == {"a": "n1"}
    assert ("a", "CheckpointUnreadable") in step.events
    assert there.step(1).events == []


def test_who_says_everything_right_hears_nothing():
    notes = {MODE: "http", BUDGET: "60s", EVERY: "5m", PORT: "8000", PATH: "/save/me"}
    assert list(complaints(low(0, notes | {LATENCY_CRITICAL: "true"}))) == []


def test_the_endpoint_is_at_the_pods_own_address():
    assert endpoint_of(low(0)) == ""
    assert endpoint_of(low(0, {MODE: "http"})) == f"http://{IP}:8471/checkpoint"
    six = low(0, {MODE: "http", PORT: "9000", PATH: "/s"}, status={"podIP": "fd00::1"})
    assert endpoint_of(six) == "http://[fd00::1]:9000/s"
    assert endpoint_of(low(0, {MODE: "http"}, status={"podIP": ""})) == ""


def test_a_gang_takes_as_long_as_the_slowest_of_it_and_a_launcher_has_nothing_to_save():
    there = Stage(LOAN, node("n1", 2), LOW, low(0), low(1, {BUDGET: "90s", EVERY: "5m"}))
    gang = there.gang_of("low-0")
    assert (gang.saves_within_s, gang.unsaved_at_most_s) == (90, None)
    mixed = Stage(LOAN, node("n1", 2), LOW, low(0), low(1, {MODE: "none"}))
    assert mixed.gang_of("low-0").saves_within_s == 60


# --- asking


def test_who_can_save_is_asked_after_the_promise_and_nobody_is_evicted():
    there = crowded()
    step = there.step()
    (asking,) = step.work.askings
    assert step.work.clearings == []
    assert [each.pod.name for each in asking.pods] == ["low-0", "low-1"]
    assert asking.request.deadline == there.now + 60
    assert "make room for ml/w" in asking.request.reason
    assert asking.gainer is not None
    assert asking.gainer.name == "w-0"
    promise = read(asking.promise)
    assert promise is not None
    (parting,) = promise.partings
    assert parting == there.cluster.partings.now()[0]
    assert promise.evicts == ()
    assert ("low-0", "AskedToSave") in step.events


def test_nobody_is_asked_twice():
    there = crowded()
    asking = asked(there)
    assert there.step(1).work.askings == []
    carrying(there, asking)
    work = there.step(1).work
    assert (work.askings, work.withdrawals, work.clearings) == ([], [], [])


def test_over_http_the_endpoints_are_known():
    asking = asked(crowded(notes={MODE: "http"}))
    assert {each.url for each in asking.pods} == {f"http://{IP}:8471/checkpoint"}


def test_it_goes_once_every_pod_has_answered_and_what_was_answered_is_noted():
    there = crowded()
    asking = asked(there)
    carrying(there, asking)
    there.see(low(0, {REQUEST: asking.request.text(), ACK: done(asking).text()}))
    step = there.step(1)
    assert [(each.pod.name, each.ack.step) for each in step.work.saved] == [("low-0", 7)]
    assert step.work.clearings == []
    there.see(low(1, {REQUEST: asking.request.text(), ACK: done(asking, at=NOW - 10).text()}))
    work = there.step().work
    assert {each.pod.name for each in work.clearings[0].victims} == {"low-0", "low-1"}
    assert "make room for ml/w" in work.clearings[0].victims[0].message
    assert [(each.outcome, each.waited_s) for each in work.ended] == [(RequestOutcome.SAVED, 1)]
    promise = read(work.clearings[0].promise)
    assert promise is not None
    assert (len(promise.evicts), promise.asks) == (2, ())


def test_the_deadline_holds_and_what_is_lost_by_it_is_counted():
    there = crowded()
    carrying(there, asked(there))
    assert evicted(there, 59) == set()
    work = there.step(1).work
    assert {each.pod.name for each in work.clearings[0].victims} == {"low-0", "low-1"}
    assert [each.outcome for each in work.ended] == [RequestOutcome.LATE]
    assert set(work.lost) == {"guarantee"}


def test_who_refuses_is_not_waited_for():
    there = crowded()
    asking = asked(there)
    carrying(there, asking)
    no = done(asking, state=SaveState.REFUSED)
    there.see(Heard(task_id("low-1"), no))
    assert evicted(there) == {"low-0", "low-1"}


def test_nobody_goes_before_all_of_the_gang_were_asked():
    there = crowded()
    asking = asked(there)
    there.see(low(1, {REQUEST: asking.request.text()}))
    there.see(Heard(task_id("low-1"), done(asking, state=SaveState.REFUSED)))
    assert evicted(there) == set()
    there.see(low(0, {REQUEST: asking.request.text()}))
    assert evicted(there) == {"low-0", "low-1"}


def test_a_request_that_can_never_be_written_is_not_waited_for():
    there = crowded()
    asking = asked(there)
    there.see(low(1, {REQUEST: asking.request.text()}))
    there.see(Unasked(task_id("low-0"), asking.request.id, "forbidden"))
    assert evicted(there) == {"low-0", "low-1"}


def test_if_the_promise_cannot_be_written_nobody_has_to_go():
    there = crowded()
    asking = asked(there)
    there.see(*(EvictRefused(each.pod.task, "no promise") for each in asking.pods))
    assert there.task("low-0").state is TaskState.RUNNING
    there.lose(*urgent())
    assert there.step().work.askings == []
    assert there.cluster.partings.now() == ()


def test_a_launcher_that_cannot_be_asked_holds_nobody_up():
    there = Stage(OWN, LOAN, node("n1", 2), LOW, low(0), low(1, {MODE: "none"}), *urgent(), now=NOW)
    asking = asked(there)
    assert [each.pod.name for each in asking.pods] == ["low-0"]
    there.see(low(0, {REQUEST: asking.request.text(), ACK: done(asking).text()}))
    assert evicted(there) == {"low-0", "low-1"}


# --- answers


@pytest.mark.parametrize("code", [EXIT_SAVED, 1])
def test_the_last_word_of_a_container_counts_by_its_id_also_under_torchrun(code: int):
    there = crowded()
    asking = asked(there)
    carrying(there, asking)
    ended = {"terminated": {"exitCode": code, "message": done(asking).text()}}
    for i in range(2):  # the container was started again, the pod runs on
        status = {"containerStatuses": [{"name": "main", "lastState": ended}]}
        there.see(low(i, {REQUEST: asking.request.text()}, status=status))
    assert evicted(there) == {"low-0", "low-1"}


def test_a_pod_that_saved_and_left_by_itself_is_simply_gone():
    there = crowded()
    asking = asked(there)
    carrying(there, asking)
    ended = {"terminated": {"exitCode": EXIT_SAVED, "message": done(asking).text()}}
    status = {"containerStatuses": [{"name": "main", "state": ended}]}
    for i in range(2):
        there.see(low(i, {REQUEST: asking.request.text()}, status=status, phase="Failed"))
    step = there.step()
    assert (step.bound, step.work.clearings) == ({"w-0": "n1", "w-1": "n1"}, [])
    assert [each.outcome for each in step.work.ended] == [RequestOutcome.SAVED]
    there.see(pod("low-0b", 1, owner=LOW, queue="loan"), pod("low-1b", 1, owner=LOW, queue="loan"))
    assert there.gang_of("low-0b").saved_at == there.now  # also its successors know


@pytest.mark.parametrize(
    "wrong",
    [{"id": "forged"}, {"id": ""}, {"step": 6}],
    ids=["another id", "no id", "a step before the one that was safe"],
)
def test_stale_and_forged_answers_are_refused_and_told_once(wrong: dict[str, Any]):
    there = crowded()
    asking = asked(there)
    before = done(asking, id="earlier")
    noted = {"type": SAVED, "status": "True", "message": before.text()}
    status = {"conditions": [noted]}
    bad = done(asking, **wrong).text()
    notes = {REQUEST: asking.request.text(), ACK: bad}
    there.see(*(low(i, notes, status=status) for i in range(2)))
    first, second = there.step(1).work, there.step(1).work
    assert {each.task for each in first.disbelieved} == {task_id("low-0"), task_id("low-1")}
    assert (first.clearings, second.clearings, second.disbelieved) == ([], [], [])
    assert evicted(there, 60) == {"low-0", "low-1"}  # the deadline holds all the same


def test_an_answer_that_nobody_asked_for_is_nothing():
    there = crowded()
    there.see(Heard(task_id("low-0"), Ack("x", SaveState.DONE, 9, at=NOW)))
    assert there.gang_of("low-0").saved_at is None
    assert len(there.step().work.askings) == 1


def test_a_wrong_clock_is_believed_no_further_than_the_request_and_now():
    there = crowded()
    asking = asked(there)
    carrying(there, asking)
    there.step(5)
    there.see(Heard(task_id("low-0"), done(asking, at=1)))
    there.see(Heard(task_id("low-1"), done(asking, at=1 << 40)))
    assert there.gang_of("low-0").saved_at == NOW


# --- withdrawn


def test_a_request_for_which_there_is_no_need_any_more_is_taken_from_every_pod():
    there = crowded()
    asking = asked(there)
    carrying(there, asking)
    there.lose(*urgent())
    step = there.step()
    (withdrawal,) = step.work.withdrawals
    assert withdrawal.id == asking.request.id
    assert [each.pod.name for each in withdrawal.pods] == ["low-0", "low-1"]
    assert [each.outcome for each in step.work.ended] == [RequestOutcome.WITHDRAWN]
    assert ("low-0", "WorksOn") in step.events
    assert there.task("low-0").state is TaskState.RUNNING
    assert there.step(1).work.withdrawals == []


def test_a_request_that_was_written_after_its_withdrawal_is_taken_back_again():
    there = crowded()
    asking = asked(there)
    there.lose(*urgent())
    assert len(there.step().work.withdrawals) == 1
    carrying(there, asking)
    assert there.step(5).work.withdrawals == []  # the withdrawal may still be on its way
    assert len(there.step(5).work.withdrawals) == 1


# --- after a crash


def successor(asking: Asking, *pods: wire.Pod) -> Stage:
    """Another process finds these pods, and the promise."""
    first, *others = urgent()
    first = pod("w-0", 1, gang=("w", 2), queue="team", promise=asking.promise)
    there = Stage(OWN, LOAN, node("n1", 2), LOW, *pods, first, *others, now=NOW + 10)
    there.brain.resume()
    return there


def test_a_successor_asks_who_was_not_asked_with_the_same_id():
    asking = asked(crowded())
    after = successor(asking, low(0, {REQUEST: asking.request.text()}), low(1))
    again = asked(after)
    assert [each.pod.name for each in again.pods] == ["low-1"]
    assert (again.request.id, again.request.deadline) == (asking.request.id, NOW + 60)
    assert evicted(after, 49) == set()
    assert evicted(after, 1) == {"low-0", "low-1"}


def test_a_successor_believes_what_was_answered_before_it_came():
    asking = asked(crowded())
    note = {"type": SAVED, "status": "True", "message": done(asking).text()}
    after = successor(
        asking,
        low(0, {REQUEST: asking.request.text(), ACK: done(asking).text()}),
        low(1, {REQUEST: asking.request.text()}, status={"conditions": [note]}),
    )
    assert evicted(after) == {"low-0", "low-1"}


def test_a_successor_asks_endpoints_again_how_far_they_are():
    asking = asked(crowded(notes={MODE: "http"}))
    notes = {MODE: "http", REQUEST: asking.request.text()}
    after = successor(asking, low(0, notes), low(1, notes))
    assert [each.pod.name for each in asked(after).pods] == ["low-0", "low-1"]


def test_a_request_without_a_promise_is_withdrawn_by_a_successor():
    asking = asked(crowded())
    request = {REQUEST: asking.request.text()}
    after = Stage(OWN, LOAN, node("n1", 2), LOW, low(0, request), low(1, request), now=NOW)
    after.brain.resume()
    (withdrawal,) = after.step().work.withdrawals
    assert (withdrawal.id, len(withdrawal.pods)) == (asking.request.id, 2)


def test_a_forged_request_neither_evicts_nor_asks():
    forged = {REQUEST: json.dumps({"id": "x", "deadline": "2020-01-01T00:00:00Z"})}
    assert read_request(forged[REQUEST]) is not None
    there = Stage(OWN, LOAN, node("n1", 4), LOW, low(0, forged), low(1, forged), now=NOW)
    there.brain.resume()
    assert evicted(there) == set()
    assert there.cluster.partings.now() == ()


def test_when_its_work_was_saved_outlives_the_scheduler_while_the_pods_live():
    asking = asked(crowded())
    status = {"conditions": [{"type": SAVED, "status": "True", "message": done(asking).text()}]}
    after = Stage(LOAN, node("n1", 2), LOW, low(0, status=status), low(1, status=status), now=NOW)
    after.brain.resume()
    assert after.gang_of("low-0").saved_at == NOW


def test_nobody_is_asked_in_a_shadow():
    assert gang_id("w") == f"{NAMESPACE}/w"
    there = crowded()
    there.brain._shadow = True
    assert there.step().work.askings == []
