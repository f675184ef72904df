"""What is remembered of a simulation: a record per gang, and notes of what happened lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.model.actions import Evict, EvictionRule
from windlass.model.jobs import Gang, GangId, JobId


class GangStage(StrEnum):
    """How far a gang has come."""

    WAITING = "Waiting"
    RUNNING = "Running"
    FINISHED = "Finished"
    DELETED = "Deleted"
    OVERRAN = "Overran"
    """It had run for as long as it may, and was ended."""


@dataclass(slots=True)
class GangRecord:
    """What became of one gang."""

    gang: Gang
    tasks: int
    submitted: int
    started: int | None = None
    """When its whole minimum ran for the first time."""
    ended: int | None = None
    """When it was finished, deleted or ended."""
    stage: GangStage = GangStage.WAITING
    restarts: int = 0
    """How many of its tasks were lost and had to be replaced."""
    evictions: int = 0
    """How many of its tasks were evicted, with no other place kept for them."""
    moves: int = 0
    """How many were evicted to another place that was kept for them."""
    stops: int = 0
    """How often evictions left it without its minimum, and it waited again."""
    journeys: int = 0
    """How often it was stopped like that, but with another place to go to."""
    worked: int = 0
    """Useful GPU time so far, up to its last pause, in thousandth GPU-seconds."""
    gainers: list[GangId] = field(default_factory=list[GangId])
    """Whom it made room for, each once."""

    def waited(self, now: int) -> int:
        """Seconds from submission until its minimum ran, or until it gave up, or until now."""
        until = next((each for each in (self.started, self.ended) if each is not None), now)
        return until - self.submitted

    def count(self, evictions: Sequence[Evict], is_stopped: bool) -> None:
        """Add what one plan took from it; is it left without its minimum?"""
        moved = sum(bool(each.moves_to) for each in evictions)
        self.moves += moved
        self.evictions += len(evictions) - moved
        if is_stopped and moved:
            self.journeys += 1
        elif is_stopped:
            self.stops += 1
        gainers = dict.fromkeys(each.gainer for each in evictions if each.gainer)
        self.gainers += [gang for gang in gainers if gang not in self.gainers]


class What(StrEnum):
    """What a note is about."""

    PLACED = "placed"
    GREW = "grew"
    FINISHED = "finished"
    DELETED = "deleted"
    OVERRAN = "ended, having run for as long as it may"
    LOST = "lost"
    """Tasks of it were lost and wait again."""
    ASKED = "asked"
    """It is to save its work, because its places are needed."""
    EVICTED = "evicted"
    """Tasks of it were taken away and wait again."""
    MOVED = "moved"
    """The same, but another place is kept for them."""


@dataclass(frozen=True, slots=True)
class RunNote:
    """Something became of a gang."""

    at: int
    what: What
    gang: GangId
    job: JobId
    queue: str
    tasks: int = 0
    nodes: tuple[str, ...] = ()
    """Where; of one that moves, where to."""
    rule: EvictionRule | None = None
    gainer: GangId = GangId("")
    """By what right it was evicted, and for whom."""
