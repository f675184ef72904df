"""Who was asked to save its work and has not gone yet, and what it answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.model.actions import PendingCheckpoint
from windlass.model.events import Answered
from windlass.model.jobs import GangId


class CheckpointRequests:
    """The requests that stand, at most one per gang."""

    __slots__ = ("standing",)

    def __init__(self, known: Iterable[PendingCheckpoint] = ()) -> None:
        self.standing = {each.gang: each for each in known}

    def answer(self, gang: GangId, answered: Answered) -> None:
        """A task has answered; what names another request than the one that stands is nothing."""
        parting = self.standing.get(gang)
        if parting is None or parting.id != answered.id:
            return
        if not answered.saved:
            self.standing[gang] = replace(parting, refused=True)
        elif answered.task not in parting.saved:
            saved = tuple(sorted((*parting.saved, answered.task)))
            self.standing[gang] = replace(parting, saved=saved)

    def now(self) -> tuple[PendingCheckpoint, ...]:
        """All of them, by name."""
        return tuple(self.standing[gang] for gang in sorted(self.standing))
