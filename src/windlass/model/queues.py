"""Queues: the tree of teams, and the amounts that each may use.

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
    """A queue: one team, department or project."""

    name: str
    parent: str = ROOT
    guarantee: Mapping[str, int] = field(default_factory=_nothing)
    limit: Mapping[str, int] = field(default_factory=_nothing)
    lend: Mapping[str, int] = field(default_factory=_nothing)
    """The amounts of its idle guarantee that other queues may use."""
    weight: int = 1
    """Its weight among its siblings when surplus is divided."""
    tier: int = 0
    """Higher tiers are served with surplus before lower ones."""
    min_run_s: int | None = None
    """The run time in seconds before which its gangs are not displaced; None: as in its parent."""


def of_model(model: str) -> str:
    """Return the dimension that counts GPUs of one model."""
    return MODEL_PREFIX + model


def guaranteed(queue: Queue, dimension: str) -> int:
    """Return the guarantee in a dimension; for GPUs, at least the sum of those per model."""
    named = queue.guarantee.get(dimension, 0)
    if dimension != GPU:
        return named
    return max(named, sum(v for k, v in queue.guarantee.items() if k.startswith(MODEL_PREFIX)))
