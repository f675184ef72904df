"""The map as columns: lists of equal length with one entry per node, gang or task.

Numbers such as `NodeColumns.rack` or `TaskColumns.gang` are indexes into another list. One row per
run of neighbouring GPUs keeps a map of 80,000 GPUs within a few megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RackColumns:
    """The racks: the narrowest domains that hold several nodes."""

    name: list[str]
    block: list[str]
    """The next wider domain; empty if there is none."""


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The nodes with GPUs, rack by rack. All GPUs are numbered through in this order."""

    name: list[str]
    rack: list[int]
    model: list[int]
    domain: list[int]
    """The NVLink domain that the node shares with others; -1: none."""
    first: list[int]
    """The number of the node's first GPU."""
    gpus: list[int]
    state: list[int]
    """The state: 0 in service, 1 cordoned, 2 gone."""


@dataclass(frozen=True, slots=True)
class GangColumns:
    """The gangs that have or hold GPUs; those that the viewer may not see have no name."""

    name: list[str]
    job: list[str]
    queue: list[int]
    user: list[int]
    namespace: list[int]
    priority: list[int]


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """The tasks that have GPUs."""

    name: list[str]
    gang: list[int]
    started: list[int]
    """The time of the start; -1 while the task starts up."""
    leaving: list[int]
    """1: evicted, and not gone yet."""


@dataclass(frozen=True, slots=True)
class AllocationColumns:
    """The allocations: a row per run of neighbouring GPUs that a task has in the same way."""

    gpu: list[int]
    count: list[int]
    task: list[int]
    milli: list[int]
    """The thousandths of each GPU of the run."""
    left: list[int]
    """The start of a MIG instance, in thousandths of its GPU; -1: no MIG."""
    width: list[int]


@dataclass(frozen=True, slots=True)
class HoldColumns:
    """The GPUs that are held for gangs that do not run yet."""

    gpu: list[int]
    count: list[int]
    gang: list[int]
    milli: list[int]
    later: list[int]
    """1: a reservation; until it begins, work that ends in time may use the GPUs."""
