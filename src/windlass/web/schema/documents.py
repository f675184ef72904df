"""The words of the API: every document that the server hands out, as a type.

Those about cycles stand in `cycle_documents.py`. `openapi.py` describes the API from these types,
so that its description cannot differ from it. GPUs are counted in thousandths (*milli*), times in
seconds. What there is much of comes as columns (`columns.py`).
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
    """Which state of which run a document describes."""

    run: str
    """Differs after the server has been started anew; then versions begin anew as well."""
    version: int
    cycle: int
    now: int
    played: bool
    """Time is played and began on a Monday at midnight; else it counts from 1970."""

    @property
    def tag(self) -> str:
        """Names this state among all states of all runs."""
        return f"{self.run}-{self.version}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What makes a document of the one that the viewer has; `wire.py` says how."""

    since: str
    """The tag of the document that the viewer has."""
    changes: list[dict[str, Any]]
    """To be applied one after the other."""


@dataclass(frozen=True, slots=True)
class ClusterDocument:
    """Every GPU and what is on it."""

    stamp: Stamp
    queues: list[str]
    """In the order of the tree: so are colours given."""
    models: list[str]
    users: list[str]
    namespaces: list[str]
    domains: list[str]
    """Domains inside which NVLink joins the GPUs of several nodes."""
    racks: RackColumns
    nodes: NodeColumns
    gangs: GangColumns
    tasks: TaskColumns
    given: AllocationColumns
    held: HoldColumns
    unhealthy: list[int]
    """Numbers of GPUs that are out of service."""
    utilisation: list[int]
    """Per GPU, in thousandths, -1 where it is not known; empty where nothing is measured."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue with all below it; GPUs in thousandths."""

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
    """Decayed GPU time, in thousandth GPU-seconds."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What one queue has of another's guarantee; GPUs in thousandths."""

    lender: str
    """Empty: what nobody is guaranteed."""
    borrower: str
    milli: int


@dataclass(frozen=True, slots=True)
class Past:
    """What the queues had over time, and how many gangs waited and ran."""

    at: list[int]
    allocated: dict[str, list[int]]
    share: dict[str, list[int]]
    waiting: list[int]
    """Gangs in line; empty, like the next, for who may not list all of them."""
    running: list[int]
    """Gangs with tasks at work."""


@dataclass(frozen=True, slots=True)
class QueuesDocument:
    """The tree of queues, parents before their children."""

    stamp: Stamp
    capacity: int
    """All GPUs that are in service."""
    free: int
    queues: list[QueueRow]
    flows: list[Flow]
    """Who borrows from whom: of siblings first, in proportion to what they leave idle."""
    past: Past


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """A reason as a word for programs and a sentence for people."""

    why: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Eta:
    """When a gang is expected to start."""

    at: int
    """As likely before as after."""
    early: int
    """Nine of ten times later than this."""
    late: int
    """Nine of ten times earlier than this."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A gang in the line."""

    gang: str
    job: str
    queue: str
    user: str
    namespace: str
    priority: int
    position: int
    """From 1; 0: it can never start as it stands."""
    asks: str
    """What one of its tasks needs, in words."""
    tasks: int
    milli: int
    since: int
    starts_at: int | None
    """When its reservation begins, if it has one."""
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
    """When its first task started; if none has, when it was submitted."""


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
        """A gang that ran so long."""
        submitted = gang.created_at
        return cls(
            gang.id, gang.job, gang.queue, gang.user, gang.namespace, submitted, started, ended
        )


@dataclass(frozen=True, slots=True)
class JobsDocument:
    """Who waits, who runs and who has finished: a window of each list, and how long the lists are.

    With something sought, lists and lengths are those of what matches.
    """

    stamp: Stamp
    waiting_in_all: int
    running_in_all: int
    finished_in_all: int
    waiting_first: int
    """How many stand in the list before the window."""
    running_first: int
    finished_first: int
    waiting: list[WaitingJob]
    """In the order of the line."""
    running: list[RunningJob]
    """The newest first."""
    finished: list[FinishedJob]
    """The latest first."""
    asked: int
    """GPU thousandths that all that wait ask for."""
    given: int
    """GPU thousandths that all that run have."""
    median_wait: int | None
    """Of those that wait, so far, in seconds."""
    longest_wait: int | None
    promised: int
    """How many of those that wait have a reservation."""


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A pod of a gang that is on a node."""

    task: str
    node: str
    devices: list[int]
    """Which GPUs of the node."""
    milli: int
    state: str
    started: int | None


@dataclass(frozen=True, slots=True)
class JobDocument:
    """One gang, wherever it is in its life; a gang that grows may run and wait."""

    stamp: Stamp
    waiting: WaitingJob | None
    running: RunningJob | None
    finished: FinishedJob | None
    places: list[PlaceRow]
    """Of the first few hundred of its pods, by name."""
    waiting_in_all: int | None
    """How long the line is; None for who may not list all that stand in it."""


@dataclass(frozen=True, slots=True)
class StartRow:
    """A change that would start a gang, as a word for programs and a sentence for people."""

    kind: str
    """What is changed: `priority`, `limit`, `gpus` and so on, as `windlass explain` has them."""
    sentence: str
    allowed: bool
    """Or would work have to stop that the gang may not displace?"""


@dataclass(frozen=True, slots=True)
class RoomDocument:
    """What it would take to make room for a gang that waits, worked out when it was asked for."""

    gang: str
    cycle: int
    sentences: list[str]
    starts: list[StartRow]
    """What would start it now: each was tried by the engine, the smallest change first; what is
    not allowed stands last."""
    notes: list[str]
    """What else is to be said about that: how many more there are, or that there is none."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no answer."""

    error: str
