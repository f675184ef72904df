"""What is wrong with a node, read from its object alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.kube_given import READY, Json, node
from windlass.model.nodes import NodeStanding, NodeTrouble
from windlass.model.units import parse_timestamp
from windlass.workloads.nodes.health import OUT_OF_SERVICE, trouble_of

LATE = "2026-01-01T01:00:00Z"


def condition(kind: str, status: str, since: str | None = LATE) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": since}


def taint(key: str, effect: str = "NoSchedule", **fields: str) -> Json:
    return {"key": key, "effect": effect} | fields


def found(*conditions: Json, **fields: Any) -> NodeTrouble | None:
    return trouble_of(node("n1", conditions=list(conditions) or [READY], **fields))


def stand(*conditions: Json, **fields: Any) -> NodeStanding | None:
    trouble = found(*conditions, **fields)
    return trouble.stand if trouble else None


def test_a_node_that_is_ready_is_fine():
    pressed = condition("MemoryPressure", "True")
    assert found(READY) is found(READY, pressed, taints=[taint("team")]) is None


def test_a_node_that_is_not_ready_is_lost_since_it_said_so():
    lost = NodeTrouble(NodeStanding.LOST, "not ready", parse_timestamp(LATE))
    assert found(condition("Ready", "False")) == lost
    assert found(condition("Ready", "Unknown")) == NodeTrouble(
        NodeStanding.LOST, "unreachable", parse_timestamp(LATE)
    )


def test_a_silent_node_of_which_nobody_knows_since_when_is_only_avoided():
    assert stand(condition("Ready", "Unknown", since=None)) is NodeStanding.AVOIDED
    assert stand(READY, taints=[taint("node.kubernetes.io/not-ready")]) is NodeStanding.AVOIDED


def test_a_node_that_has_not_said_anything_yet_is_avoided():
    assert stand(condition("DiskPressure", "False")) is NodeStanding.AVOIDED


def test_the_taint_of_the_node_controller_tells_since_when():
    away = taint("node.kubernetes.io/unreachable", "NoExecute", timeAdded=LATE)
    told = found(READY, taints=[away])
    assert told is not None
    assert (told.stand, told.since, told.taint) == (
        NodeStanding.LOST,
        parse_timestamp(LATE),
        away["key"],
    )


def test_a_node_out_of_service_is_lost_for_certain():
    told = found(condition("Ready", "Unknown"), taints=[taint(OUT_OF_SERVICE, "NoExecute")])
    assert told == NodeTrouble(NodeStanding.LOST, "out of service", 0, None, OUT_OF_SERVICE)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("karpenter.sh/disrupted", NodeStanding.LEAVES),
        ("ToBeDeletedByClusterAutoscaler", NodeStanding.LEAVES),
        ("DeletionCandidateOfClusterAutoscaler", None),
        ("aws-node-termination-handler/spot-itn", NodeStanding.LEAVES),
        ("aws-node-termination-handler/scheduled-maintenance", NodeStanding.LEAVES),
        ("aws-node-termination-handler/asg-lifecycle-termination", NodeStanding.LEAVES),
        ("aws-node-termination-handler/rebalance-recommendation", NodeStanding.AVOIDED),
        ("cloud.google.com/impending-node-termination", NodeStanding.LEAVES),
        ("kubernetes.azure.com/scalesetpriority", None),
        ("nvidia.com/gpu", None),
    ],
)
def test_notices_come_as_taints(key: str, expected: NodeStanding | None):
    assert stand(READY, taints=[taint(key)]) is expected


def test_a_notice_whose_time_is_known_has_a_deadline():
    spot = taint("aws-node-termination-handler/spot-itn", timeAdded=LATE)
    told = found(READY, taints=[spot])
    assert told is not None
    assert told.until == parse_timestamp(LATE) + 120
    assert found(READY, taints=[taint(spot["key"])]) == NodeTrouble(
        NodeStanding.LEAVES, "taken back as spot", 1, None, spot["key"]
    )


def test_cluster_autoscaler_writes_the_time_as_the_value():
    told = found(READY, taints=[taint("ToBeDeletedByClusterAutoscaler", value="1767225600")])
    assert told is not None
    assert told.since == 1767225600


def test_a_node_object_that_is_being_deleted_leaves():
    going = node("n1")
    meta = replace(going.metadata, deletion_timestamp=LATE)
    told = trouble_of(replace(going, metadata=meta))
    assert told is not None
    assert (told.stand, told.what) == (NodeStanding.LEAVES, "being deleted")


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        ("AcceleratedHardwareReady", "False", "True"),
        ("XIDErrors", "True", "False"),
        ("GPUMissing", "True", "False"),
        ("NVLinkStatusInactive", "True", "False"),
        ("UnhealthyNvidiaDevicePlugin", "True", "False"),
    ],
)
def test_a_node_with_unhealthy_gpus_is_avoided(kind: str, bad: str, good: str):
    assert stand(READY, condition(kind, bad)) is NodeStanding.AVOIDED
    assert stand(READY, condition(kind, good)) is None


def test_of_several_troubles_the_one_that_acts_soonest_counts():
    silent, ill = condition("Ready", "False"), condition("XIDErrors", "True")
    leaves, off = taint("karpenter.sh/disrupted"), taint(OUT_OF_SERVICE)
    assert stand(silent, ill) is NodeStanding.LOST
    assert stand(silent, ill, taints=[leaves]) is NodeStanding.LEAVES
    told = found(silent, ill, taints=[leaves, off])
    assert told is not None
    assert told.what == "out of service"
