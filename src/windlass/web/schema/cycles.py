"""The documents about cycles: the remembered cycles, and the recorded ones.

As everywhere in the API, GPUs are counted in thousandths and times in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.web.schema.documents import ReasonRow, Stamp


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A gang of which tasks were bound in a cycle."""

    gang: str
    queue: str
    verdict: str
    tasks: int
    milli: int
    nodes: list[str]


@dataclass(frozen=True, slots=True)
class EvictedRow:
    """A gang of which tasks were evicted in a cycle; `gainer` is the preemptor."""

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
    """A gang for which GPUs are held since this cycle."""

    gang: str
    queue: str
    milli: int
    nodes: list[str]
    starts_at: int | None


@dataclass(frozen=True, slots=True)
class WhyCount:
    """The number of gangs that waited for one kind of reason."""

    why: str
    gangs: int


@dataclass(frozen=True, slots=True)
class ShareRow:
    """The allocation of a top queue before a cycle and after it, once evicted tasks are gone."""

    queue: str
    before: int
    after: int
    share: int


@dataclass(frozen=True, slots=True)
class ChangedGpu:
    """A GPU of a node that a cycle bound, evicted or held, wholly or for some thousandths."""

    device: int
    milli: int
    what: str
    """The kind of change: `bound`, `evicted` or `held`."""
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
    """The actions of one cycle, and the reasons for which other gangs waited."""

    cycle: int
    at: int
    placed: list[PlacedRow]
    evicted: list[EvictedRow]
    held: list[HeldRow]
    waiting: list[WhyCount]
    shares: list[ShareRow]
    """A few top queues, first those that changed and then the largest, in tree order."""
    changed: list[ChangedNode]
    """The first few dozen changed nodes, by name."""
    changed_in_all: int


@dataclass(frozen=True, slots=True)
class Cycles:
    """The remembered cycles as columns; GPUs in thousandths."""

    cycle: list[int]
    at: list[int]
    bound: list[int]
    evicted: list[int]
    held: list[int]
    waiting: list[int]
    """The number of gangs that waited."""
    gangs: list[list[str]]
    """The first few gangs that were placed, evicted or held."""


@dataclass(frozen=True, slots=True)
class DecisionsDocument:
    """The remembered cycles in short; each has an address of its own with the full cycle."""

    stamp: Stamp
    cycles: Cycles
    is_recorded: bool
    """True: a record reaches further back."""


@dataclass(frozen=True, slots=True)
class RecordedCycles:
    """Recorded cycles as columns."""

    key: list[str]
    """The keys that request each cycle in full."""
    at: list[int]
    bound: list[int]
    """The number of tasks that were bound."""
    evicted: list[int]
    waiting: list[int]
    """The number of gangs that waited."""


@dataclass(frozen=True, slots=True)
class RecordedDocument:
    """A few hundred cycles of the record in short, the oldest first."""

    began: int
    """The second at which the whole record begins."""
    until: int
    """The second at which it ends."""
    cycles: RecordedCycles
