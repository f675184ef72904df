"""What happened: the only way the state of a cluster changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.actions import PendingCheckpoint
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.model.topology import Topology


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node is new or has changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node left; what ran on it is lost."""

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
    """A gang is new or has changed; its tasks follow."""

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
    """A bound task runs."""

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
    """Work of a gang ended by itself on a node; also told of tasks that nobody has seen."""

    gang: GangId
    node: str
    since: int
    """When it began."""
    at: int
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class NodeTrusted:
    """What failed on a node until then does not count against it any more."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A bind we had assumed did not happen; the task waits again."""

    task: TaskId
    why: str = ""


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """An eviction we had assumed was refused; the task runs on."""

    task: TaskId
    why: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointRequestSeen:
    """A gang was asked to save before we came; that stands."""

    parting: PendingCheckpoint


@dataclass(frozen=True, slots=True)
class Answered:
    """A task answers a request to save: its work is safe, or it will not save."""

    task: TaskId
    id: str
    """Of the request; what names another is stale or forged."""
    saved: bool = True


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
)
