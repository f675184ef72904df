"""A guard against endless exchanges of places: A preempts B, B preempts C, C preempts A.

A gang that preempted others and was then preempted itself may not preempt again until something
changes from outside: a gang arrives, ends or writes a checkpoint, a node or a queue changes, shares
are computed anew. So between two such changes a gang that lost what it gained gains nothing more,
and exchanges come to an end however badly the sizes of gangs match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from windlass.model import events
from windlass.model.actions import WITHOUT_PREEMPTOR, Action, Evict, HoldYielded, RequestCheckpoint
from windlass.model.events import Event
from windlass.model.jobs import Gang, GangId, Task, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.state.checkpoint_requests import CheckpointRequests


class StateBefore(Protocol):
    """The parts of the state that are compared with an event before it is applied."""

    settings: Settings
    nodes: dict[str, Node]
    queues: dict[str, Queue]
    gangs: dict[GangId, Gang]
    tasks: dict[TaskId, Task]
    partings: CheckpointRequests


@dataclass(frozen=True, slots=True)
class ChurnEntry:
    """A preemptor, and whether it was a victim since (`lost`)."""

    gang: GangId
    lost: bool = False


class ChurnGuard:
    """The preemptors since the last change from outside."""

    __slots__ = ("_has_lost",)

    def __init__(self, known: Iterable[ChurnEntry] = ()) -> None:
        self._has_lost = {entry.gang: entry.lost for entry in known}
        """By preemptor: whether it was a victim after it had preempted others."""

    def note(self, actions: Iterable[Action], tasks: Mapping[TaskId, Task]) -> None:
        """Note the preemptors and victims of actions that are being carried out."""
        for eviction in _evictions(actions):
            if eviction.rule not in WITHOUT_PREEMPTOR:
                self._has_lost.setdefault(eviction.gainer, False)
                victim = tasks[eviction.task].gang
                if victim in self._has_lost:
                    self._has_lost[victim] = True

    def note_holds(self, gave_way: Iterable[HoldYielded]) -> None:
        """Note the gangs that lose their holds to others; that counts like a preemption."""
        for hold in gave_way:
            self._has_lost.setdefault(hold.gainer, False)
            if hold.gang in self._has_lost:
                self._has_lost[hold.gang] = True

    def has_lost(self, gang: GangId) -> bool:
        """Return whether a gang was a victim after it had preempted others."""
        return self._has_lost.get(gang, False)

    def observe(self, event: Event, known: StateBefore) -> None:
        """Start anew if an event is a change from outside; call it before the event is applied."""
        if _is_from_outside(event, known):
            self.forget()

    def forget(self) -> None:
        """Start anew, because something has changed from outside."""
        self._has_lost.clear()

    def now(self) -> tuple[ChurnEntry, ...]:
        """Return all entries, in order of their gangs."""
        return tuple(ChurnEntry(gang, lost) for gang, lost in sorted(self._has_lost.items()))


def _evictions(actions: Iterable[Action]) -> Iterator[Evict]:
    """Yield the evictions among the actions, including those pending a checkpoint."""
    for action in actions:
        if isinstance(action, RequestCheckpoint):
            yield from action.parting.evictions
        elif isinstance(action, Evict):
            yield action


def _is_from_outside(event: Event, known: StateBefore) -> bool:
    """Return whether an event is a change from outside, and not the echo of our own plan."""
    match event:
        case events.GangSeen(gang):
            before = known.gangs.get(gang.id)
            if before is not None and gang.id in known.partings.standing:
                gang = replace(gang, saved_at=before.saved_at)  # we requested it
            if before is not None:
                gang = replace(gang, stops=before.stops)  # our own evictions
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
