"""The models of `Gang` and `Topology`.

A Gang describes pods that start together where the spec of no owner does; the pods name it by the
label `windlass.dev/gang`. A Topology names node labels, and the domains of a Gang refer to them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from windlass.crds.base import (
    AS_SET,
    CrdModel,
    LabelKey,
    LabelValue,
    ObjectName,
    ObjectStatus,
    QueueName,
    keyed_by,
)
from windlass.crds.cel_rules import GANG
from windlass.crds.policy import Never, Seconds

MOST_TASKS = 1_000_000


class TopologySpec(CrdModel):
    """The levels of the topology: node labels whose equal values mean a fast link."""

    levels: list[LabelKey] = Field(min_length=1, max_length=16, json_schema_extra=AS_SET)
    """Label keys of the nodes, from the widest level to the narrowest: zone, block, rack, NVLink
    domain."""


class DomainSpec(CrdModel):
    """A constraint that places all tasks inside one domain of a topology level."""

    topology: ObjectName | None = None
    """The name of the Topology; it may be omitted if the cluster has only one."""
    level: LabelKey
    """A level of the topology: the node label key; nodes with the same value form a domain."""
    required: bool = True
    """True: the gang waits until one domain has room for it. False: the domain is preferred, and
    the gang is spread over several if none has room."""


class GroupSpec(CrdModel):
    """A part of a gang with its own minimum and, optionally, its own domain."""

    name: Annotated[LabelValue, Field(min_length=1)]
    """The name of the group; its pods carry it in the label windlass.dev/group."""
    minimum: Annotated[int, Field(ge=0, le=MOST_TASKS)] = 1
    """The number of tasks of the group that start together with the gang; further tasks start when
    there is room."""
    domain: DomainSpec | None = None
    """The domain that all tasks of the group must share."""


class GangSpec(CrdModel):
    """The tasks that start together, their placement, and the queue that pays for them."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": GANG})

    queue: QueueName | None = None
    """The queue of the gang; by default the queue of its namespace."""
    minimum: Annotated[int, Field(ge=1, le=MOST_TASKS)] | None = None
    """The number of tasks that start together; further tasks start when there is room. With groups:
    the least number over all groups, if it is more than the sum of their minimums."""
    groups: list[GroupSpec] = Field(default=[], max_length=64, json_schema_extra=keyed_by("name"))
    """The parts of the gang that need a minimum of their own."""
    domain: DomainSpec | None = None
    """The domain that all tasks of the gang must share."""
    priority_class_name: ObjectName | None = None
    """The PriorityClass whose value orders the gang inside its queue; by default the one of its
    pods."""
    preemptible: bool | None = None
    """False: the gang starts only within the guarantee of its queue, and is then never displaced.
    By default this follows from its pods."""
    expected_seconds: Seconds | None = None
    """The expected run time, which backfill and reservations rely on."""
    displaces_after_seconds: Never = 0
    """The time that the gang waits for free room before running gangs are displaced for it; -1:
    none is ever displaced for it."""
    stale_after_seconds: Never | None = None
    """The time that the gang may run below its minimum before it is stopped; -1: without limit. By
    default the Policy decides."""


class GangStatus(ObjectStatus):
    """The state of the gang."""

    state: Literal["Waiting", "Admitted", "Running", "Finished"] | None = None
    """Waiting: its queue does not admit it yet. Admitted: it lacks only room on nodes. Running:
    tasks are bound or run. Finished: its tasks have ended."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """A sentence that explains why the gang waits."""
    waiting: Annotated[int, Field(ge=0)] | None = None
    """The number of tasks that wait."""
    running: Annotated[int, Field(ge=0)] | None = None
    """The number of tasks that are bound or run."""
