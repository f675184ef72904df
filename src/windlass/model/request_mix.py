"""The mix of requests with which placement reckons.

Known is how often each request came. Only the most frequent ones are reckoned with, and only
where some ask for parts of a GPU: whole GPUs alone need no care but to be packed. Where no two
requests are alike nothing is usual; and on very large clusters a decision would take too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from windlass.model.gpus import WHOLE
from windlass.model.resources import Request

Counted: TypeAlias = tuple[Request, int]

COVERED = 95
"""So many of a hundred arrivals are reckoned with; the rest come too rarely to wait for."""
MOST_CLASSES = 32
LEAST_COVERED = 50
"""If the most frequent requests are fewer than so many of a hundred arrivals, there is no mix."""
MOST_NODES = 4096
"""On more nodes than this the mix does not count."""
STEP = 80
"""Thousandths of a GPU that are spoilt count in steps of so many. Within a step nodes are equal,
and the first of them is filled before the next is begun: finer steps scatter tasks."""
SLACK = 3
"""How many halves of the CPU and memory of a task the rest of a node must have for each task that
its devices could take. Less than two halves overlooks that tasks are of many kinds."""


def reckoned(known: Iterable[Counted], nodes: int) -> tuple[Counted, ...]:
    """The requests that matter on so many nodes, the most frequent first.

    There are none unless some ask for parts of GPUs.
    """
    if nodes > MOST_NODES:
        return ()
    rows = sorted(known, key=lambda row: (-row[1], repr(row[0])))
    if not any(asks_for_a_part(request) for request, _ in rows):
        return ()
    total = sum(count for _, count in rows)
    if 100 * sum(count for _, count in rows[:MOST_CLASSES]) < LEAST_COVERED * total:
        return ()
    left = COVERED * total
    found: list[Counted] = []
    for request, count in rows[:MOST_CLASSES]:
        if left <= 0:
            break
        found.append((request, count))
        left -= 100 * count
    return tuple(found)


def asks_for_a_part(request: Request) -> bool:
    """Does the request leave part of a device to others?"""
    gpu = request.gpu
    return gpu is not None and bool(gpu.profile or gpu.memory_mib or gpu.milli < WHOLE)


def shares_asked(known: Sequence[Counted]) -> dict[int, int]:
    """How often each share of a single device was asked for, by its thousandths."""
    asked: dict[int, int] = {}
    for request, count in known:
        gpu = request.gpu
        if gpu and gpu.count == 1 and not gpu.profile and not gpu.memory_mib and gpu.milli < WHOLE:
            asked[gpu.milli] = asked.get(gpu.milli, 0) + count
    return asked
