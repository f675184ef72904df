"""The trouble of a node, found by two tables of known taints and conditions.

The worst trouble counts. A node without a condition Ready has not started yet. A taint that is not
in the table has only its usual effect: the taint DeletionCandidateOfClusterAutoscaler, for example,
is PreferNoSchedule, so that other nodes are preferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from windlass.model.nodes import NodeStanding, NodeTrouble, Quarantine
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.objects import QUARANTINE, TRUSTED, wire

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which an administrator declares that a machine is off."""


class Sign(NamedTuple):
    """The meaning of a taint or a condition for its node."""

    stand: NodeStanding
    what: str
    notice_s: int | None = None
    """The seconds from the notice until the node is gone; None if that is not known."""
    is_certain: bool = False
    """True if the node is lost for certain, so that no grace period is needed."""


TAINTS: Mapping[str, Sign] = {
    OUT_OF_SERVICE: Sign(NodeStanding.LOST, "out of service", is_certain=True),
    "node.cloudprovider.kubernetes.io/shutdown": Sign(
        NodeStanding.LOST, "shut down", is_certain=True
    ),
    "node.kubernetes.io/unreachable": Sign(NodeStanding.LOST, "unreachable"),
    "node.kubernetes.io/not-ready": Sign(NodeStanding.LOST, "not ready"),
    # Removal by an autoscaler
    "karpenter.sh/disrupted": Sign(NodeStanding.LEAVES, "being removed by Karpenter"),
    "ToBeDeletedByClusterAutoscaler": Sign(
        NodeStanding.LEAVES, "being removed by Cluster Autoscaler"
    ),
    # The AWS node termination handler
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
"""The known conditions, by type and status."""
UNHEARD = NodeTrouble(NodeStanding.AVOIDED, "not ready", since=1)
"""The trouble of a node that has never reported a condition Ready."""
DELETED = Sign(NodeStanding.LEAVES, "being deleted")

_quarantine_decoder = msgspec.json.Decoder(Quarantine)
_BAD_TO_WORSE = (NodeStanding.AVOIDED, NodeStanding.LOST, NodeStanding.LEAVES)
"""The order of severity. LEAVES is above LOST because gangs leave such a node at once, and a lost
node only after a grace period."""


def trouble_of(node: wire.NodeObject) -> NodeTrouble | None:
    """Return the worst trouble that a node object shows; None if there is none."""
    return max(_troubles(node), key=_badness, default=None)


def worse(one: NodeTrouble | None, other: NodeTrouble | None) -> NodeTrouble | None:
    """Return the worse of two troubles; either may be None."""
    troubles = [trouble for trouble in (one, other) if trouble is not None]
    return max(troubles, key=_badness, default=None)


def quarantine_of(node: wire.NodeObject) -> Quarantine | None:
    """Return the quarantine in a node's annotation; None without one.

    A text that is not our JSON was written by an administrator and is the reason itself.
    """
    text = (node.metadata.annotations or {}).get(QUARANTINE)
    if text is None:
        return None
    try:
        return _quarantine_decoder.decode(text)
    except msgspec.DecodeError:
        return Quarantine(text or "a person keeps it out")


def quarantine_text(quarantine: Quarantine) -> str:
    """Return the value of the annotation for a quarantine."""
    return msgspec.json.encode(quarantine).decode()


def trusted_since(node: wire.NodeObject) -> int | None:
    """Return the time before which failures on a node do not count; None if it is not set."""
    return parse_timestamp_or_none((node.metadata.annotations or {}).get(TRUSTED))


def _badness(trouble: NodeTrouble) -> tuple[bool, int, int, str]:
    """Return the sort key of a trouble: certain loss, severity, age, text (to break ties)."""
    is_certain = trouble.stand is NodeStanding.LOST and not trouble.since
    return is_certain, _BAD_TO_WORSE.index(trouble.stand), -trouble.since, trouble.what


def _troubles(node: wire.NodeObject) -> Iterator[NodeTrouble]:
    conditions = node.status.conditions or ()
    if all(condition.type != "Ready" for condition in conditions):
        yield UNHEARD
    for condition in conditions:
        if sign := CONDITIONS.get((condition.type, condition.status)):
            yield _trouble(sign, parse_timestamp_or_none(condition.last_transition_time))
    for taint in node.spec.taints or ():
        if sign := TAINTS.get(taint.key):
            yield _trouble(sign, _added_at(taint), taint.key)
    if gone_at := parse_timestamp_or_none(node.metadata.deletion_timestamp):
        yield _trouble(DELETED, gone_at)


def _trouble(sign: Sign, since: int | None, taint: str = "") -> NodeTrouble:
    if sign.is_certain:
        return NodeTrouble(sign.stand, sign.what, taint=taint)
    if since is None:
        # Without a time it is not known how long the node has been silent: its pods may still run,
        # so that they are not started elsewhere.
        stand = NodeStanding.AVOIDED if sign.stand is NodeStanding.LOST else sign.stand
        return NodeTrouble(stand, sign.what, 1, taint=taint)
    until = None if sign.notice_s is None else since + sign.notice_s
    return NodeTrouble(sign.stand, sign.what, max(1, since), until, taint)


def _added_at(taint: wire.TaintSpec) -> int | None:
    """Return the time at which a taint was added; Cluster Autoscaler writes it as the value."""
    if re.fullmatch("[0-9]{10}", taint.value):
        return int(taint.value)
    return parse_timestamp_or_none(taint.time_added)
