"""The processes of one job, as far as saving concerns them: they save at the same step or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class RankGroup(Protocol):
    """All processes of the job; every one of them makes the same calls in the same order."""

    @property
    def is_first(self) -> bool:
        """Is this the one that makes the folder and gives it its name?"""
        ...

    def most(self, number: int) -> int:
        """The largest of what the processes say; nobody goes on before all have spoken."""
        ...

    def any_of(self, text: str) -> str:
        """What the lowest rank that has something to say says."""
        ...


@dataclass(frozen=True, slots=True)
class Alone:
    """A job of one process."""

    is_first: bool = True

    def most(self, number: int) -> int:
        """Its own."""
        return number

    def any_of(self, text: str) -> str:
        """Its own."""
        return text
