"""What is wrong with a node, by its conditions, taints and annotations: two tables.

The worst of what is found counts. A node without a word about being ready has not come up yet. What
is not in the tables is left to the taints themselves: Cluster Autoscaler's
`DeletionCandidateOfClusterAutoscaler` is a soft one, and so only makes a node less welcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from windlass.model.nodes import NodeStanding, NodeTrouble, Quarantine
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import QUARANTINE, TRUSTED

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which a person says that a machine is off for certain."""


class Sign(NamedTuple):
    """What a taint or a condition tells about its node."""

    stand: NodeStanding
    what: str
    notice_s: int | None = None
    """How long after it the node is gone, where its maker says so."""
    is_certain: bool = False
    """Nobody need wait whether it passes."""


TAINTS: Mapping[str, Sign] = {
    OUT_OF_SERVICE: Sign(NodeStanding.LOST, "out of service", is_certain=True),
    "node.cloudprovider.kubernetes.io/shutdown": Sign(
        NodeStanding.LOST, "shut down", is_certain=True
    ),
    "node.kubernetes.io/unreachable": Sign(NodeStanding.LOST, "unreachable"),
    "node.kubernetes.io/not-ready": Sign(NodeStanding.LOST, "not ready"),
    # removed by an autoscaler
    "karpenter.sh/disrupted": Sign(NodeStanding.LEAVES, "being removed by Karpenter"),
    "ToBeDeletedByClusterAutoscaler": Sign(
        NodeStanding.LEAVES, "being removed by Cluster Autoscaler"
    ),
    # AWS node termination handler
    "aws-node-termination-handler/spot-itn": Sign(NodeStanding.LEAVES, "taken back as spot", 120),
    "aws-node-termination-handler/asg-lifecycle-termination": Sign(
        NodeStanding.LEAVES, "being removed by its scaling group"
    ),
    "aws-node-termination-handler/scheduled-maintenance": Sign(
        NodeStanding.LEAVES, "due for maintenance"
    ),
    "aws-node-termination-handler/rebalance-recommendation": Sign(
        NodeStanding.AVOIDED, "likely to be taken back as spot"
    ),
    # GKE
    "cloud.google.com/impending-node-termination": Sign(
        NodeStanding.LEAVES, "about to be terminated", 30
    ),
}
CONDITIONS: Mapping[tuple[str, str], Sign] = {
    ("Ready", "False"): Sign(NodeStanding.LOST, "not ready"),
    ("Ready", "Unknown"): Sign(NodeStanding.LOST, "unreachable"),
    # AKS: scheduled events of the machine
    ("PreemptScheduled", "True"): Sign(NodeStanding.LEAVES, "taken back as spot", 30),
    ("TerminateScheduled", "True"): Sign(NodeStanding.LEAVES, "about to be terminated"),
    ("RedeployScheduled", "True"): Sign(NodeStanding.LEAVES, "due for maintenance"),
    ("RebootScheduled", "True"): Sign(NodeStanding.LEAVES, "due for maintenance"),
    ("VMEventScheduled", "True"): Sign(NodeStanding.AVOIDED, "due for maintenance"),
    # GPU health: the node monitoring agent of EKS, the node problem detector of AKS
    ("AcceleratedHardwareReady", "False"): Sign(
        NodeStanding.AVOIDED, "ill: its GPUs are unhealthy"
    ),
    ("XIDErrors", "True"): Sign(NodeStanding.AVOIDED, "ill: its GPUs report XID errors"),
    ("GPUMissing", "True"): Sign(NodeStanding.AVOIDED, "ill: a GPU is missing"),
    ("NVLinkStatusInactive", "True"): Sign(NodeStanding.AVOIDED, "ill: an NVLink is down"),
    ("IBLinkFlapping", "True"): Sign(
        NodeStanding.AVOIDED, "ill: its InfiniBand link comes and goes"
    ),
    ("UnhealthyNvidiaDevicePlugin", "True"): Sign(
        NodeStanding.AVOIDED, "ill: its GPU device plugin is down"
    ),
}
"""By type and status."""
UNHEARD = NodeTrouble(NodeStanding.AVOIDED, "not ready", since=1)
"""It has never said that it is."""
DELETED = Sign(NodeStanding.LEAVES, "being deleted")

_ours = msgspec.json.Decoder(Quarantine)
_BAD_TO_WORSE = (NodeStanding.AVOIDED, NodeStanding.LOST, NodeStanding.LEAVES)
"""What leaves is left at once, what is silent after a grace: the sooner counts."""


def trouble_of(node: wire.NodeObject) -> NodeTrouble | None:
    """The worst that a node's own object tells about it; None: it is fine."""
    return max(_troubles(node), key=_badness, default=None)


def worse(one: NodeTrouble | None, other: NodeTrouble | None) -> NodeTrouble | None:
    """The worse of two troubles, of which neither need be there."""
    there = [each for each in (one, other) if each is not None]
    return max(there, key=_badness, default=None)


def quarantine_of(node: wire.NodeObject) -> Quarantine | None:
    """The quarantine that a node's annotation tells of: ours, or whatever a person wrote there."""
    text = (node.metadata.annotations or {}).get(QUARANTINE)
    if text is None:
        return None
    try:
        return _ours.decode(text)
    except msgspec.DecodeError:
        return Quarantine(text or "a person keeps it out")


def text_of(quarantine: Quarantine) -> str:
    """A quarantine as it is written."""
    return msgspec.json.encode(quarantine).decode()


def trusted_since(node: wire.NodeObject) -> int | None:
    """Since when nothing counts against a node, if it says so."""
    return parse_timestamp_or_none((node.metadata.annotations or {}).get(TRUSTED))


def _badness(trouble: NodeTrouble) -> tuple[bool, int, int, str]:
    is_certain = trouble.stand is NodeStanding.LOST and not trouble.since
    return is_certain, _BAD_TO_WORSE.index(trouble.stand), -trouble.since, trouble.what


def _troubles(node: wire.NodeObject) -> Iterator[NodeTrouble]:
    conditions = node.status.conditions or ()
    if all(each.type != "Ready" for each in conditions):
        yield UNHEARD
    for each in conditions:
        if sign := CONDITIONS.get((each.type, each.status)):
            yield _trouble(sign, parse_timestamp_or_none(each.last_transition_time))
    for taint in node.spec.taints or ():
        if sign := TAINTS.get(taint.key):
            yield _trouble(sign, _added(taint), taint.key)
    if gone_at := parse_timestamp_or_none(node.metadata.deletion_timestamp):
        yield _trouble(DELETED, gone_at)


def _trouble(sign: Sign, since: int | None, taint: str = "") -> NodeTrouble:
    if sign.is_certain:
        return NodeTrouble(sign.stand, sign.what, taint=taint)
    if since is None:
        # whether a silent node has been so for long cannot be said: what runs there may live
        stand = NodeStanding.AVOIDED if sign.stand is NodeStanding.LOST else sign.stand
        return NodeTrouble(stand, sign.what, 1, taint=taint)
    until = None if sign.notice_s is None else since + sign.notice_s
    return NodeTrouble(sign.stand, sign.what, max(1, since), until, taint)


def _added(taint: wire.TaintSpec) -> int | None:
    """When it was put there; Cluster Autoscaler writes that as its value."""
    if re.fullmatch("[0-9]{10}", taint.value):
        return int(taint.value)
    return parse_timestamp_or_none(taint.time_added)
