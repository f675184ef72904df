"""What to do: the engine's answer, carried out by an edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId


@dataclass(frozen=True, slots=True)
class Bind:
    """Start a task on a node, on these devices."""

    task: TaskId
    node: str
    devices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A place that a hold keeps for one task."""

    task: TaskId
    node: str
    devices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold:
    """Places kept for one gang until it is bound or gives up.

    With `starts_at` in the future it is a *reservation*: until then the places may serve work
    that ends in time (backfill), and nothing else.
    """

    gang: GangId
    claims: tuple[Claim, ...]
    starts_at: int = 0


Action: TypeAlias = Bind
