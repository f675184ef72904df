"""What was seen and not yet taken note of: watches and writes fill it, the next step empties it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from windlass.daemon.pieces import Piece


@dataclass(slots=True)
class Inbox:
    """Pieces, in the order in which they came."""

    pieces: list[Piece] = field(default_factory=list[Piece])
    filled: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, piece: Piece) -> None:
        """Something was seen."""
        self.put_all([piece])

    def put_all(self, pieces: list[Piece]) -> None:
        """Several things were seen."""
        self.pieces.extend(pieces)
        self.filled.set()

    def take(self) -> list[Piece]:
        """Everything since the last time."""
        taken, self.pieces = self.pieces, []
        self.filled.clear()
        return taken
