"""The writes that a step asks for, and their results.

Binds, changes of owners, evictions, checkpoint requests, deletions and readings of exporters: these
values pass between `daemon.decide`, which is pure, and `kube.writers` and `kube.client`, which do
the I/O. The result of a bind that failed is the event `BindFailed` of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from windlass.checkpoint.protocol import Ack, CheckpointRequest
from windlass.controllers.node_checks import NodeCheck
from windlass.kube.refs import OwnerSwitch, PodLost, PodRead, PodRef
from windlass.model.actions import EvictionRule
from windlass.model.events import BindFailed
from windlass.model.jobs import GangId, TaskId
from windlass.model.nodes import NodeStanding, NodeTrouble
from windlass.workloads.kinds import SuspensionMark
from windlass.workloads.nodes import OUT_OF_SERVICE, Exporter, Reading


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod and the node that it is bound to."""

    pod: PodRef
    node: str
    claims: tuple[str, ...] = ()
    """Volume claims that get the node first, and must have volumes before the pod is bound."""


@dataclass(frozen=True, slots=True)
class GangBinds:
    """The binds of one gang. If `promise` is not empty, it is written on the first pod before the
    binds."""

    bindings: tuple[Binding, ...]
    promise: str = ""


BindResult: TypeAlias = BindFailed | PodRead | PodLost
"""A result that the binder reports; a bind that succeeds is shown by the watch."""


class OwnerChange(StrEnum):
    """The state that an owner is changed to."""

    SUSPENDED = "suspended"
    RESUMED = "resumed"
    SUSPENDED_AGAIN = "suspended again"
    UNMARKED = "unmarked"


@dataclass(frozen=True, slots=True)
class OwnerWrite:
    """A change of an owner, for a gang."""

    gang: GangId
    switch: OwnerSwitch
    to: OwnerChange
    mark: SuspensionMark | None = None
    """The mark to write; None removes it."""


@dataclass(frozen=True, slots=True)
class OwnerWriteFailed:
    """An owner could not be changed."""

    turn: OwnerWrite
    why: str


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to be evicted, with the rule, its queue, and the message for its condition."""

    pod: PodRef
    gang: str
    queue: str
    rule: EvictionRule
    message: str
    grace_s: int
    """Its termination grace, in seconds, from SIGTERM to SIGKILL."""
    turn: OwnerWrite | None = None
    """The suspension of its owner, if its gang is stopped in that way."""
    fails_owner: bool = False
    """Its owner would fail for good if its gang were evicted pod by pod."""


@dataclass(frozen=True, slots=True)
class GangEvictions:
    """The victims of one preemptor, and the promise to write on it first."""

    victims: tuple[Victim, ...]
    gainer: PodRef | None = None
    """The pod of the preemptor that carries the promise; None if there is no preemptor."""
    promise: str = ""
    """The text of the promise; empty if none is to be written."""


@dataclass(frozen=True, slots=True)
class EvictRefused:
    """The report that an eviction will not happen."""

    task: TaskId
    why: str
    fails_owner: bool = False
    """It was refused because the owner of the pod would have failed for good."""


@dataclass(frozen=True, slots=True)
class CheckpointTarget:
    """A pod that is to checkpoint, and the URL of its endpoint if it has one."""

    pod: PodRef
    url: str = ""


@dataclass(frozen=True, slots=True)
class GangCheckpoint:
    """A checkpoint request to the pods of one gang, and the promise to write before it."""

    request: CheckpointRequest
    pods: tuple[CheckpointTarget, ...]
    gainer: PodRef | None = None
    """The pod of the preemptor that carries the promise; None if there is no preemptor."""
    promise: str = ""
    """The text of the promise; empty if none is to be written."""


@dataclass(frozen=True, slots=True)
class CheckpointWithdrawal:
    """A request that is withdrawn, and the pods that carry it."""

    id: str
    pods: tuple[CheckpointTarget, ...]


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint that was accepted as saved, to be noted on its pod."""

    pod: PodRef
    ack: Ack


@dataclass(frozen=True, slots=True)
class RequestUnwritable:
    """The report of a request that can never be written on a pod."""

    task: TaskId
    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer of the endpoint of a pod."""

    task: TaskId
    ack: Ack


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A stuck pod: its grace is over, and the kubelet of its node has not ended it."""

    pod: PodRef
    node: str
    silent_before: int | None = None
    """A node that has been silent since this second or earlier counts as dead; None: silence alone
    never counts."""


def is_dead(trouble: NodeTrouble | None, silent_before: int | None) -> bool:
    """Return whether no process can still run on a node with this trouble."""
    if trouble is None or trouble.stand is not NodeStanding.LOST:
        return False
    if not trouble.since:
        # A shutdown is not enough: the machine may come up again and use its disks.
        return trouble.taint == OUT_OF_SERVICE
    return silent_before is not None and trouble.since <= silent_before


@dataclass(frozen=True, slots=True)
class GpuReadings:
    """The readings of some exporters."""

    readings: tuple[tuple[Exporter, Reading], ...]


@dataclass(frozen=True, slots=True)
class CheckRefused:
    """The check Job of a node could not be created, and why."""

    check: NodeCheck
    why: str
