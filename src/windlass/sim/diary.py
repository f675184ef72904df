"""The log of recent events of gangs, for the live view."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from windlass.model.actions import Evict
from windlass.model.jobs import Gang
from windlass.sim.records import GangStage, RunNote, What
from windlass.state.cluster import Cluster

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
