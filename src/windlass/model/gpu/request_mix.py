"""The requests that placement expects, chosen from the counts of recent ones.

Only the most frequent requests are chosen, and only if some ask for parts of a GPU: whole GPUs just
need packing. None are chosen if the requests differ too much to predict the next, or if the cluster
is so large that scoring by them would take too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from windlass.model.gpus import WHOLE
from windlass.model.resources import Request

Counted: TypeAlias = tuple[Request, int]
"""A request and the weight of its arrivals."""

COVERED = 95
"""The percentage of arrivals that the chosen requests cover; rarer ones are ignored."""
MOST_CLASSES = 32
"""The most requests that are chosen."""
LEAST_COVERED = 50
"""The least percentage of arrivals that MOST_CLASSES requests must cover; else there is no mix."""
MOST_NODES = 4096
"""The number of nodes above which there is no mix."""
STEP = 80
"""The step of fragmentation cost, in thousandths of a GPU. Nodes within a step are equal, and the
first of them is filled before the next: finer steps would scatter tasks."""
SLACK = 3
"""The CPU and memory, in halves of a task's request, that a node must have left for each task that
its devices could take. Below 2 it would ignore that tasks are of many kinds."""


def expected_requests(known: Iterable[Counted], nodes: int) -> tuple[Counted, ...]:
    """Return the expected requests of a cluster with that number of nodes, most frequent first."""
    if nodes > MOST_NODES:
        return ()
    rows = sorted(known, key=lambda row: (-row[1], repr(row[0])))
    if not any(asks_for_a_part(request) for request, _ in rows):
        return ()
    total = sum(count for _, count in rows)
    if 100 * sum(count for _, count in rows[:MOST_CLASSES]) < LEAST_COVERED * total:
        return ()
    left = COVERED * total
    expected: list[Counted] = []
    for request, count in rows[:MOST_CLASSES]:
        if left <= 0:
            break
        expected.append((request, count))
        left -= 100 * count
    return tuple(expected)


def asks_for_a_part(request: Request) -> bool:
    """Return whether a request leaves part of a device to others."""
    gpu = request.gpu
    return gpu is not None and bool(gpu.profile or gpu.memory_mib or gpu.milli < WHOLE)


def requested_shares(known: Sequence[Counted]) -> dict[int, int]:
    """Return the number of requests for a share of a single device, by its thousandths."""
    asked: dict[int, int] = {}
    for request, count in known:
        gpu = request.gpu
        if gpu and gpu.count == 1 and not gpu.profile and not gpu.memory_mib and gpu.milli < WHOLE:
            asked[gpu.milli] = asked.get(gpu.milli, 0) + count
    return asked
