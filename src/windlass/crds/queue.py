"""`Queue`: one team, department or project of the tree, who may use it, and what it has."""

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
from windlass.model.validation.queues import MOST_WEIGHT

MOST_NAMESPACES = 1000
MOST_ENTRIES = 5000
"""Of a ledger; an object may have about a mebibyte, and an entry takes about 100 bytes."""

Namespace: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]


class NamespaceRequirement(CrdModel):
    """A condition on one label of a namespace."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[LabelValue] = Field(default=[], max_length=100)


class Selector(CrdModel):
    """Namespaces by their labels; all must hold, and an empty selector means every namespace."""

    match_labels: dict[str, LabelValue] = Field(default={}, max_length=32)
    """Labels that a namespace must have."""
    match_expressions: list[NamespaceRequirement] = Field(default=[], max_length=32)
    """Further conditions on its labels."""


class QueueSpec(CrdModel):
    """What a queue may have, and who may use it."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": QUEUE_AMOUNTS})

    parent: QueueName | None = None
    """The queue above it; none: a top queue. Jobs go to queues with none below them."""
    namespaces: list[Namespace] = Field(
        default=[], max_length=MOST_NAMESPACES, json_schema_extra=AS_SET
    )
    """The namespaces that may use it, by name."""
    namespace_selector: Selector | None = None
    """The namespaces that may use it besides, by label; {} means every namespace."""
    guarantee: DimensionAmounts = DimensionAmounts()
    """What it can always have; the guarantees of all children fit into the parent's."""
    limit: DimensionAmounts = DimensionAmounts()
    """What it never exceeds, with all queues below it."""
    lend: DimensionAmounts = DimensionAmounts()
    """How much of its idle guarantee others may use; all, if not given."""
    weight: Annotated[int, Field(ge=0, le=MOST_WEIGHT)] = 1
    """Its part of the surplus among its siblings; 0: none, it stays within its guarantee."""
    tier: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Higher tiers take surplus before lower ones see any."""
    min_run_seconds: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Its gangs are not displaced before they have run so long; as the queue above says, if not
    given."""


class WaitingWork(CrdModel):
    """What waits in a queue and those below it."""

    gangs: Annotated[int, Field(ge=0)] = 0
    tasks: Annotated[int, Field(ge=0)] = 0
    gpu: Thousandths = 0
    """The GPUs that they ask for, all together."""


class UsageEntry(CrdModel):
    """The GPU time that one user had on one model, decayed."""

    user: Annotated[str, Field(max_length=256)] = ""
    """Whose it is; empty: not known, or those with least together."""
    model: Annotated[str, Field(max_length=63)] = ""
    milli_seconds: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """Thousandths of a GPU, times seconds."""


class LedgerWords(CrdModel):
    """Usage as of a moment, written down so that it survives a restart."""

    at: Instant
    """The moment as of which the entries count; usage decays from there."""
    entries: list[UsageEntry] = Field(default=[], max_length=MOST_ENTRIES)


class QueueUsage(CrdModel):
    """What a queue and those below it had lately."""

    gpu_hours: Thousandths = 0
    """GPU time, counting less the longer ago it was."""


class QueueStatus(ObjectStatus):
    """What a queue and those below it have, should have, and wait for."""

    share: DimensionAmounts | None = None
    """What it should have now."""
    guarantee: DimensionAmounts | None = None
    """What it can always have; guarantees per model add up to one for all GPUs."""
    allocated: DimensionAmounts | None = None
    """What it has."""
    borrowed: DimensionAmounts | None = None
    """What it has above its guarantee."""
    lent: DimensionAmounts | None = None
    """What others have of its guarantee."""
    waiting: WaitingWork | None = None
    """What waits in it."""
    usage: QueueUsage | None = None
    """What it had lately."""
    ledger: LedgerWords | None = None
    """The usage of its own gangs, per user and GPU model."""
