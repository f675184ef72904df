"""The inputs for the next step: watches and writers fill the inbox, the step empties it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from windlass.daemon.decide import StepInput


@dataclass(slots=True)
class Inbox:
    """Inputs in the order in which they came."""

    pieces: list[StepInput] = field(default_factory=list[StepInput])
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever there is something to do: also to stop, or to write a snapshot."""

    def put(self, piece: StepInput) -> None:
        """Add one input."""
        self.put_all([piece])

    def put_all(self, pieces: list[StepInput]) -> None:
        """Add several inputs."""
        self.pieces.extend(pieces)
        self.filled.set()

    def take(self) -> list[StepInput]:
        """Return all inputs since the last call, and empty the inbox."""
        taken, self.pieces = self.pieces, []
        self.filled.clear()
        return taken
