"""`Gang`: pods that start together, where no owner says so. Pods name it by a label."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from windlass.crds.base import (
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


class DomainSpec(CrdModel):
    """A wish for closeness: all tasks inside one domain of a level."""

    topology: ObjectName | None = None
    """The Topology; need not be named if there is only one."""
    level: LabelKey
    """A level of the topology: the label key whose values are the domains."""
    required: bool = True
    """False: as close as possible, but rather apart than waiting."""


class GroupSpec(CrdModel):
    """A part of a gang that has its own minimum, and perhaps its own domain."""

    name: Annotated[LabelValue, Field(min_length=1)]
    """Pods name it by a label."""
    minimum: Annotated[int, Field(ge=0, le=MOST_TASKS)] = 1
    """So many of its tasks start with the gang, the others when there is room."""
    domain: DomainSpec | None = None
    """Its tasks close together."""


class GangSpec(CrdModel):
    """How many tasks start together, how close, and for whom."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": GANG})

    queue: QueueName | None = None
    """The queue it stands in; the queue of its namespace, if not given."""
    minimum: Annotated[int, Field(ge=1, le=MOST_TASKS)] | None = None
    """So many tasks start together, the others when there is room; with groups: at least so many
    in all."""
    groups: list[GroupSpec] = Field(default=[], max_length=64, json_schema_extra=keyed_by("name"))
    """Parts that need a minimum of their own."""
    domain: DomainSpec | None = None
    """All its tasks close together."""
    priority_class_name: ObjectName | None = None
    """The PriorityClass whose value counts inside the queue; that of its pods, if not given."""
    preemptible: bool | None = None
    """False: it must stay within its queue's guarantee, and is then never displaced; as its pods
    say, if not given."""
    expected_seconds: Seconds | None = None
    """How long it is expected to run; backfill and reservations rest on it."""
    displaces_after_seconds: Never = 0
    """How long it waits for free room before others are displaced for it; -1: for ever."""
    stale_after_seconds: Never | None = None
    """How long it may run below its minimum; as the policy says, if not given; -1: for ever."""


class GangStatus(ObjectStatus):
    """Where the gang is in its life."""

    state: Literal["Waiting", "Admitted", "Running", "Finished"] | None = None
    """Waiting: its queue does not let it run yet; Admitted: it lacks nothing but nodes."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """Why it waits, in a sentence."""
    waiting: Annotated[int, Field(ge=0)] | None = None
    """So many of its tasks wait."""
    running: Annotated[int, Field(ge=0)] | None = None
    """So many of its tasks are bound or run."""
