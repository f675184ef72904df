"""Conditions and Events: the reason is a contract with autoscalers; writes are rate-limited."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube_given import Stage, crew, node, pod, queue
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.kube.refs import PodRef
from windlass.kube.writers.conditions import (
    CONDITION_REASONS,
    HOLDS_FOR_S,
    LONGEST,
    RENEW_AFTER_S,
    ConditionReason,
    ConditionWrite,
    ConditionWriter,
    EventMessage,
    WaitingPod,
    body_of,
    message_of,
    patch_of,
)
from windlass.model.jobs import GangId, TaskId
from windlass.model.reasons import SENTENCES, Reason, ReasonCode
from windlass.workloads.objects.annotations import GANG

TEAM = queue("team", "ml", guarantee={"gpu": 8})
"""Bare pods cannot be preempted, so they need a guarantee."""
G = GangId("ml/g")
ROOM = Reason(ReasonCode.NO_ROOM, {"need": 2, "shape": "1 GPU", "room": 1})
FULL = Reason(ReasonCode.AT_LIMIT, {"queue": "q", "held": 1, "limit": 1, "unit": "GPUs", "need": 1})

LACKS_NODES = {
    ReasonCode.NEVER_NODE,
    ReasonCode.NEVER_ROOM,
    ReasonCode.NEVER_DOMAIN,
    ReasonCode.NO_ROOM,
    ReasonCode.NO_DOMAIN,
    ReasonCode.NO_ARRANGEMENT,
}
"""Reasons for which an autoscaler that adds nodes helps."""
NEVER_FIRST = {
    ReasonCode.REFUSED_BY,
    ReasonCode.RESERVED,
    ReasonCode.RESERVATION,
    ReasonCode.OVERDUE,
    ReasonCode.GAVE_WAY,
    ReasonCode.SUSPENDED_FOR,
    ReasonCode.LOST_BY_GUARANTEE,
    ReasonCode.LOST_BY_SHARE,
    ReasonCode.LOST_BY_PRIORITY,
    ReasonCode.LOST_BY_ORDER,
    ReasonCode.MOVES,
    ReasonCode.STALE,
    ReasonCode.NODE_LEAVES,
    ReasonCode.NODE_LOST,
    ReasonCode.OVERRAN,
}
"""Reasons that are never the first of a waiting gang: they accompany another one, or are about
gangs that run."""


def decision(*reasons: Reason, position: int = 0) -> Decision:
    return Decision(G, "q", Verdict.WAITS, reasons, position)


# --- the contract


@pytest.mark.parametrize("why", sorted(set(ReasonCode) - NEVER_FIRST))
def test_unschedulable_is_written_only_for_gangs_that_lack_nodes(why: ReasonCode):
    values: dict[str, Any] = dict.fromkeys(
        ("what", "wait", "kind", "owner", "queue", "unit", "shape", "level"), "x"
    )
    numbers = dict.fromkeys(
        ("seen", "needed", "need", "room", "held", "limit", "guarantee", "free", "kept"), 2
    )
    reason = message_of(decision(Reason(why, values | numbers))).reason
    assert (reason is ConditionReason.UNSCHEDULABLE) == (why in LACKS_NODES)


def test_every_reason_is_either_mapped_or_lacks_nodes():
    assert set(CONDITION_REASONS) | LACKS_NODES | NEVER_FIRST == set(ReasonCode) == set(SENTENCES)


def test_the_first_reason_decides_and_all_are_in_the_message():
    message = message_of(
        decision(ROOM, Reason(ReasonCode.REFUSED_BY, {"nodes": 3, "cause": "too small"}))
    )
    assert message.reason is ConditionReason.UNSCHEDULABLE
    assert message.text == (
        "It needs room for 2 tasks of 1 GPU at once; there is room for 1; 3 nodes: too small"
    )


def test_the_queue_position_is_in_the_message_unless_the_gang_is_refused():
    refused = Reason(ReasonCode.UNREADABLE, {"what": "x"})
    assert message_of(decision(ROOM, position=4)).text.endswith("(number 4 in line)")
    assert "in line" not in message_of(decision(refused, position=4)).text


def test_a_message_is_truncated_and_printable():
    message = message_of(decision(Reason(ReasonCode.UNREADABLE, {"what": "\u202e\n" + "x" * 5000})))
    assert len(message.text) == LONGEST
    assert message.text.isprintable()


def test_a_full_queue_is_not_reported_as_unschedulable():
    limited = queue("team", "ml", limit={"gpu": 1}, guarantee={"gpu": 1})
    stage = Stage(limited, node("n1", 8), *crew("w", 2))
    assert stage.settle().said == {"w-0": "QueueFull", "w-1": "QueueFull"}


def test_an_unreadable_pod_is_refused_with_advice():
    stage = Stage(TEAM, node("n1", 8), pod("a", labels={GANG: "g"}))
    step = stage.settle()
    assert step.said == {"a": "Refused"}
    assert "windlass.dev/minimum is not" in step.texts["a"]


def test_only_members_of_the_minimum_are_unschedulable():
    members = [pod(f"w-{i}", 1, gang=("w", 3)) for i in range(5)]
    stage = Stage(TEAM, node("n1", 2), *members)
    said = stage.settle().said
    assert [said[f"w-{i}"] for i in range(5)] == ["Unschedulable"] * 3 + ["WaitsToGrow"] * 2


# --- the time of writing


def plan_of(*reasons: Reason) -> Plan:
    return Plan(decisions=(decision(*reasons),))


def ref(name: str) -> PodRef:
    return PodRef(TaskId(name), "ml", name, f"uid-{name}")


def waiting(*names: str, says: tuple[str, str] = ("", "")) -> list[WaitingPod]:
    return [WaitingPod(ref(name), says) for name in names]


def test_a_message_is_written_once_it_has_been_stable_for_a_moment():
    writer = ConditionWriter()
    assert writer.update(plan_of(ROOM), [G], 100) == []
    assert writer.wake_at() == 100 + HOLDS_FOR_S
    assert writer.update(plan_of(ROOM), [G], 101) == [G]
    messages = writer.messages_of(G, waiting("a", "b"), 2, 101)
    assert [each.pod.name for each in messages.conditions] == ["a", "b"]
    assert messages.note is not None
    assert (messages.note.pod.name, messages.note.reason) == ("a", "Unschedulable")
    assert writer.wake_at() is None


def written_at(now: int) -> ConditionWriter:
    """Return a writer that has just written the conditions of the gang."""
    writer = ConditionWriter()
    writer.update(plan_of(ROOM), [G], now - HOLDS_FOR_S)
    assert writer.update(plan_of(ROOM), [G], now) == [G]
    writer.messages_of(G, waiting("a"), 1, now)
    return writer


def test_a_gang_that_starts_at_once_causes_no_write():
    writer = ConditionWriter()
    writer.update(plan_of(ROOM), [G], 100)
    assert writer.update(Plan(), [], 101) == []
    assert writer.started(G, [ref("a")], ["n1"]) is None


def test_a_change_of_reason_is_written_with_an_event():
    writer = written_at(100)
    assert writer.update(plan_of(FULL), [G], 105) == []
    assert writer.update(plan_of(FULL), [G], 106) == [G]
    messages = writer.messages_of(G, waiting("a"), 1, 106)
    assert [each.message.reason for each in messages.conditions] == [ConditionReason.QUEUE_FULL]
    assert messages.note is not None
    assert messages.note.reason == "QueueFull"


def test_numbers_alone_are_written_at_most_once_a_minute_and_without_an_event():
    writer, others = written_at(100), Reason(ReasonCode.NO_ROOM, {**ROOM.values, "room": 0})
    assert writer.update(plan_of(others), [G], 100 + RENEW_AFTER_S - 1) == []
    assert writer.update(plan_of(others), [G], 100 + RENEW_AFTER_S) == [G]
    messages = writer.messages_of(G, waiting("a"), 1, 100 + RENEW_AFTER_S)
    assert "there is room for 0" in messages.conditions[0].message.text
    assert messages.note is None


def test_an_unchanged_condition_is_not_written_again():
    writer = written_at(100)
    message = message_of(decision(ROOM))
    writer.update(plan_of(ROOM), [G], 100 + RENEW_AFTER_S)
    pods = waiting("a", says=(message.reason.value, message.text))
    assert writer.messages_of(G, pods, 1, 100 + RENEW_AFTER_S).conditions == ()


def test_a_pod_that_joins_later_gets_the_message_of_the_others_at_once():
    writer, others = ConditionWriter(), Reason(ReasonCode.NO_ROOM, {**ROOM.values, "room": 0})
    message = message_of(decision(ROOM))
    writer.update(plan_of(ROOM), [G], 99, {G: 1})
    assert writer.update(plan_of(ROOM), [G], 100, {G: 1}) == [G]
    writer.messages_of(G, waiting("a"), 1, 100)
    assert writer.update(plan_of(others), [G], 101, {G: 1}) == []
    assert writer.update(plan_of(others), [G], 102, {G: 2}) == [G]
    pods = waiting("a", says=(message.reason.value, message.text)) + waiting("b")
    messages = writer.messages_of(G, pods, 2, 102)
    assert [(each.pod.name, each.message) for each in messages.conditions] == [("b", message)]
    assert writer.update(plan_of(others), [G], 103, {G: 2}) == []


def test_a_gang_that_had_to_wait_gets_one_event_when_it_starts():
    stage = Stage(TEAM, node("n1", 1), pod("a", 2))
    assert stage.settle().events == [("a", "Unschedulable")]
    stage.see(node("n2", 2))
    assert stage.step(1).events == [("a", "Scheduled")]


def test_a_gang_of_many_gets_one_event_and_not_one_per_pod():
    stage = Stage(TEAM, node("n1", 2), node("n2", 2), *crew("w", 4))
    assert stage.step().events == [("w-0", "Scheduled")]
    lacking = Stage(TEAM, node("n1", 2), *crew("w", 4))
    step = lacking.settle()
    assert (len(step.said), step.events) == (4, [("w-0", "Unschedulable")])


def test_a_start_event_names_the_first_nodes_and_counts_the_others():
    note = ConditionWriter().started(
        G, [ref(f"w-{i}") for i in range(5)], ["n1", "n2", "n3", "n4", "n1"]
    )
    assert note is not None
    assert note.text == "5 pods start on n1, n2, n3 and 1 more"


def test_a_new_leader_does_not_repeat_conditions_and_events():
    stage = Stage(TEAM, node("n1", 1), pod("a", 2))
    text = stage.settle().texts["a"]
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    after = Stage(TEAM, node("n1", 1), pod("a", 2, status={"conditions": [said]}))
    step = after.settle()
    assert (step.said, step.events) == ({}, [])


# --- the requests to the API server


def test_a_condition_patch_names_the_uid_of_the_pod():
    message = message_of(decision(ROOM))
    assert patch_of(ConditionWrite(ref("a"), message), "2026-01-01T00:00:00Z") == {
        "metadata": {"uid": "uid-a"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": message.text,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    }


@pytest.mark.parametrize("name", ["a", "x" * 253, "x" * 199 + "-" + "y" * 50, "x" * 199 + ".y"])
def test_an_event_has_a_valid_name_and_refers_to_its_pod(name: str):
    body = body_of(EventMessage(ref(name), "Scheduled", "t" * 5000), "2026-01-01T00:00:00Z", "1f")
    event_name = str(body["metadata"]["name"])  # type: ignore[index]
    assert len(event_name) <= 253
    assert all(part and part[-1] != "-" for part in event_name.split("."))
    assert body["involvedObject"]["name"] == name  # type: ignore[index]
    assert len(str(body["message"])) == 1024
