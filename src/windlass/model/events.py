"""The events: besides the actions of a plan, the only way the state of a cluster changes.

Events are recorded by the name of their class (`history/record.py`), so a class that was released
keeps its name and its fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.actions import Hold, PendingCheckpoint
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.model.settings import Settings


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node is new or has changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted; the tasks on it are lost."""

    name: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue is new or has changed."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone:
    """A queue was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class TopologySeen:
    """A topology is new or has changed."""

    topology: Topology


@dataclass(frozen=True, slots=True)
class TopologyGone:
    """A topology was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class SettingsSeen:
    """The settings have changed."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class GangSeen:
    """A gang is new or has changed; the events of its tasks follow."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class GangGone:
    """A gang and all its tasks are gone."""

    gang: GangId


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """A task is new or has changed in any way."""

    task: Task


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A bound task has begun to run."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task ended by itself."""

    task: TaskId
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class TaskGone:
    """A task was deleted, evicted or lost."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """Work of a gang ended by itself on a node; also for tasks that were never observed."""

    gang: GangId
    node: str
    since: int
    """The second at which it began."""
    at: int
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class NodeTrusted:
    """Failures on a node until `at` do not count against it any more."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A bind that was assumed did not happen; the task waits again."""

    task: TaskId
    why: str = ""


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """An eviction that was assumed was refused; the task runs on."""

    task: TaskId
    why: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointRequestSeen:
    """A previous leader requested a checkpoint of a gang; the request is still pending."""

    parting: PendingCheckpoint


@dataclass(frozen=True, slots=True)
class Answered:
    """A task has answered a checkpoint request: its work is saved, or it will not save."""

    task: TaskId
    id: str
    """The id of the request; an answer that names another is stale or forged."""
    saved: bool = True


@dataclass(frozen=True, slots=True)
class HoldSeen:
    """Places are held for a gang, by a promise or because a bind of it failed.

    It replaces a hold that the gang has already. `docs/holds.md` draws the states of a hold.
    """

    hold: Hold


@dataclass(frozen=True, slots=True)
class HoldGone:
    """The hold of a gang ends, if there is one; the places are free for others."""

    gang: GangId
    retry_searches: bool = False
    """Forget the searches for victims that failed: the places may help one of them."""


Event: TypeAlias = (
    NodeSeen
    | NodeGone
    | QueueSeen
    | QueueGone
    | TopologySeen
    | TopologyGone
    | SettingsSeen
    | GangSeen
    | GangGone
    | TaskSeen
    | TaskStarted
    | TaskEnded
    | TaskGone
    | WorkEnded
    | NodeTrusted
    | BindFailed
    | EvictFailed
    | CheckpointRequestSeen
    | Answered
    | HoldSeen
    | HoldGone
)
