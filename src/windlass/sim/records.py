"""What is remembered of a simulation: a record per gang, and notes of what happened lately."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from windlass.model.jobs import Gang, GangId, JobId


class Stage(StrEnum):
    """How far a gang has come."""

    WAITING = "Waiting"
    RUNNING = "Running"
    FINISHED = "Finished"
    DELETED = "Deleted"


@dataclass(slots=True)
class Record:
    """What became of one gang."""

    gang: Gang
    tasks: int
    submitted: int
    started: int | None = None
    """When its whole minimum ran for the first time."""
    ended: int | None = None
    """When it was finished or deleted."""
    stage: Stage = Stage.WAITING
    restarts: int = 0
    """How many of its tasks were lost and had to be replaced."""

    def waited(self, now: int) -> int:
        """Seconds from submission until its minimum ran, or until it gave up, or until now."""
        until = next((each for each in (self.started, self.ended) if each is not None), now)
        return until - self.submitted


class What(StrEnum):
    """What a note is about."""

    PLACED = "placed"
    GREW = "grew"
    FINISHED = "finished"
    DELETED = "deleted"
    LOST = "lost"
    """Tasks of it were lost and wait again."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something became of a gang."""

    at: int
    what: What
    gang: GangId
    job: JobId
    queue: str
    tasks: int = 0
    nodes: tuple[str, ...] = ()
