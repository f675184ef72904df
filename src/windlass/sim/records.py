"""The records of a simulation: one per gang, and the latest notes for the live view."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from windlass.model.actions import Evict, EvictionRule
from windlass.model.jobs import Gang, GangId, JobId
from windlass.state.cluster import Cluster


class GangStage(StrEnum):
    """The stage of a gang in its life."""

    WAITING = "Waiting"
    RUNNING = "Running"
    FINISHED = "Finished"
    DELETED = "Deleted"
    OVERRAN = "Overran"
    """It was ended at its maximum run time."""


@dataclass(slots=True)
class GangRecord:
    """The history of one gang."""

    gang: Gang
    tasks: int
    submitted: int
    started: int | None = None
    """The time when its whole minimum ran for the first time; None before."""
    ended: int | None = None
    """The time when it was finished, deleted or ended; None before."""
    stage: GangStage = GangStage.WAITING
    restarts: int = 0
    """The number of its tasks that were lost and replaced."""
    evictions: int = 0
    """The number of its tasks that were evicted without another place."""
    moves: int = 0
    """The number of its tasks that were moved to a place that was held for them."""
    stops: int = 0
    """The number of times that evictions left it without its minimum and it waited again."""
    journeys: int = 0
    """The number of times that it was stopped to move to another place."""
    worked: int = 0
    """The useful GPU time up to its last pause, in milli-GPU-seconds."""
    gainers: list[GangId] = field(default_factory=list[GangId])
    """The gangs for which it was evicted, each once."""

    def waited(self, now: int) -> int:
        """Return the seconds from submission until its minimum ran, or until it ended, or until
        now."""
        until = next((each for each in (self.started, self.ended) if each is not None), now)
        return until - self.submitted

    def count(self, evictions: Sequence[Evict], is_stopped: bool) -> None:
        """Count the evictions of one plan; `is_stopped` says whether they left it without its
        minimum."""
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
    """The kind of a note."""

    PLACED = "placed"
    GREW = "grew"
    FINISHED = "finished"
    DELETED = "deleted"
    OVERRAN = "ended, having run for as long as it may"
    LOST = "lost"
    """Tasks of it were lost and wait again."""
    ASKED = "asked"
    """It has a checkpoint request, because its places are needed."""
    EVICTED = "evicted"
    """Tasks of it were evicted and wait again."""
    MOVED = "moved"
    """Tasks of it were evicted and move to another place that is held for them."""


@dataclass(frozen=True, slots=True)
class RunNote:
    """One event in the life of a gang, for the live view."""

    at: int
    what: What
    gang: GangId
    job: JobId
    queue: str
    tasks: int = 0
    nodes: tuple[str, ...] = ()
    """The nodes of the tasks; for a move, the destination."""
    rule: EvictionRule | None = None
    gainer: GangId = GangId("")
    """The preemptor; `rule` is the rule of the eviction."""


MOST = 50
"""The number of latest notes that are kept."""
_ENDS = {
    GangStage.FINISHED: What.FINISHED,
    GangStage.DELETED: What.DELETED,
    GangStage.OVERRAN: What.OVERRAN,
}


class Diary:
    """The latest notes, newest last."""

    def __init__(self) -> None:
        self.notes: deque[RunNote] = deque(maxlen=MOST)

    def tell(
        self, now: int, what: What, gang: Gang, nodes: Iterable[str] = (), tasks: int = 0
    ) -> None:
        """Add a note about a gang at the current time."""
        self.notes.append(RunNote(now, what, gang.id, gang.job, gang.queue, tasks, tuple(nodes)))

    def tell_end(self, now: int, gang: Gang, stage: GangStage) -> None:
        """Add the note that a gang is over."""
        self.tell(now, _ENDS[stage], gang)

    def tell_parted(
        self, cluster: Cluster, gang: Gang, evictions: Sequence[Evict], is_asked: bool = False
    ) -> None:
        """Add the note that tasks of a gang are evicted or moved, or get a checkpoint request
        first."""
        first, tasks = evictions[0], cluster.tasks
        what = What.ASKED if is_asked else What.MOVED if first.moves_to else What.EVICTED
        nodes = dict.fromkeys(each.moves_to or tasks[each.task].node for each in evictions)
        self.tell(cluster.now, what, gang, nodes, len(evictions))
        self.notes[-1] = replace(self.notes[-1], rule=first.rule, gainer=first.gainer)
