"""What to do: the engine's answer, carried out by an edge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId
from windlass.model.resources import Request


class EvictionRule(StrEnum):
    """By what right a task is taken from its node."""

    GUARANTEE = "guarantee"
    """Reclaim: another queue is within its guarantee, this one above its own."""
    SHARE = "share"
    """Reclaim: another queue is within its share and has less of it than this one."""
    PRIORITY = "priority"
    """Preempt: a gang of the same queue has a higher priority."""
    ORDER = "order"
    """Preempt: a gang of the same queue and priority comes far before it by the queue's order."""
    CONSOLIDATE = "consolidate"
    """It moves: a place elsewhere is kept for it."""
    STALE = "stale"
    """Its gang has been below its minimum for too long."""
    LEAVING = "leaving"
    """A node of its gang is about to go."""
    LOST = "lost"
    """A node of its gang has not answered for too long."""
    OVERRUN = "overrun"
    """Its gang has run for as long as it may."""


FOR_NOBODY = frozenset(
    {EvictionRule.STALE, EvictionRule.LEAVING, EvictionRule.LOST, EvictionRule.OVERRUN}
)
"""Rules by which a task goes though no other gang gains by it."""


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
    rule: EvictionRule
    gainer: GangId = GangId("")
    """The gang it makes room for; none if it goes for its own sake (`FOR_NOBODY`)."""
    moves_to: str = ""
    """The node on which a place is kept for its successor, if it moves."""


@dataclass(frozen=True, slots=True)
class PlaceClaim:
    """A place that a hold keeps for one task, or for the one that follows it."""

    task: TaskId
    node: str
    devices: tuple[Slice, ...] = ()
    request: Request = Request()

    def meets(self, node: str, devices: Iterable[Slice]) -> bool:
        """Does who has these devices of a node occupy part of the place?"""
        if node != self.node:
            return False
        theirs, mine = ({part.device for part in each} for each in (devices, self.devices))
        return not mine or not theirs or bool(mine & theirs)


@dataclass(frozen=True, slots=True)
class Hold:
    """Places kept for one gang until it is bound or gives up.

    With `starts_at` in the future it is a *reservation*: until then the places may serve work
    that ends in time (backfill), and nothing else. A `firm` one was paid for by displacing others
    (or is the place that a displaced gang moves to): nobody else may use it, whoever they are. It
    ends early only if its gang borrows and another's guarantee needs the places (`GaveWay`).
    """

    gang: GangId
    claims: tuple[PlaceClaim, ...]
    starts_at: int = 0
    firm: bool = False


@dataclass(frozen=True, slots=True)
class HoldYielded:
    """A borrower whose firm hold ends: a gang within its queue's guarantee needs the places."""

    gang: GangId
    gainer: GangId


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A gang that was asked to save its work, because its places are needed; it works on meanwhile.

    Once all of it is safe, or cannot be, or time is up, its tasks are evicted as decided.
    """

    gang: GangId
    id: str
    """Answers must name it."""
    asked_at: int
    deadline: int
    evictions: tuple[Evict, ...]
    saved: tuple[TaskId, ...] = ()
    """The tasks that have answered that their work is safe."""
    refused: bool = False
    """One of them will not save: there is nothing to wait for."""


@dataclass(frozen=True, slots=True)
class RequestCheckpoint:
    """Ask a gang to save its work; from now on its tasks count as being on their way out."""

    parting: PendingCheckpoint


@dataclass(frozen=True, slots=True)
class WithdrawCheckpoint:
    """The need is gone: the gang that was asked works on as if nothing had happened."""

    gang: GangId
    id: str


Action: TypeAlias = Bind | Evict | RequestCheckpoint | WithdrawCheckpoint
