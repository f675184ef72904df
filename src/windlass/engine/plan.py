"""The result of a cycle: actions to carry out, and a decision for every gang it considered.

Fields are written to disk and sent to clients: their names are part of the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.model.actions import (
    Action,
    Bind,
    Evict,
    Hold,
    HoldYielded,
    PendingCheckpoint,
    RequestCheckpoint,
    WithdrawCheckpoint,
)
from windlass.model.jobs import GangId
from windlass.model.reasons import Reason
from windlass.state.snapshot import FailedSearch


class Verdict(StrEnum):
    """The outcome for a gang."""

    PLACED = "Placed"
    """The gang starts now, or its lost members do."""
    GREW = "Grew"
    """The gang runs already and gets elastic tasks."""
    DISPLACED = "Displaced"
    """The gang runs and is evicted in part or whole: for a preemptor, or by force."""
    WAITS = "Waits"
    """The gang may start later; the reasons say what is missing now."""
    NEVER = "Never"
    """The gang can never start as it is specified."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one gang in this cycle, with its reasons."""

    gang: GangId
    queue: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    position: int = 0
    """The position among the waiting gangs, from 1; 0 for gangs that do not wait."""


def _no_shares() -> dict[str, dict[str, int]]:
    return {}


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of one cycle."""

    actions: tuple[Action, ...] = ()
    decisions: tuple[Decision, ...] = ()
    holds: tuple[Hold, ...] = ()
    """All holds and reservations that exist after this plan."""
    shares: Mapping[str, Mapping[str, int]] = field(default_factory=_no_shares)
    """The share of each queue, per dimension."""
    wake_at: int | None = None
    """The next instant at which the plan can change by time alone; None if only events matter."""
    searched: tuple[FailedSearch, ...] = ()
    """The gangs for which a search for victims failed, and when."""
    gave_way: tuple[HoldYielded, ...] = ()
    """The holds of borrowers that end because their places go to a preemptor."""

    @property
    def binds(self) -> tuple[Bind, ...]:
        """The tasks to start."""
        return tuple(action for action in self.actions if isinstance(action, Bind))

    @property
    def evictions(self) -> tuple[Evict, ...]:
        """The tasks to evict now."""
        return tuple(action for action in self.actions if isinstance(action, Evict))

    @property
    def asks(self) -> tuple[PendingCheckpoint, ...]:
        """The checkpoints to request before tasks are evicted."""
        return tuple(
            action.parting for action in self.actions if isinstance(action, RequestCheckpoint)
        )

    @property
    def withdrawals(self) -> tuple[WithdrawCheckpoint, ...]:
        """The checkpoint requests that are no longer needed."""
        return tuple(action for action in self.actions if isinstance(action, WithdrawCheckpoint))

    @property
    def going(self) -> tuple[Evict, ...]:
        """The tasks to evict, now or after the checkpoint that this plan requests."""
        after_checkpoint = (evict for pending in self.asks for evict in pending.evictions)
        return (*self.evictions, *after_checkpoint)
