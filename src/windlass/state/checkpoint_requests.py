"""The gangs that were asked for a checkpoint and were not evicted yet, and their answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.model.actions import PendingCheckpoint
from windlass.model.events import Answered
from windlass.model.jobs import GangId


class CheckpointRequests:
    """The pending checkpoint requests, at most one per gang."""

    __slots__ = ("standing",)

    def __init__(self, known: Iterable[PendingCheckpoint] = ()) -> None:
        self.standing = {request.gang: request for request in known}
        """The request of each gang. `Cluster` adds and removes entries."""

    def answer(self, gang: GangId, answered: Answered) -> None:
        """Note the answer of a task; an answer to any other request is ignored."""
        request = self.standing.get(gang)
        if request is None or request.id != answered.id:
            return
        if not answered.saved:
            self.standing[gang] = replace(request, refused=True)
        elif answered.task not in request.saved:
            saved = tuple(sorted((*request.saved, answered.task)))
            self.standing[gang] = replace(request, saved=saved)

    def now(self) -> tuple[PendingCheckpoint, ...]:
        """Return all requests, in order of their gangs."""
        return tuple(self.standing[gang] for gang in sorted(self.standing))
