"""Pass one: gangs in their order on what is free, around holds and reservations.

A gang for which places are held grows into them here, so that whoever seeks room next takes them
for gone. Who finds no room waits for pass two (`second.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from windlass.engine.draft.draft import Draft
from windlass.engine.placement.elastic import InTurn, grow_as_held, still_growing
from windlass.engine.placement.place import Placer
from windlass.engine.queueing.order import GangOrder
from windlass.engine.queueing.progress import Progress
from windlass.model.jobs import GangId


@dataclass(slots=True)
class Started:
    """What pass one decided."""

    placed: list[Progress]
    gangs: frozenset[GangId]
    """Those that were placed."""
    waiting: list[Progress]
    """Those that found no room, in order."""
    owed: dict[GangId, int]
    """By how many tasks gangs grew for which places were held."""
    growing: list[Progress]
    """Those that have their minimum and may have more."""


def pass_one(draft: Draft, placer: Placer, in_turn: InTurn, ready: Collection[Progress]) -> Started:
    """Place each gang in turn on what is free; those that do not fit wait, in order."""
    placed, waiting = _place(draft, placer, in_turn(each for each in ready if each.parts))
    owed = grow_as_held(draft, placer, _growing(ready, _gangs(placed)), in_turn)
    placed += _seek_again(draft, placer, waiting)
    gangs = _gangs(placed)
    growing = still_growing(draft, _growing(ready, gangs), owed)
    return Started(placed, gangs, waiting, owed, list(growing))


def _place(draft: Draft, placer: Placer, line: GangOrder) -> tuple[list[Progress], list[Progress]]:
    placed: list[Progress] = []
    waiting: list[Progress] = []
    while (gang := line.next()) is not None:
        if placer.start(gang):
            line.placed(gang)
            draft.holds.drop(gang.gang.id)
            placed.append(gang)
        else:
            waiting.append(gang)
    return placed, waiting


def _seek_again(draft: Draft, placer: Placer, waiting: list[Progress]) -> list[Progress]:
    """Take those out of the line whose places are held and now near whom they seek."""
    late: list[Progress] = []
    if not draft.neighbours.tallies:
        return late
    held = [each for each in waiting if draft.holds.is_firm(each.gang.id)]
    while came := {each.gang.id: each for each in held if placer.start(each)}:
        for gang in came:
            draft.holds.drop(gang)
        held = [each for each in held if each.gang.id not in came]
        waiting[:] = [each for each in waiting if each.gang.id not in came]
        late += came.values()
    return late


def _growing(ready: Iterable[Progress], started: Collection[GangId]) -> list[Progress]:
    """The gangs that have their minimum and may have more."""
    whole = [each for each in ready if not each.parts or each.gang.id in started]
    return [replace(each, parts=()) for each in whole if each.elastic]


def _gangs(some: Iterable[Progress]) -> frozenset[GangId]:
    return frozenset(each.gang.id for each in some)
