"""The model of `Queue`: a team, department or project in the tree of queues."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from windlass.crds.amounts import DimensionAmounts, Thousandths
from windlass.crds.base import (
    AS_SET,
    CrdModel,
    Instant,
    LabelKey,
    LabelValue,
    ObjectStatus,
    QueueName,
)
from windlass.crds.cel_rules import QUEUE_AMOUNTS
from windlass.model.validation import MOST_WEIGHT

MOST_NAMESPACES = 1000
MOST_ENTRIES = 5000
"""The most entries of a ledger: an object may have about 1 MiB, an entry takes about 100 bytes."""

Namespace: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]


class NamespaceRequirement(CrdModel):
    """A condition on one label of a namespace."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[LabelValue] = Field(default=[], max_length=100)


class Selector(CrdModel):
    """A selector of namespaces by their labels. All conditions must hold; an empty selector matches
    every namespace."""

    match_labels: dict[str, LabelValue] = Field(default={}, max_length=32)
    """The labels that a namespace must have."""
    match_expressions: list[NamespaceRequirement] = Field(default=[], max_length=32)
    """Further conditions on the labels of a namespace."""


class QueueSpec(CrdModel):
    """The resources of a queue, and the namespaces that may use it."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": QUEUE_AMOUNTS})

    parent: QueueName | None = None
    """The parent queue; a queue without one is at the top. Only queues without children take
    jobs."""
    namespaces: list[Namespace] = Field(
        default=[], max_length=MOST_NAMESPACES, json_schema_extra=AS_SET
    )
    """The names of namespaces that may use the queue."""
    namespace_selector: Selector | None = None
    """A selector of further namespaces that may use the queue; {} means every namespace."""
    guarantee: DimensionAmounts = DimensionAmounts()
    """The resources that the queue can always have. The guarantees of all children together must
    not exceed the one of their parent."""
    limit: DimensionAmounts = DimensionAmounts()
    """The most that the queue and all queues below it may have together."""
    lend: DimensionAmounts = DimensionAmounts()
    """The part of its idle guarantee that other queues may use; by default all of it."""
    weight: Annotated[int, Field(ge=0, le=MOST_WEIGHT)] = 1
    """The weight with which the surplus is divided among siblings; 0: the queue gets no surplus and
    stays within its guarantee."""
    tier: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """The tier among siblings; a lower tier gets surplus only when the higher ones want no more."""
    min_run_seconds: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """The time for which gangs of the queue run before they may be displaced; by default as in the
    parent queue."""


class WaitingWork(CrdModel):
    """The waiting work of a queue and of all queues below it."""

    gangs: Annotated[int, Field(ge=0)] = 0
    tasks: Annotated[int, Field(ge=0)] = 0
    gpu: Thousandths = 0
    """The sum of the requested GPUs."""


class UsageEntry(CrdModel):
    """The GPU time of one user on one GPU model, decayed."""

    user: Annotated[str, Field(max_length=256)] = ""
    """The user; empty if it is not known, or for the sum of the users with the least usage."""
    model: Annotated[str, Field(max_length=63)] = ""
    milli_seconds: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """The usage in thousandths of a GPU, times seconds."""


class LedgerWords(CrdModel):
    """The usage as of a point in time, stored so that it survives a restart."""

    at: Instant
    """The time of the entries; usage decays from there on."""
    entries: list[UsageEntry] = Field(default=[], max_length=MOST_ENTRIES)


class QueueUsage(CrdModel):
    """The recent usage of a queue and of all queues below it."""

    gpu_hours: Thousandths = 0
    """The GPU time in hours; older usage counts less."""


class QueueStatus(ObjectStatus):
    """The state of a queue, summed with all queues below it."""

    share: DimensionAmounts | None = None
    """The fair share: the resources that the queue is entitled to now."""
    guarantee: DimensionAmounts | None = None
    """The guarantee in force; guarantees per GPU model are added to the one for all GPUs."""
    allocated: DimensionAmounts | None = None
    """The resources that its gangs hold."""
    borrowed: DimensionAmounts | None = None
    """The resources that its gangs hold above its guarantee."""
    lent: DimensionAmounts | None = None
    """The part of its guarantee that other queues hold."""
    waiting: WaitingWork | None = None
    """The waiting work."""
    usage: QueueUsage | None = None
    """The recent usage."""
    ledger: LedgerWords | None = None
    """The usage of its own gangs, per user and GPU model; the scheduler reads it after a
    restart."""
