"""The map as columns: lists of equal length, one entry per thing, instead of an object each.

Numbers such as `Nodes.rack` or `Tasks.gang` point into another list. A row per run of neighbouring
GPUs keeps 80,000 of them within a few megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RackColumns:
    """Columns over racks: the narrowest domains that hold several nodes."""

    name: list[str]
    block: list[str]
    """The next wider domain, where there is one."""


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Columns over nodes with GPUs, rack by rack. GPUs are numbered through in this order."""

    name: list[str]
    rack: list[int]
    model: list[int]
    domain: list[int]
    """The NVLink domain that it shares with other nodes; -1: none."""
    first: list[int]
    """The number of its first GPU."""
    gpus: list[int]
    state: list[int]
    """0 in service, 1 cordoned, 2 gone."""


@dataclass(frozen=True, slots=True)
class GangColumns:
    """Columns over the gangs that have or are promised GPUs."""

    name: list[str]
    job: list[str]
    queue: list[int]
    user: list[int]
    namespace: list[int]
    priority: list[int]


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """Columns over the tasks that have GPUs."""

    name: list[str]
    gang: list[int]
    started: list[int]
    """When it started; -1 while it comes up."""
    leaving: list[int]
    """1: evicted, and not yet gone."""


@dataclass(frozen=True, slots=True)
class AllocationColumns:
    """Columns over what tasks have: a row per run of neighbouring GPUs given in the same way."""

    gpu: list[int]
    count: list[int]
    task: list[int]
    milli: list[int]
    """Of each GPU."""
    left: list[int]
    """Where a MIG instance begins, in thousandths of its GPU; -1: no MIG."""
    width: list[int]


@dataclass(frozen=True, slots=True)
class HoldColumns:
    """Columns over what is kept for gangs that do not run yet."""

    gpu: list[int]
    count: list[int]
    gang: list[int]
    milli: list[int]
    later: list[int]
    """1: a reservation; until it begins, work that ends in time may use the place."""
