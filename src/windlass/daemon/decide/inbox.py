"""What was seen and not yet taken note of: watches and writes fill it, the next step empties it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from windlass.daemon.decide.inputs import StepInput


@dataclass(slots=True)
class Inbox:
    """Pieces, in the order in which they came."""

    pieces: list[StepInput] = field(default_factory=list[StepInput])
    filled: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, piece: StepInput) -> None:
        """Something was seen."""
        self.put_all([piece])

    def put_all(self, pieces: list[StepInput]) -> None:
        """Several things were seen."""
        self.pieces.extend(pieces)
        self.filled.set()

    def take(self) -> list[StepInput]:
        """Everything since the last time."""
        taken, self.pieces = self.pieces, []
        self.filled.clear()
        return taken
