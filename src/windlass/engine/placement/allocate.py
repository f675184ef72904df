"""Allocation: gangs in their order on free capacity, around holds and reservations.

A gang for which places are held grows into them here, so that every later search for room sees
them as taken. Gangs that find no room are left for `preemption/make_room.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from windlass.engine.draft import Draft
from windlass.engine.placement.elastic import PutInOrder, grow_as_held, still_growing
from windlass.engine.placement.place import Placer
from windlass.engine.queueing import GangOrder, Progress
from windlass.model.jobs import GangId


@dataclass(slots=True)
class Allocation:
    """The gangs that were placed on free capacity, and those that were not."""

    placed: list[Progress]
    gangs: frozenset[GangId]
    """The ids of the placed gangs."""
    waiting: list[Progress]
    """The gangs that found no room, in order."""
    owed: dict[GangId, int]
    """The number of tasks by which gangs grew into places that were held for them."""
    growing: list[Progress]
    """The gangs that have their minimum and may have more tasks."""


def allocate(
    draft: Draft, placer: Placer, in_order: PutInOrder, eligible: Collection[Progress]
) -> Allocation:
    """Bind each gang in turn where there is room; gangs that do not fit wait, in order."""
    line = in_order(progress for progress in eligible if progress.parts)
    placed, waiting = _place_in_order(draft, placer, line)
    owed = grow_as_held(draft, placer, _growing(eligible, _ids(placed)), in_order)
    placed += _retry_nominated(draft, placer, waiting)
    gangs = _ids(placed)
    growing = still_growing(draft, _growing(eligible, gangs), owed)
    return Allocation(placed, gangs, waiting, owed, list(growing))


def _place_in_order(
    draft: Draft, placer: Placer, line: GangOrder
) -> tuple[list[Progress], list[Progress]]:
    """Return the gangs that were placed and those that were not, both in order."""
    placed: list[Progress] = []
    waiting: list[Progress] = []
    while (progress := line.next()) is not None:
        if placer.start(progress):
            line.placed(progress)
            draft.holds.drop(progress.gang.id)
            placed.append(progress)
        else:
            waiting.append(progress)
    return placed, waiting


def _retry_nominated(draft: Draft, placer: Placer, waiting: list[Progress]) -> list[Progress]:
    """Place gangs with held places whose pod affinity is satisfied by now; return them.

    They are removed from `waiting`. Each gang that is placed may satisfy the affinity of another,
    so this is repeated until no more can be placed.
    """
    late: list[Progress] = []
    if not draft.neighbours.tallies:
        return late
    held = [progress for progress in waiting if draft.holds.is_firm(progress.gang.id)]
    while came := {progress.gang.id: progress for progress in held if placer.start(progress)}:
        for gang in came:
            draft.holds.drop(gang)
        held = [progress for progress in held if progress.gang.id not in came]
        waiting[:] = [progress for progress in waiting if progress.gang.id not in came]
        late += came.values()
    return late


def _growing(eligible: Iterable[Progress], started: Collection[GangId]) -> list[Progress]:
    """Return the gangs that have their minimum and may have more tasks."""
    whole = [progress for progress in eligible if not progress.parts or progress.gang.id in started]
    return [replace(progress, parts=()) for progress in whole if progress.elastic]


def _ids(gangs: Iterable[Progress]) -> frozenset[GangId]:
    return frozenset(progress.gang.id for progress in gangs)
