"""What a simulation is given: a cluster, its queues, and what will happen when.

Scenario files and the generator produce it; `run.py` plays it.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.model.actions import Hold, PendingCheckpoint
from windlass.model.events import Event
from windlass.model.jobs import Gang, Task
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.model.topology import Topology
from windlass.state.snapshot import FailedSearch, UserUsage


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang that is submitted at `at`, and how its tasks will then behave.

    The gang ends when as many tasks as its minimum have succeeded, or at `deleted_at`. The
    scheduler never sees `runs_s`; it may see an estimate in `gang.duration_s`. Tasks that have a
    node already are found there: they run, come up or terminate as their state says.
    """

    at: int
    gang: Gang
    tasks: tuple[Task, ...]
    runs_s: int | None
    """How long each task runs once started; None: until it is deleted."""
    fails_after_s: int | None = None
    """The first task of the gang fails once, this long after it started, and is replaced."""
    deleted_at: int | None = None
    """Its user deletes it then."""
    saves_every_s: int | None = None
    """While it works it saves its work this often; None: never, so that it always starts over."""
    saves_when_stopped: bool = False
    """It saves its work whenever it is evicted, however often it does otherwise."""
    saving_s: int | None = None
    """How long it takes to save when it is asked to; None: it never answers."""
    restart_s: int = 0
    """How much longer it takes to come up again after an eviction."""
    terminates_s: int | None = 10
    """How long an evicted task keeps its devices; None: for ever, as a stuck pod does."""
    submitted: int | None = None
    """When it was submitted, if that was before `at`."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node comes, changes (`node` given) or goes (`node` None)."""

    at: int
    name: str
    node: Node | None
    breaks: bool = False
    """Whatever works there from now on fails after a moment."""


@dataclass(frozen=True, slots=True)
class Told:
    """Something that the cluster is told as it is: a queue or a topology has changed."""

    at: int
    event: Event


@dataclass(frozen=True, slots=True)
class Before:
    """What a cluster brings along from the time before."""

    usage: tuple[UserUsage, ...] = ()
    epoch_usage: tuple[UserUsage, ...] = ()
    holds: tuple[Hold, ...] = ()
    searched: tuple[FailedSearch, ...] = ()
    partings: tuple[PendingCheckpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """All of it."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    arrivals: tuple[Arrival, ...]
    topologies: tuple[Topology, ...] = ()
    node_changes: tuple[NodeChange, ...] = ()
    told: tuple[Told, ...] = ()
    before: Before = Before()
    settings: Settings = Settings()
    until: int | None = None
    """Stop here; None: run to rest."""
