"""What to do: the engine's answer, carried out by an edge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId
from windlass.model.resources import Request


class Rule(StrEnum):
    """By what right a task is taken from its node."""

    GUARANTEE = "guarantee"
    """Reclaim: another queue is within its guarantee, this one above its own."""
    SHARE = "share"
    """Reclaim: another queue is within its share and has less of it than this one."""
    PRIORITY = "priority"
    """Preempt: a gang of the same queue has a higher priority."""
    CONSOLIDATE = "consolidate"
    """It moves: a place elsewhere is kept for it."""
    STALE = "stale"
    """Its gang has been below its minimum for too long."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Start a task on a node, on these devices."""

    task: TaskId
    node: str
    devices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Take a task from its node; what is freed is held for the gang that gains."""

    task: TaskId
    rule: Rule
    gainer: GangId = GangId("")
    """The gang it makes room for; none for a stale gang."""
    moves_to: str = ""
    """The node on which a place is kept for its successor, if it moves."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A place that a hold keeps for one task, or for the one that follows it."""

    task: TaskId
    node: str
    devices: tuple[Slice, ...] = ()
    request: Request = Request()


@dataclass(frozen=True, slots=True)
class Hold:
    """Places kept for one gang until it is bound or gives up.

    With `starts_at` in the future it is a *reservation*: until then the places may serve work
    that ends in time (backfill), and nothing else. A `firm` one was paid for by displacing others
    (or is the place that a displaced gang moves to): nobody else may use it, whoever they are.
    """

    gang: GangId
    claims: tuple[Claim, ...]
    starts_at: int = 0
    firm: bool = False


Action: TypeAlias = Bind | Evict
