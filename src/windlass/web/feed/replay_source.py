"""The recorded past, as far as the dashboard needs it: whoever keeps a record offers this."""

from __future__ import annotations

from typing import Protocol

from windlass.model.errors import WindlassError
from windlass.web.schema.cycles import CycleDocument, RecordedDocument

MOST_CYCLES = 600
"""So many are told in short at a time."""


class CannotTell(WindlassError):
    """The record does not answer, or not yet; the sentence says why."""


class ReplaySource(Protocol):
    """A record that can be asked, from any thread; CannotTell if it cannot answer."""

    def window(self, since: int | None, until: int | None) -> RecordedDocument:
        """The first cycles from a second on, or the last ones up to one."""
        ...

    def cycle(self, key: str) -> CycleDocument | None:
        """One of them in full; None if it is not kept."""
        ...
