"""What the engine answers: actions to carry out, and a decision for every gang it looked at."""

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
    """What was decided for a gang."""

    PLACED = "Placed"
    """It starts now, or its lost members return."""
    GREW = "Grew"
    """It runs already and got elastic tasks."""
    DISPLACED = "Displaced"
    """It runs and loses members, to make room for another or because it is stale."""
    WAITS = "Waits"
    """It could start later; the reasons say what is missing now."""
    NEVER = "Never"
    """As it stands it can never start."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one gang in this cycle, and why."""

    gang: GangId
    queue: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    position: int = 0
    """Its place in the line of waiting gangs, from 1; 0 for gangs that were placed."""


def _no_shares() -> dict[str, dict[str, int]]:
    return {}


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one cycle."""

    actions: tuple[Action, ...] = ()
    decisions: tuple[Decision, ...] = ()
    holds: tuple[Hold, ...] = ()
    """All holds and reservations that stand after this plan."""
    shares: Mapping[str, Mapping[str, int]] = field(default_factory=_no_shares)
    """Per queue and dimension, what it should have now."""
    wake_at: int | None = None
    """The next instant at which the answer can change by time alone."""
    searched: tuple[FailedSearch, ...] = ()
    """For whom others could not be displaced, and when that was found out."""
    gave_way: tuple[HoldYielded, ...] = ()
    """The holds of borrowers that end because their places go to others."""

    @property
    def binds(self) -> tuple[Bind, ...]:
        """The tasks to start."""
        return tuple(action for action in self.actions if isinstance(action, Bind))

    @property
    def evictions(self) -> tuple[Evict, ...]:
        """The tasks to take from their nodes."""
        return tuple(action for action in self.actions if isinstance(action, Evict))

    @property
    def asks(self) -> tuple[PendingCheckpoint, ...]:
        """The gangs to ask to save their work before their tasks are taken."""
        return tuple(
            action.parting for action in self.actions if isinstance(action, RequestCheckpoint)
        )

    @property
    def withdrawals(self) -> tuple[WithdrawCheckpoint, ...]:
        """The requests to save that are needless by now."""
        return tuple(action for action in self.actions if isinstance(action, WithdrawCheckpoint))

    @property
    def going(self) -> tuple[Evict, ...]:
        """The tasks to take from their nodes, now or once their work is safe."""
        asked = (each for parting in self.asks for each in parting.evictions)
        return (*self.evictions, *asked)
