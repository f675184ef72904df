"""The documents of the API, as types.

Those about cycles are in `cycles.py`. `openapi.py` makes the description of the API from these
types, so that the two cannot differ. GPUs are counted in thousandths (*milli*), times in seconds.
Long tables come as columns (`map_columns.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windlass.model.jobs import Gang
from windlass.web.schema.map_columns import (
    AllocationColumns,
    GangColumns,
    HoldColumns,
    NodeColumns,
    RackColumns,
    TaskColumns,
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The state, and the run, that a document describes."""

    run: str
    """The name of the run; it differs after a restart, when versions begin anew."""
    version: int
    cycle: int
    now: int
    played: bool
    """True: simulated time, which begins on a Monday at midnight; else it counts from 1970."""

    @property
    def tag(self) -> str:
        """The name of this state among all states of all runs."""
        return f"{self.run}-{self.version}"


@dataclass(frozen=True, slots=True)
class Changes:
    """The deltas from the document that the viewer has to the newest (`feed/deltas.py`)."""

    since: str
    """The tag of the document that the viewer has."""
    changes: list[dict[str, Any]]
    """The deltas, to be applied one after the other."""


@dataclass(frozen=True, slots=True)
class ClusterDocument:
    """Every GPU and the tasks on it."""

    stamp: Stamp
    queues: list[str]
    """The queues in tree order, in which the page assigns colours."""
    models: list[str]
    users: list[str]
    namespaces: list[str]
    domains: list[str]
    """The domains inside which NVLink joins the GPUs of several nodes."""
    racks: RackColumns
    nodes: NodeColumns
    gangs: GangColumns
    tasks: TaskColumns
    given: AllocationColumns
    held: HoldColumns
    unhealthy: list[int]
    """The numbers of the GPUs that are out of service."""
    utilisation: list[int]
    """The utilisation per GPU in thousandths, -1 where unknown; empty if nothing is measured."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue with its subtree; GPUs in thousandths."""

    name: str
    parent: str
    depth: int
    guarantee: int
    share: int
    allocated: int
    borrowed: int
    lent: int
    limit: int | None
    weight: int
    waiting_gangs: int
    waiting: int
    usage: int
    """The decayed GPU time, in thousandth GPU-seconds."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The part of a queue's guarantee that another queue borrows; GPUs in thousandths."""

    lender: str
    """The lending queue; empty for GPUs outside all guarantees."""
    borrower: str
    milli: int


@dataclass(frozen=True, slots=True)
class Past:
    """The allocations and shares of the queues over time, and the numbers of gangs."""

    at: list[int]
    allocated: dict[str, list[int]]
    share: dict[str, list[int]]
    waiting: list[int]
    """The gangs that waited; empty, like `running`, if the viewer may not list all gangs."""
    running: list[int]
    """The gangs with tasks on nodes."""


@dataclass(frozen=True, slots=True)
class QueuesDocument:
    """The tree of queues, parents before their children."""

    stamp: Stamp
    capacity: int
    """The GPUs that are in service."""
    free: int
    queues: list[QueueRow]
    flows: list[Flow]
    """The lenders and borrowers: siblings first, in proportion to their idle guarantees."""
    past: Past


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """A reason as a code for programs and a sentence for people."""

    why: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Eta:
    """The expected start of a gang."""

    at: int
    """The median: the start is as likely before as after."""
    early: int
    """The tenth percentile: nine of ten times the start is later."""
    late: int
    """The ninetieth percentile: nine of ten times the start is earlier."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A gang that waits."""

    gang: str
    job: str
    queue: str
    user: str
    namespace: str
    priority: int
    position: int
    """The position in the queue order, from 1; 0: the gang can never start as it is."""
    asks: str
    """The request of one of its tasks, in words."""
    tasks: int
    milli: int
    since: int
    starts_at: int | None
    """The begin of its reservation; None if it has none."""
    eta: Eta | None
    reasons: list[ReasonRow]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A gang with tasks on nodes."""

    gang: str
    job: str
    queue: str
    user: str
    namespace: str
    priority: int
    tasks: int
    milli: int
    models: list[str]
    nodes: list[str]
    since: int
    """The start of its first task; if none has started, the time of its submission."""


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A gang that has ended."""

    gang: str
    job: str
    queue: str
    user: str
    namespace: str
    submitted: int
    started: int | None
    ended: int

    @classmethod
    def of(cls, gang: Gang, started: int | None, ended: int) -> FinishedJob:
        """Return the row of a gang that has ended."""
        submitted = gang.created_at
        return cls(
            gang.id, gang.job, gang.queue, gang.user, gang.namespace, submitted, started, ended
        )


@dataclass(frozen=True, slots=True)
class JobsDocument:
    """The jobs that wait, run and have finished: a window of each list, and the lengths.

    A search limits the lists and their lengths to the jobs that match.
    """

    stamp: Stamp
    waiting_in_all: int
    running_in_all: int
    finished_in_all: int
    waiting_first: int
    """The number of rows before the window; the next two likewise."""
    running_first: int
    finished_first: int
    waiting: list[WaitingJob]
    """The gangs that wait, in queue order."""
    running: list[RunningJob]
    """The gangs that run, the newest first."""
    finished: list[FinishedJob]
    """The gangs that have ended, the latest first."""
    asked: int
    """The GPU thousandths that all waiting gangs request."""
    given: int
    """The GPU thousandths that all running gangs have."""
    median_wait: int | None
    """The median of the waiting times so far, in seconds; None if no gang waits."""
    longest_wait: int | None
    promised: int
    """The number of waiting gangs that have a reservation."""


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A pod of a gang that is on a node."""

    task: str
    node: str
    devices: list[int]
    """The GPUs of the node that it has."""
    milli: int
    state: str
    started: int | None


@dataclass(frozen=True, slots=True)
class JobDocument:
    """One gang, in any state; an elastic gang may run and wait at the same time."""

    stamp: Stamp
    waiting: WaitingJob | None
    running: RunningJob | None
    finished: FinishedJob | None
    places: list[PlaceRow]
    """The first few hundred of its pods, by name."""
    waiting_in_all: int | None
    """The number of all gangs that wait; None if the viewer may not list all of them."""


@dataclass(frozen=True, slots=True)
class StartRow:
    """A change that would start a gang, as a code for programs and a sentence for people."""

    kind: str
    """The kind of change: `priority`, `limit`, `gpus` and so on, as in `windlass explain`."""
    sentence: str
    allowed: bool
    """False: work would have to stop that the gang may not preempt."""


@dataclass(frozen=True, slots=True)
class RoomDocument:
    """The ways to make room for a gang that waits, computed on request."""

    gang: str
    cycle: int
    sentences: list[str]
    starts: list[StartRow]
    """The changes that would start it now: each was tried by the engine, the smallest first;
    changes that are not allowed are last."""
    notes: list[str]
    """The notes about the changes: the number of further ones, or that there is none."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The error that a request is answered with."""

    error: str
