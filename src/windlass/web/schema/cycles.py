"""The documents about cycles: those that are remembered, and those of the record.

As everywhere in the API, GPUs are counted in thousandths and times in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.web.schema.documents import ReasonRow, Stamp


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
class ShareRow:
    """What a top queue had before a cycle and has after it, once what was evicted has gone."""

    queue: str
    before: int
    after: int
    share: int


@dataclass(frozen=True, slots=True)
class ChangedGpu:
    """What a cycle did with one GPU of a node: all of it, or so many thousandths."""

    device: int
    milli: int
    what: str
    """bound, evicted or held."""
    gang: str
    queue: str


@dataclass(frozen=True, slots=True)
class ChangedNode:
    """A node on which a cycle changed something."""

    node: str
    gpus: int
    cells: list[ChangedGpu]


@dataclass(frozen=True, slots=True)
class CycleDocument:
    """What one cycle did, and why the others waited."""

    cycle: int
    at: int
    placed: list[PlacedRow]
    evicted: list[EvictedRow]
    held: list[HeldRow]
    waiting: list[WhyCount]
    shares: list[ShareRow]
    """Of the first few top queues, those that changed and then the largest, in tree order."""
    changed: list[ChangedNode]
    """The first few dozen, by name."""
    changed_in_all: int


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
    gangs: list[list[str]]
    """The first few that were placed, evicted or held."""


@dataclass(frozen=True, slots=True)
class DecisionsDocument:
    """The remembered cycles in short; each is told in full at its own address."""

    stamp: Stamp
    cycles: Cycles
    is_recorded: bool
    """Is there a record that reaches further back?"""


@dataclass(frozen=True, slots=True)
class RecordedCycles:
    """Columns over cycles of the record."""

    key: list[str]
    """By which each is asked for in full."""
    at: list[int]
    bound: list[int]
    """Tasks."""
    evicted: list[int]
    waiting: list[int]
    """Gangs."""


@dataclass(frozen=True, slots=True)
class RecordedDocument:
    """A few hundred cycles of the record in short, the oldest first."""

    began: int
    """Where the whole record begins."""
    until: int
    """Where it ends."""
    cycles: RecordedCycles
