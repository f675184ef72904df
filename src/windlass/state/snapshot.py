"""A cluster as one value, and that value as JSON, without loss.

A bug report is a snapshot file: the same snapshot gives the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from windlass.model.actions import Hold, PendingCheckpoint
from windlass.model.jobs import Gang, GangId, Task
from windlass.model.nodes import Node, Topology
from windlass.model.queues import Queue
from windlass.model.resources import Request
from windlass.model.settings import Settings
from windlass.state.churn_guard import ChurnEntry
from windlass.state.failures import ForgivenFailures, TaskFailure


@dataclass(frozen=True, slots=True)
class UserUsage:
    """Decayed GPU time (thousandth GPU-seconds) of one user of one queue on one model."""

    queue: str
    user: str
    model: str
    milli_seconds: int


@dataclass(frozen=True, slots=True)
class BelowMinimum:
    """A gang that has run with less than its minimum since a time."""

    gang: GangId
    since: int
    node: str = ""
    """The deleted node that took its members away; empty if they were lost in another way."""


@dataclass(frozen=True, slots=True)
class FailedSearch:
    """A gang for which a search for victims found nothing, and the time of that search."""

    gang: GangId
    at: int
    ready_at: int | None = None
    """The earliest time at which a protected victim becomes preemptible; None if no protection
    kept the gang from its guarantee."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The run times of similar gangs; see `usage/run_times.py`."""

    queue: str
    user: str
    name: str
    gpu_milli: int
    count: int
    total: int
    squares: int


@dataclass(frozen=True, slots=True)
class RequestArrivals:
    """The weight of a request among recent arrivals, and in the mix that placement has adopted."""

    request: Request
    lately: int
    known: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision depends on. The fields are a file format: see `to_json`."""

    now: int = 0
    nodes: tuple[Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    queues: tuple[Queue, ...] = ()
    gangs: tuple[Gang, ...] = ()
    tasks: tuple[Task, ...] = ()
    holds: tuple[Hold, ...] = ()
    partings: tuple[PendingCheckpoint, ...] = ()
    """The gangs that were asked for a checkpoint and were not evicted yet."""
    usage: tuple[UserUsage, ...] = ()
    """The decayed usage as of `now`."""
    epoch_usage: tuple[UserUsage, ...] = ()
    """The decayed usage as of the start of the epoch; shares depend on this one."""
    broken: tuple[BelowMinimum, ...] = ()
    searched: tuple[FailedSearch, ...] = ()
    gained: tuple[ChurnEntry, ...] = ()
    runs: tuple[RunTimes, ...] = ()
    """The run times that were learned, the latest last."""
    arrived: tuple[RequestArrivals, ...] = ()
    """The request mix; if it is empty, the tasks of the snapshot are counted as arrivals."""
    arrived_since: int = 0
    """The number of tasks that arrived since the mix was adopted."""
    failures: tuple[TaskFailure, ...] = ()
    """The recent failures that count, by time."""
    acquitted: tuple[ForgivenFailures, ...] = ()
    """The nodes and gangs whose older failures were forgiven, by time."""
    settings: Settings = Settings()


class SnapshotError(ValueError):
    """The bytes are not a snapshot; the message says where and what was expected."""


def to_json(snapshot: Snapshot) -> bytes:
    """Return the snapshot as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=1) + b"\n"


def from_json(data: bytes) -> Snapshot:
    """Return the snapshot that the bytes hold; raise SnapshotError if they hold none."""
    try:
        return msgspec.json.decode(data, type=Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(str(error)) from error
