"""The input of a simulation: a cluster, its queues, and the events to come.

Scenario files and the generator produce it; `run.py` plays it.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.model.actions import Hold, PendingCheckpoint
from windlass.model.events import Event
from windlass.model.jobs import Gang, Task
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.state.snapshot import FailedSearch, UserUsage


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang that is submitted at `at`, and the behaviour of its tasks.

    The gang ends when as many tasks as its minimum have succeeded, or at `deleted_at`. The
    scheduler never sees `runs_s`; it may see an estimate in `gang.duration_s`. Tasks that already
    have a node are in the state they say: they run, start or terminate there.
    """

    at: int
    gang: Gang
    tasks: tuple[Task, ...]
    runs_s: int | None
    """The run time of each task in seconds; None: until it is deleted."""
    fails_after_s: int | None = None
    """The seconds after which the first task of the gang fails once and is replaced; None:
    never."""
    deleted_at: int | None = None
    """The time at which its user deletes it; None: never."""
    saves_every_s: int | None = None
    """The period of its own checkpoints in seconds; None: it makes none and always starts over."""
    saves_when_stopped: bool = False
    """True if it saves its work at every eviction."""
    saving_s: int | None = None
    """The seconds from a checkpoint request to its answer; None: it never answers."""
    restart_s: int = 0
    """The additional start time in seconds after an eviction."""
    terminates_s: int | None = 10
    """The seconds for which an evicted task keeps its devices; None: for ever, like a stuck pod."""
    submitted: int | None = None
    """The time of submission, if that was before `at`."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node is added or changed (`node` given) or removed (`node` None)."""

    at: int
    name: str
    node: Node | None
    breaks: bool = False
    """True if every task on it fails from now on."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event that is passed to the cluster as it is: a queue or a topology has changed."""

    at: int
    event: Event


@dataclass(frozen=True, slots=True)
class Before:
    """The state that a cluster has from the time before the simulation."""

    usage: tuple[UserUsage, ...] = ()
    epoch_usage: tuple[UserUsage, ...] = ()
    holds: tuple[Hold, ...] = ()
    searched: tuple[FailedSearch, ...] = ()
    partings: tuple[PendingCheckpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """The whole input of a simulation."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    arrivals: tuple[Arrival, ...]
    topologies: tuple[Topology, ...] = ()
    node_changes: tuple[NodeChange, ...] = ()
    told: tuple[Told, ...] = ()
    before: Before = Before()
    settings: Settings = Settings()
    until: int | None = None
    """The time at which it stops; None: it runs until it rests."""
