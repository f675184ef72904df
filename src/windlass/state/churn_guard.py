"""Who displaced others, and was displaced in turn, since anything last changed from outside.

Such a gang displaces nobody until something does change: somebody comes, ends or saves, a node or a
queue is another, shares are worked out anew. So however badly sizes match, exchanges come to an
end: a gang gains at most once for each time that it was left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from windlass.model import events
from windlass.model.actions import FOR_NOBODY, Action, Evict, HoldYielded, RequestCheckpoint
from windlass.model.events import Event
from windlass.model.jobs import Gang, GangId, Task, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.state.checkpoint_requests import CheckpointRequests


class StateBefore(Protocol):
    """What is known before an event."""

    settings: Settings
    nodes: dict[str, Node]
    queues: dict[str, Queue]
    gangs: dict[GangId, Gang]
    tasks: dict[TaskId, Task]
    partings: CheckpointRequests


@dataclass(frozen=True, slots=True)
class ChurnEntry:
    """A gang for which others were displaced, and whether it was displaced since."""

    gang: GangId
    lost: bool = False


class ChurnGuard:
    """The gangs that gained since the last change from outside."""

    __slots__ = ("_has_lost",)

    def __init__(self, known: Iterable[ChurnEntry] = ()) -> None:
        self._has_lost = {each.gang: each.lost for each in known}

    def note(self, actions: Iterable[Action], tasks: Mapping[TaskId, Task]) -> None:
        """These actions are carried out."""
        for each in _evictions(actions):
            if each.rule not in FOR_NOBODY:
                self._has_lost.setdefault(each.gainer, False)
                loser = tasks[each.task].gang
                if loser in self._has_lost:
                    self._has_lost[loser] = True

    def note_holds(self, gave_way: Iterable[HoldYielded]) -> None:
        """These gangs lose the places held for them: that counts as if they had been displaced."""
        for each in gave_way:
            self._has_lost.setdefault(each.gainer, False)
            if each.gang in self._has_lost:
                self._has_lost[each.gang] = True

    def has_lost(self, gang: GangId) -> bool:
        """Was it displaced after it had displaced others?"""
        return self._has_lost.get(gang, False)

    def heed(self, event: Event, known: StateBefore) -> None:
        """Something happens, from outside or as an echo of what was planned."""
        if _is_from_outside(event, known):
            self.forget()

    def forget(self) -> None:
        """Something has changed from outside."""
        self._has_lost.clear()

    def now(self) -> tuple[ChurnEntry, ...]:
        """All of it as values, by name."""
        return tuple(ChurnEntry(gang, lost) for gang, lost in sorted(self._has_lost.items()))


def _evictions(actions: Iterable[Action]) -> Iterator[Evict]:
    """Also those that wait until work is saved: they are decided."""
    for each in actions:
        if isinstance(each, RequestCheckpoint):
            yield from each.parting.evictions
        elif isinstance(each, Evict):
            yield each


def _is_from_outside(event: Event, known: StateBefore) -> bool:
    match event:
        case events.GangSeen(gang):
            before = known.gangs.get(gang.id)
            if before is not None and gang.id in known.partings.standing:
                gang = replace(gang, saved_at=before.saved_at)  # it was asked to save
            if before is not None:
                gang = replace(gang, stops=before.stops)  # what we did ourselves
            return before != gang
        case events.NodeSeen(node):
            return known.nodes.get(node.name) != node
        case events.QueueSeen(queue):
            return known.queues.get(queue.name) != queue
        case events.SettingsSeen(settings):
            return known.settings != settings
        case events.TaskGone(task):
            return task in known.tasks and known.tasks[task].state != TaskState.RELEASING
        case events.TaskSeen() | events.TaskStarted():
            return False
        case (
            events.BindFailed()
            | events.EvictFailed()
            | events.CheckpointRequestSeen()
            | events.Answered()
            | events.HoldSeen()
            | events.HoldGone()
        ):
            return False
        case _:
            return True
