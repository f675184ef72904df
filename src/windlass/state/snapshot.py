"""A cluster as one value, and that value as JSON, without loss.

A bug report is a snapshot file: the same snapshot gives the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from windlass.model.actions import Hold, PendingCheckpoint
from windlass.model.jobs import Gang, GangId, Task
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.resources import Request
from windlass.model.settings import Settings
from windlass.model.topology import Topology
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
    """A gang that runs with less than its minimum, and since when."""

    gang: GangId
    since: int
    node: str = ""
    """The deleted node that took its members away; empty if they were lost in another way."""


@dataclass(frozen=True, slots=True)
class FailedSearch:
    """A gang for which others could not be displaced, and when that was found out."""

    gang: GangId
    at: int
    ready_at: int | None = None
    """When something that is protected now may go, and so keep what the gang is guaranteed."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """How long like work ran; see `usage/run_times.py`."""

    queue: str
    user: str
    name: str
    gpu_milli: int
    count: int
    total: int
    squares: int


@dataclass(frozen=True, slots=True)
class RequestArrivals:
    """How often a request came lately, and how often in the mix with which placement reckons."""

    request: Request
    lately: int
    known: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision depends on."""

    now: int = 0
    nodes: tuple[Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    queues: tuple[Queue, ...] = ()
    gangs: tuple[Gang, ...] = ()
    tasks: tuple[Task, ...] = ()
    holds: tuple[Hold, ...] = ()
    partings: tuple[PendingCheckpoint, ...] = ()
    """Who was asked to save and has not gone yet."""
    usage: tuple[UserUsage, ...] = ()
    """As of now."""
    epoch_usage: tuple[UserUsage, ...] = ()
    """As of the start of the epoch: what shares are bent by."""
    broken: tuple[BelowMinimum, ...] = ()
    searched: tuple[FailedSearch, ...] = ()
    gained: tuple[ChurnEntry, ...] = ()
    runs: tuple[RunTimes, ...] = ()
    """What was learned about run times, the latest last."""
    arrived: tuple[RequestArrivals, ...] = ()
    """The mix of requests; if there is none, the tasks of the snapshot are counted as arrivals."""
    arrived_since: int = 0
    """How many tasks came since the known mix was taken over."""
    failures: tuple[TaskFailure, ...] = ()
    """What failed lately, by time."""
    acquitted: tuple[ForgivenFailures, ...] = ()
    """Against whom older failures do not count."""
    settings: Settings = Settings()


class SnapshotError(ValueError):
    """The bytes are not a snapshot; the message says where and what was expected."""


def to_json(snapshot: Snapshot) -> bytes:
    """The snapshot as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=1) + b"\n"


def from_json(data: bytes) -> Snapshot:
    """The snapshot in the bytes; SnapshotError if there is none."""
    try:
        return msgspec.json.decode(data, type=Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(str(error)) from error
