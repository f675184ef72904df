"""The agreement between the processes of one job, so that all save at the same step or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class RankGroup(Protocol):
    """The processes of a job. Each of them must make the same calls in the same order."""

    @property
    def is_first(self) -> bool:
        """Return whether this process creates and renames the folder of a checkpoint."""
        ...

    def most(self, number: int) -> int:
        """Return the largest number of all processes; blocks until each has called it."""
        ...

    def any_of(self, text: str) -> str:
        """Return the text of the lowest rank whose text is not empty; "" if all are empty."""
        ...


@dataclass(frozen=True, slots=True)
class Alone:
    """A job of one process."""

    is_first: bool = True

    def most(self, number: int) -> int:
        """Return the number itself."""
        return number

    def any_of(self, text: str) -> str:
        """Return the text itself."""
        return text
