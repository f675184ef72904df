"""What people and autoscalers read: reasons are a contract, and are written when they change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube_given import Stage, crew, node, pod, queue
from windlass.engine.plan import Decision, Plan, Verdict
from windlass.kube.writers.binder import PodRef
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
"""An autoscaler that buys nodes helps."""
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
"""Told beside another reason, or to gangs that run."""


def decision(*reasons: Reason, position: int = 0) -> Decision:
    return Decision(G, "q", Verdict.WAITS, reasons, position)


# --- the contract


@pytest.mark.parametrize("why", sorted(set(ReasonCode) - NEVER_FIRST))
def test_unschedulable_is_said_only_of_gangs_that_lack_nodes(why: ReasonCode):
    values: dict[str, Any] = dict.fromkeys(
        ("what", "wait", "kind", "owner", "queue", "unit", "shape", "level"), "x"
    )
    numbers = dict.fromkeys(
        ("seen", "needed", "need", "room", "held", "limit", "guarantee", "free", "kept"), 2
    )
    said = message_of(decision(Reason(why, values | numbers))).reason
    assert (said is ConditionReason.UNSCHEDULABLE) == (why in LACKS_NODES)


def test_every_reason_is_either_mapped_or_lacks_nodes():
    assert set(CONDITION_REASONS) | LACKS_NODES | NEVER_FIRST == set(ReasonCode) == set(SENTENCES)


def test_the_first_reason_decides_and_all_are_told():
    found = message_of(
        decision(ROOM, Reason(ReasonCode.REFUSED_BY, {"nodes": 3, "cause": "too small"}))
    )
    assert found.reason is ConditionReason.UNSCHEDULABLE
    assert found.text == (
        "It needs room for 2 tasks of 1 GPU at once; there is room for 1; 3 nodes: too small"
    )


def test_the_place_in_line_is_told_to_those_who_stand_in_it():
    refused = Reason(ReasonCode.UNREADABLE, {"what": "x"})
    assert message_of(decision(ROOM, position=4)).text.endswith("(number 4 in line)")
    assert "in line" not in message_of(decision(refused, position=4)).text


def test_a_message_is_cut_before_it_is_endless_and_can_always_be_printed():
    found = message_of(decision(Reason(ReasonCode.UNREADABLE, {"what": "\u202e\n" + "x" * 5000})))
    assert len(found.text) == LONGEST
    assert found.text.isprintable()


def test_a_full_queue_buys_no_nodes():
    limited = queue("team", "ml", limit={"gpu": 1}, guarantee={"gpu": 1})
    there = Stage(limited, node("n1", 8), *crew("w", 2))
    assert there.settle().said == {"w-0": "QueueFull", "w-1": "QueueFull"}


def test_a_pod_that_cannot_be_read_is_refused_with_the_words_to_mend_it():
    there = Stage(TEAM, node("n1", 8), pod("a", labels={GANG: "g"}))
    found = there.settle()
    assert found.said == {"a": "Refused"}
    assert "windlass.dev/minimum is not" in found.texts["a"]


def test_only_members_that_are_needed_call_for_nodes():
    members = [pod(f"w-{i}", 1, gang=("w", 3)) for i in range(5)]
    there = Stage(TEAM, node("n1", 2), *members)
    said = there.settle().said
    assert [said[f"w-{i}"] for i in range(5)] == ["Unschedulable"] * 3 + ["WaitsToGrow"] * 2


# --- when it is written


def plan_of(*reasons: Reason) -> Plan:
    return Plan(decisions=(decision(*reasons),))


def ref(name: str) -> PodRef:
    return PodRef(TaskId(name), "ml", name, f"uid-{name}")


def waiting(*names: str, says: tuple[str, str] = ("", "")) -> list[WaitingPod]:
    return [WaitingPod(ref(name), says) for name in names]


def test_a_message_is_written_once_it_has_held_for_a_moment():
    scribe = ConditionWriter()
    assert scribe.read(plan_of(ROOM), [G], 100) == []
    assert scribe.wake_at() == 100 + HOLDS_FOR_S
    assert scribe.read(plan_of(ROOM), [G], 101) == [G]
    page = scribe.page(G, waiting("a", "b"), 2, 101)
    assert [each.pod.name for each in page.conditions] == ["a", "b"]
    assert page.note is not None
    assert (page.note.pod.name, page.note.reason) == ("a", "Unschedulable")
    assert scribe.wake_at() is None


def written_at(now: int) -> ConditionWriter:
    """A scribe that has just written about the gang."""
    scribe = ConditionWriter()
    scribe.read(plan_of(ROOM), [G], now - HOLDS_FOR_S)
    assert scribe.read(plan_of(ROOM), [G], now) == [G]
    scribe.page(G, waiting("a"), 1, now)
    return scribe


def test_a_gang_that_starts_at_once_is_told_nothing():
    scribe = ConditionWriter()
    scribe.read(plan_of(ROOM), [G], 100)
    assert scribe.read(Plan(), [], 101) == []
    assert scribe.started(G, [ref("a")], ["n1"]) is None


def test_a_change_of_reason_is_written_anew_with_an_event():
    scribe = written_at(100)
    assert scribe.read(plan_of(FULL), [G], 105) == []
    assert scribe.read(plan_of(FULL), [G], 106) == [G]
    page = scribe.page(G, waiting("a"), 1, 106)
    assert [each.message.reason for each in page.conditions] == [ConditionReason.QUEUE_FULL]
    assert page.note is not None
    assert page.note.reason == "QueueFull"


def test_numbers_alone_are_written_at_most_once_a_minute_and_without_an_event():
    scribe, others = written_at(100), Reason(ReasonCode.NO_ROOM, {**ROOM.values, "room": 0})
    assert scribe.read(plan_of(others), [G], 100 + RENEW_AFTER_S - 1) == []
    assert scribe.read(plan_of(others), [G], 100 + RENEW_AFTER_S) == [G]
    page = scribe.page(G, waiting("a"), 1, 100 + RENEW_AFTER_S)
    assert "there is room for 0" in page.conditions[0].message.text
    assert page.note is None


def test_what_a_pod_says_already_is_not_written_again():
    scribe = written_at(100)
    said = message_of(decision(ROOM))
    scribe.read(plan_of(ROOM), [G], 100 + RENEW_AFTER_S)
    pods = waiting("a", says=(said.reason.value, said.text))
    assert scribe.page(G, pods, 1, 100 + RENEW_AFTER_S).conditions == ()


def test_a_pod_that_joins_later_is_told_at_once_what_the_others_were_told():
    scribe, others = ConditionWriter(), Reason(ReasonCode.NO_ROOM, {**ROOM.values, "room": 0})
    said = message_of(decision(ROOM))
    scribe.read(plan_of(ROOM), [G], 99, {G: 1})
    assert scribe.read(plan_of(ROOM), [G], 100, {G: 1}) == [G]
    scribe.page(G, waiting("a"), 1, 100)
    assert scribe.read(plan_of(others), [G], 101, {G: 1}) == []
    assert scribe.read(plan_of(others), [G], 102, {G: 2}) == [G]
    there = waiting("a", says=(said.reason.value, said.text)) + waiting("b")
    page = scribe.page(G, there, 2, 102)
    assert [(each.pod.name, each.message) for each in page.conditions] == [("b", said)]
    assert scribe.read(plan_of(others), [G], 103, {G: 2}) == []


def test_a_gang_that_had_to_wait_gets_one_event_when_it_starts():
    there = Stage(TEAM, node("n1", 1), pod("a", 2))
    assert there.settle().events == [("a", "Unschedulable")]
    there.see(node("n2", 2))
    assert there.step(1).events == [("a", "Scheduled")]


def test_a_gang_of_many_gets_one_event_and_not_one_per_pod():
    there = Stage(TEAM, node("n1", 2), node("n2", 2), *crew("w", 4))
    assert there.step().events == [("w-0", "Scheduled")]
    lacking = Stage(TEAM, node("n1", 2), *crew("w", 4))
    found = lacking.settle()
    assert (len(found.said), found.events) == (4, [("w-0", "Unschedulable")])


def test_an_event_says_on_how_many_nodes_and_names_the_first():
    note = ConditionWriter().started(
        G, [ref(f"w-{i}") for i in range(5)], ["n1", "n2", "n3", "n4", "n1"]
    )
    assert note is not None
    assert note.text == "5 pods start on n1, n2, n3 and 1 more"


def test_a_successor_does_not_repeat_what_its_predecessor_said():
    there = Stage(TEAM, node("n1", 1), pod("a", 2))
    text = there.settle().texts["a"]
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    after = Stage(TEAM, node("n1", 1), pod("a", 2, status={"conditions": [said]}))
    found = after.settle()
    assert (found.said, found.events) == ({}, [])


# --- as the API server takes it


def test_a_condition_is_patched_for_one_pod_and_no_namesake():
    said = message_of(decision(ROOM))
    assert patch_of(ConditionWrite(ref("a"), said), "2026-01-01T00:00:00Z") == {
        "metadata": {"uid": "uid-a"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": said.text,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    }


@pytest.mark.parametrize("name", ["a", "x" * 253, "x" * 199 + "-" + "y" * 50, "x" * 199 + ".y"])
def test_an_event_has_a_name_that_is_allowed_and_names_its_pod(name: str):
    body = body_of(EventMessage(ref(name), "Scheduled", "t" * 5000), "2026-01-01T00:00:00Z", "1f")
    found = str(body["metadata"]["name"])  # type: ignore[index]
    assert len(found) <= 253
    assert all(part and part[-1] != "-" for part in found.split("."))
    assert body["involvedObject"]["name"] == name  # type: ignore[index]
    assert len(str(body["message"])) == 1024
