"""The words of the API: every document that the server hands out, as a type.

`openapi.py` describes the API from these types, so that its description cannot differ from it.
GPUs are counted in thousandths (*milli*), times in seconds. What there is much of comes as columns
(`columns.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.web.columns import Gangs, Given, Held, Nodes, Racks, Tasks


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


@dataclass(frozen=True, slots=True)
class ClusterDocument:
    """Every GPU and what is on it."""

    stamp: Stamp
    queues: list[str]
    """In the order of the tree: so are colours given."""
    models: list[str]
    users: list[str]
    racks: Racks
    nodes: Nodes
    gangs: Gangs
    tasks: Tasks
    given: Given
    held: Held
    unhealthy: list[int]
    """Numbers of GPUs that are out of service."""


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
class Past:
    """What the queues had over time."""

    at: list[int]
    allocated: dict[str, list[int]]
    share: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class QueuesDocument:
    """The tree of queues, parents before their children."""

    stamp: Stamp
    capacity: int
    """All GPUs that are in service."""
    free: int
    queues: list[QueueRow]
    past: Past


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """A reason as a word for programs and a sentence for people."""

    why: str
    sentence: str


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A gang in the line."""

    gang: str
    job: str
    queue: str
    user: str
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
    reasons: list[ReasonRow]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A gang with tasks on nodes."""

    gang: str
    job: str
    queue: str
    user: str
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
    submitted: int
    started: int | None
    ended: int


@dataclass(frozen=True, slots=True)
class JobsDocument:
    """Who waits, who runs and who has finished; at most a screenful of hundreds of each."""

    stamp: Stamp
    waiting_in_all: int
    running_in_all: int
    waiting: list[WaitingJob]
    running: list[RunningJob]
    finished: list[FinishedJob]


@dataclass(frozen=True, slots=True)
class RoomDocument:
    """What it would take to make room for a gang that waits, worked out when it was asked for."""

    gang: str
    cycle: int
    sentences: list[str]


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A gang that got places in a cycle."""

    gang: str
    queue: str
    verdict: str
    tasks: int
    milli: int
    nodes: list[str]


@dataclass(frozen=True, slots=True)
class EvictedRow:
    """A gang that lost places in a cycle, and to whom."""

    gang: str
    queue: str
    tasks: int
    milli: int
    rule: str
    gainer: str
    moves_to: list[str]
    reasons: list[ReasonRow]


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A gang for which places are kept since this cycle."""

    gang: str
    queue: str
    milli: int
    nodes: list[str]
    starts_at: int | None


@dataclass(frozen=True, slots=True)
class WhyCount:
    """How many gangs waited for one kind of reason."""

    why: str
    gangs: int


@dataclass(frozen=True, slots=True)
class CycleDocument:
    """What one cycle did, and why the others waited."""

    cycle: int
    at: int
    placed: list[PlacedRow]
    evicted: list[EvictedRow]
    held: list[HeldRow]
    waiting: list[WhyCount]


@dataclass(frozen=True, slots=True)
class Cycles:
    """Columns over the cycles that are remembered; GPUs in thousandths."""

    cycle: list[int]
    at: list[int]
    bound: list[int]
    evicted: list[int]
    held: list[int]
    waiting: list[int]
    """Gangs."""


@dataclass(frozen=True, slots=True)
class DecisionsDocument:
    """The remembered cycles in short; each is told in full at its own address."""

    stamp: Stamp
    cycles: Cycles


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no answer."""

    error: str
