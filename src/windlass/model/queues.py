"""Queues: the tree of teams, and what each may have.

Amounts are kept per *dimension*: `gpu` (thousandths, all models together), `gpu/MODEL`
(thousandths of that model), `cpu` (millicores) and `memory` (MiB). A dimension that is not named
is not limited, lent in full, and guaranteed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROOT = ""
"""The parent of top queues: the cluster itself."""

GPU = "gpu"
CPU = "cpu"
MEMORY = "memory"
MODEL_PREFIX = "gpu/"


def _nothing() -> dict[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Queue:
    """One team, department or project."""

    name: str
    parent: str = ROOT
    guarantee: Mapping[str, int] = field(default_factory=_nothing)
    limit: Mapping[str, int] = field(default_factory=_nothing)
    lend: Mapping[str, int] = field(default_factory=_nothing)
    """How much of the idle guarantee others may use."""
    weight: int = 1
    """Its part of the surplus among its siblings."""
    tier: int = 0
    """Higher tiers take surplus before lower ones see any."""
    min_run_s: int | None = None
    """Its gangs are not displaced before they have run so long; None: as the queue above says."""


def of_model(model: str) -> str:
    """The dimension that counts GPUs of one model."""
    return MODEL_PREFIX + model


def guaranteed(queue: Queue, dimension: str) -> int:
    """The guarantee in a dimension; guarantees per model add up to one for all GPUs."""
    named = queue.guarantee.get(dimension, 0)
    if dimension != GPU:
        return named
    return max(named, sum(v for k, v in queue.guarantee.items() if k.startswith(MODEL_PREFIX)))
