"""The gangs that have ended while this process led: the latest ones, in bounded number."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.model import events
from windlass.model.events import Event
from windlass.model.jobs import Gang, GangId, Task, TaskState
from windlass.state.cluster import Cluster

MOST = 200
"""The number of finished gangs that are kept."""
_OVER = frozenset({TaskState.SUCCEEDED, TaskState.FAILED})


@dataclass(frozen=True, slots=True)
class FinishedGang:
    """A gang as it was, and the seconds at which it started and ended."""

    gang: Gang
    started: int | None
    """None if no task of it was seen to run."""
    ended: int


class FinishedGangs:
    """Sees every event before and after the cluster applies it, and notes gangs that end.

    Gangs that had ended before this process led are not known.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ended: dict[GangId, FinishedGang] = {}
        self._started: dict[GangId, int] = {}
        """By gang, the earliest start among its tasks that have ended or are gone."""
        self.is_on = False
        """Set once all objects were read: what ends before that ended before this process led."""

    def latest(self) -> list[FinishedGang]:
        """Return the finished gangs, the latest first."""
        return list(reversed(self._ended.values()))

    def before(self, event: Event) -> None:
        """Take note of what the cluster forgets with an event."""
        if isinstance(event, events.TaskGone) and (task := self._cluster.tasks.get(event.task)):
            self._note_start(task)
        elif isinstance(event, events.GangGone) and (gone := self._cluster.gangs.get(event.gang)):
            if self.is_on and gone.id not in self._ended:
                self._end(gone)
            self._started.pop(gone.id, None)

    def after(self, event: Event) -> None:
        """Note that a gang has ended by an event, or exists again."""
        if isinstance(event, events.GangSeen):
            if event.gang.id in self._ended and not self._is_over(event.gang.id):
                del self._ended[event.gang.id]  # its pods were created again
        elif isinstance(event, events.TaskSeen) and event.task.state in _OVER:
            gang = event.task.gang
            self._note_start(event.task)
            if self.is_on and gang not in self._ended and self._is_over(gang):
                self._end(self._cluster.gangs[gang])

    def _is_over(self, gang: GangId) -> bool:
        members = self._cluster.members(gang)
        return bool(members) and all(task.state in _OVER for task in members)

    def _note_start(self, task: Task) -> None:
        if task.started_at is not None:
            before = self._started.get(task.gang, task.started_at)
            self._started[task.gang] = min(before, task.started_at)

    def _end(self, gang: Gang) -> None:
        if gang.queue not in self._cluster.queues:
            return  # a pod of another scheduler
        now = self._cluster.now
        self._ended[gang.id] = FinishedGang(gang, self._started.get(gang.id), now)
        if len(self._ended) > MOST:
            del self._ended[next(iter(self._ended))]
