"""The trouble of a node, found in its object."""

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


def trouble_with(*conditions: Json, **fields: Any) -> NodeTrouble | None:
    return trouble_of(node("n1", conditions=list(conditions) or [READY], **fields))


def stand(*conditions: Json, **fields: Any) -> NodeStanding | None:
    trouble = trouble_with(*conditions, **fields)
    return trouble.stand if trouble else None


def test_a_ready_node_has_no_trouble():
    pressed = condition("MemoryPressure", "True")
    assert trouble_with(READY) is trouble_with(READY, pressed, taints=[taint("team")]) is None


def test_a_node_that_is_not_ready_is_lost_since_its_condition_changed():
    lost = NodeTrouble(NodeStanding.LOST, "not ready", parse_timestamp(LATE))
    assert trouble_with(condition("Ready", "False")) == lost
    assert trouble_with(condition("Ready", "Unknown")) == NodeTrouble(
        NodeStanding.LOST, "unreachable", parse_timestamp(LATE)
    )


def test_an_unreachable_node_without_a_time_is_only_avoided():
    assert stand(condition("Ready", "Unknown", since=None)) is NodeStanding.AVOIDED
    assert stand(READY, taints=[taint("node.kubernetes.io/not-ready")]) is NodeStanding.AVOIDED


def test_a_node_without_a_ready_condition_is_avoided():
    assert stand(condition("DiskPressure", "False")) is NodeStanding.AVOIDED


def test_the_taint_of_the_node_controller_gives_the_time():
    away = taint("node.kubernetes.io/unreachable", "NoExecute", timeAdded=LATE)
    trouble = trouble_with(READY, taints=[away])
    assert trouble is not None
    assert (trouble.stand, trouble.since, trouble.taint) == (
        NodeStanding.LOST,
        parse_timestamp(LATE),
        away["key"],
    )


def test_a_node_out_of_service_is_lost_for_certain():
    trouble = trouble_with(
        condition("Ready", "Unknown"), taints=[taint(OUT_OF_SERVICE, "NoExecute")]
    )
    assert trouble == NodeTrouble(NodeStanding.LOST, "out of service", 0, None, OUT_OF_SERVICE)


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
def test_taints_announce_the_removal_of_a_node(key: str, expected: NodeStanding | None):
    assert stand(READY, taints=[taint(key)]) is expected


def test_a_notice_with_a_known_delay_has_a_deadline():
    spot = taint("aws-node-termination-handler/spot-itn", timeAdded=LATE)
    trouble = trouble_with(READY, taints=[spot])
    assert trouble is not None
    assert trouble.until == parse_timestamp(LATE) + 120
    assert trouble_with(READY, taints=[taint(spot["key"])]) == NodeTrouble(
        NodeStanding.LEAVES, "taken back as spot", 1, None, spot["key"]
    )


def test_cluster_autoscaler_writes_the_time_as_the_value():
    trouble = trouble_with(
        READY, taints=[taint("ToBeDeletedByClusterAutoscaler", value="1767225600")]
    )
    assert trouble is not None
    assert trouble.since == 1767225600


def test_a_node_object_that_is_being_deleted_leaves():
    going = node("n1")
    meta = replace(going.metadata, deletion_timestamp=LATE)
    trouble = trouble_of(replace(going, metadata=meta))
    assert trouble is not None
    assert (trouble.stand, trouble.what) == (NodeStanding.LEAVES, "being deleted")


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


def test_of_several_troubles_the_most_urgent_counts():
    silent, ill = condition("Ready", "False"), condition("XIDErrors", "True")
    leaves, off = taint("karpenter.sh/disrupted"), taint(OUT_OF_SERVICE)
    assert stand(silent, ill) is NodeStanding.LOST
    assert stand(silent, ill, taints=[leaves]) is NodeStanding.LEAVES
    trouble = trouble_with(silent, ill, taints=[leaves, off])
    assert trouble is not None
    assert trouble.what == "out of service"
