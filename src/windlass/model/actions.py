"""The actions that the engine decides and an edge carries out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId
from windlass.model.resources import Request


class EvictionRule(StrEnum):
    """The rule by which a task is evicted."""

    GUARANTEE = "guarantee"
    """Reclaim: another queue is within its guarantee, this one above its own."""
    SHARE = "share"
    """Reclaim: another queue is within its share and has less of it than this one."""
    PRIORITY = "priority"
    """Preempt: a gang of the same queue has a higher priority."""
    ORDER = "order"
    """Preempt: a gang of the same queue and priority comes far before it by the queue's order."""
    CONSOLIDATE = "consolidate"
    """Consolidate: it moves to a place that is held for it elsewhere."""
    STALE = "stale"
    """Its gang has been below its minimum for too long."""
    LEAVING = "leaving"
    """A node of its gang will end soon."""
    LOST = "lost"
    """A node of its gang has not answered for too long."""
    OVERRUN = "overrun"
    """Its gang has reached its maximum run time."""


WITHOUT_PREEMPTOR = frozenset(
    {EvictionRule.STALE, EvictionRule.LEAVING, EvictionRule.LOST, EvictionRule.OVERRUN}
)
"""The rules that evict without a preemptor."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Start a task on a node, on these devices."""

    task: TaskId
    node: str
    devices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a task; the freed resources are held for the preemptor."""

    task: TaskId
    rule: EvictionRule
    gainer: GangId = GangId("")
    """The preemptor; empty for the rules of `WITHOUT_PREEMPTOR`."""
    moves_to: str = ""
    """The node on which a place is held for its successor; empty if it does not move."""


@dataclass(frozen=True, slots=True)
class PlaceClaim:
    """A place that a hold keeps for one task or its successor."""

    task: TaskId
    node: str
    devices: tuple[Slice, ...] = ()
    request: Request = Request()

    def meets(self, node: str, devices: Iterable[Slice]) -> bool:
        """Return whether a task with these devices of a node may occupy part of the place.

        Without devices on either side, sharing the node is enough.
        """
        if node != self.node:
            return False
        occupied = {part.device for part in devices}
        claimed = {part.device for part in self.devices}
        return not claimed or not occupied or bool(claimed & occupied)


@dataclass(frozen=True, slots=True)
class Hold:
    """Places kept for one gang until it is bound or the hold is given up.

    With `starts_at` in the future it is a *reservation*: until then, only work that ends in time
    may use the places (backfill). A `firm` hold was made by evicting victims, or is the place that
    a displaced gang moves to: no other gang may use it. It ends early only if its gang borrows and
    the guarantee of another queue needs the places (reason `GaveWay`).
    """

    gang: GangId
    claims: tuple[PlaceClaim, ...]
    starts_at: int = 0
    firm: bool = False


@dataclass(frozen=True, slots=True)
class HoldYielded:
    """The end of a borrower's firm hold, because a gang within its guarantee needs the places."""

    gang: GangId
    gainer: GangId


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint that was requested from a victim before its eviction; it runs on meanwhile.

    Once all of its tasks have a checkpoint, or one refuses, or the deadline passes, the evictions
    are carried out.
    """

    gang: GangId
    id: str
    """The id of the request; answers must name it."""
    asked_at: int
    deadline: int
    evictions: tuple[Evict, ...]
    saved: tuple[TaskId, ...] = ()
    """The tasks that have confirmed their checkpoint."""
    refused: bool = False
    """A task has refused: there is nothing to wait for."""


@dataclass(frozen=True, slots=True)
class RequestCheckpoint:
    """Request a checkpoint from a gang; from now on its tasks count as releasing."""

    parting: PendingCheckpoint


@dataclass(frozen=True, slots=True)
class WithdrawCheckpoint:
    """Withdraw the request for a checkpoint: the gang runs on, its eviction is not needed."""

    gang: GangId
    id: str


Action: TypeAlias = Bind | Evict | RequestCheckpoint | WithdrawCheckpoint
