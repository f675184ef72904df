"""Quarantine marks: from failed pods to annotations of nodes, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.kube_given import Json, Stage, job, node, pod, policy, queue
from windlass.daemon.decide.quarantine import CONDITION, NodeMark
from windlass.model.jobs import GangId
from windlass.model.nodes import Quarantine
from windlass.model.reasons import ReasonCode
from windlass.model.units import format_timestamp, parse_timestamp
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import QUARANTINE, TRUSTED
from windlass.workloads.pods.task import end_of

AT = "2026-01-01T01:00:00Z"
NOW = parse_timestamp(AT)
TEAM = queue("team", "ml", guarantee={"gpu": 8})


def ended(name: str, on: str = "n1", at: str = AT, code: int = 1, **fields: Any) -> wire.Pod:
    """Return a pod that ran on a node for a minute and ended by itself."""
    end = {"exitCode": code, "finishedAt": at}
    status: Json = {
        "startTime": format_timestamp(parse_timestamp(at) - 60),
        "containerStatuses": [{"name": "main", "state": {"terminated": end}}],
    }
    fields = {"phase": "Failed", "status": status | fields.pop("more", {})} | fields
    return pod(name, 1, node=on, **fields)


def marks(there: Stage, seconds: int = 0) -> list[NodeMark]:
    return there.step(seconds).work.node_marks


def bad(*things: Any, **spec: Any) -> Stage:
    """Return a stage on which three pods of different gangs have failed on n1."""
    names = [ended(name) for name in "xyz"]
    return Stage(TEAM, policy(**spec), node("n1", 2), *names, *things, now=NOW)


def marked(name: str, mark: NodeMark) -> wire.NodeObject:
    """Return the node as the API server shows it after the mark was written."""
    made = mark.body()["metadata"]["annotations"]
    kept = {key: text for key, text in made.items() if text is not None}
    there = node(name, 2)
    return replace(there, metadata=replace(there.metadata, annotations=kept))


# --- what counts


def test_a_failed_pod_counts_against_its_node():
    told = end_of(ended("a"), GangId("g"), NOW + 9)
    assert told is not None
    assert (told.node, told.since, told.at, told.succeeded) == ("n1", NOW - 60, NOW, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"deleted": AT},
        {"more": {"reason": "Evicted"}},
        {"more": {"reason": "OutOfnvidia.com/gpu"}},
        {"more": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}},
        {"code": 85},
        {"on": ""},
        {"phase": "Running"},
    ],
)
def test_pods_that_did_not_fail_by_themselves_do_not_count_against_the_node(fields: Json):
    assert end_of(ended("a", **fields), GangId("g"), NOW) is None


def test_a_failed_device_allocation_counts_against_the_node():
    refused = ended("a", more={"reason": "UnexpectedAdmissionError", "containerStatuses": []})
    told = end_of(refused, GangId("g"), NOW)
    assert told is not None
    assert (told.at, told.succeeded) == (NOW, False)


# --- nodes


def test_after_three_failed_gangs_the_node_is_quarantined():
    there = bad(pod("a", 1))
    step = there.step()
    (mark,) = step.work.node_marks
    assert step.bound == {}
    found = mark.quarantine
    assert found == Quarantine("3 gangs failed there within 1 h", NOW + 3600)
    assert mark.path == "/api/v1/nodes/n1/status"
    assert json.loads(mark.body()["metadata"]["annotations"][QUARANTINE])["until"] == NOW + 3600
    assert mark.body()["status"]["conditions"][0]["type"] == CONDITION
    said = there.step(2).texts["a"]
    assert "1 node: quarantined: 3 gangs failed there within 1 h" in said


def test_an_older_node_object_does_not_end_the_quarantine():
    there = bad(pod("a", 1))
    there.step()
    there.see(node("n1", 2))
    step = there.step(1)
    assert (step.bound, step.work.node_marks) == ({}, [])


def test_a_new_leader_reads_the_quarantine_from_the_node():
    (mark,) = marks(bad())
    heir = Stage(TEAM, marked("n1", mark), pod("a", 1), now=NOW + 60)
    step = heir.step()
    assert (step.bound, step.work.node_marks) == ({}, [])


def test_the_node_is_trusted_again_when_the_quarantine_expires():
    (mark,) = marks(bad())
    heir = Stage(TEAM, marked("n1", mark), pod("a", 1), now=NOW + 3599)
    assert heir.step().work.wake_at == NOW + 3600
    step = heir.step(1)
    (over,) = step.work.node_marks
    annotations = over.body()["metadata"]["annotations"]
    assert annotations == {QUARANTINE: None, TRUSTED: format_timestamp(NOW + 3600)}
    assert step.bound == {"a": "n1"}


def test_removing_the_annotation_ends_the_quarantine():
    there = bad(pod("a", 1))
    (mark,) = marks(there)
    there.see(marked("n1", mark))
    there.step(1)
    there.see(node("n1", 2))
    step = there.step(1)
    assert step.bound == {"a": "n1"}
    (over,) = step.work.node_marks
    assert over.quarantine is None
    there.see(marked("n1", over), ended("x"))
    assert marks(there, 1) == []


def test_a_quarantine_written_by_a_person_lasts_until_it_is_removed():
    there = node("n1", 2)
    told = replace(there.metadata, annotations={QUARANTINE: "the fan is loud"})
    stage = Stage(TEAM, replace(there, metadata=told), pod("a", 1), now=NOW)
    assert "1 node: quarantined: the fan is loud" in stage.settle().texts["a"]
    assert marks(stage, 10**6) == []


def test_a_new_leader_ignores_failures_before_the_node_was_trusted():
    there = node("n1", 2)
    trusted = replace(there, metadata=replace(there.metadata, annotations={TRUSTED: AT}))
    pods = [ended(name) for name in "xyz"]
    assert marks(Stage(TEAM, trusted, *pods, now=NOW + 5)) == []


def test_earlier_failures_count_once_for_a_new_leader():
    there = Stage(TEAM, node("n1", 2), *[ended(name) for name in "xy"], now=NOW)
    there.see(ended("x"), ended("y"))
    assert marks(there, 1) == []
    there.see(ended("z", at=format_timestamp(NOW + 1)))
    assert [each.node for each in marks(there, 1)] == ["n1"]


def test_no_node_is_marked_in_shadow_mode():
    there = bad()
    there.brain._shadow = True
    assert marks(there) == []


# --- gangs


def test_a_job_that_fails_everywhere_is_refused_while_its_owner_creates_pods():
    owner = job("train")
    nodes = [node(f"n{i}", 1) for i in range(4)]
    failed = [
        ended(f"p{i}", on=f"n{i % 3}", at=format_timestamp(NOW + 100 * i), owner=owner)
        for i in range(6)
    ]
    there = Stage(TEAM, owner, *nodes, *failed, now=NOW + 600)
    there.see(pod("p6", 1, owner=owner))
    step = there.settle()
    assert step.said == {"p6": "Refused"}
    assert "it failed 6 times on 3 different nodes" in step.texts["p6"].lower()
    decision = next(each for each in step.work.plan.decisions)
    assert decision.reasons[0].why is ReasonCode.FAILS_EVERYWHERE
    assert there.step(3600).bound == {"p6": "n0"}
