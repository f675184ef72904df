"""The interface of the recorded past, as far as the dashboard needs it."""

from __future__ import annotations

from typing import Protocol

from windlass.model.errors import WindlassError
from windlass.web.schema import CycleDocument, RecordedDocument

MOST_CYCLES = 600
"""The largest number of cycles in one window."""


class ReplayUnavailable(WindlassError):
    """The record cannot answer, or not yet; the sentence says why."""


class ReplaySource(Protocol):
    """A record that any thread may read; raises `ReplayUnavailable` if it cannot answer."""

    def window(self, since: int | None, until: int | None) -> RecordedDocument:
        """Return the first cycles from a second on, or the last ones up to a second."""
        ...

    def cycle(self, key: str) -> CycleDocument | None:
        """Return one cycle in full; None if it is not kept."""
        ...
