"""Elastic growth: tasks above the minimum join one at a time, in queue order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from windlass.engine.draft import Draft
from windlass.engine.placement.place import Placer
from windlass.engine.queueing import GangOrder, Progress, TaskBatch
from windlass.model.jobs import GangId

PutInOrder: TypeAlias = Callable[[Iterable[Progress]], GangOrder]
"""Makes the queue order of some gangs."""
NOTHING_GROWN: Mapping[GangId, int] = MappingProxyType({})


def grow_as_held(
    draft: Draft, placer: Placer, growing: Iterable[Progress], in_order: PutInOrder
) -> dict[GangId, int]:
    """Let gangs grow into places that are held for them; return by how many tasks each grew."""
    grown, _ = grow(draft, placer, in_order(_held_growth(draft, growing)), as_held=True)
    return grown


def grow(
    draft: Draft,
    placer: Placer,
    line: GangOrder,
    before: Mapping[GangId, int] = NOTHING_GROWN,
    as_held: bool = False,
) -> tuple[dict[GangId, int], list[Progress]]:
    """Let running gangs grow by one task at a time while there is room.

    `before` is the number of tasks by which each grew earlier in this cycle; with `as_held` a gang
    stops growing when the places held for it are used up. Return the number of tasks by which each
    gang grew, `before` included, and the gangs that found no room for their next task.
    """
    grown: dict[GangId, int] = dict(before)
    short: dict[GangId, Progress] = {}
    nodes = _nodes_bound(draft)
    while (progress := line.next()) is not None:
        gang, part = progress.gang, progress.elastic[0]
        bound = nodes.setdefault(gang.id, [])
        mark = len(draft.binds)
        one_more = _with_one_more(progress, part, bound)
        if placer.start(one_more):
            line.placed(progress)
            grown[gang.id] = grown.get(gang.id, 0) + 1
            hold = draft.holds.standing.get(gang.id)
            if hold is not None and len(hold.claims) <= grown[gang.id]:
                draft.holds.drop(gang.id)
            bound += [(part.group.name, bind.node) for bind in draft.binds[mark:]]
            is_done = as_held and gang.id not in draft.holds.standing
            rest = () if is_done else progress.elastic[1:]
        else:
            short.setdefault(gang.id, one_more)
            # Tasks like this one would not fit either; others of the gang may.
            rest = tuple(other for other in progress.elastic if not _are_alike(other, part))
        if rest:
            line.put_back(replace(progress, elastic=rest, grown=grown.get(gang.id, 0)))
    return grown, list(short.values())


def still_growing(
    draft: Draft, growing: Iterable[Progress], grown: Mapping[GangId, int]
) -> Iterator[Progress]:
    """Yield the gangs that may grow more, without the tasks that have joined."""
    joined = {bind.task for bind in draft.binds}
    for progress in growing:
        rest = tuple(part for part in progress.elastic if part.tasks[0].id not in joined)
        if rest:
            yield replace(progress, elastic=rest, grown=grown.get(progress.gang.id, 0))


def _held_growth(draft: Draft, growing: Iterable[Progress]) -> Iterator[Progress]:
    """Yield the gangs with held places, with only the tasks whose request a place is held for."""
    for progress in growing:
        hold = draft.holds.standing.get(progress.gang.id)
        if hold is not None and hold.firm:
            held = {claim.request for claim in hold.claims}
            fitting = [part for part in progress.elastic if part.tasks[0].shape.request in held]
            if fitting:
                yield replace(progress, elastic=tuple(fitting))


def _are_alike(one: TaskBatch, other: TaskBatch) -> bool:
    return one.group == other.group and one.tasks[0].shape == other.tasks[0].shape


def _with_one_more(progress: Progress, part: TaskBatch, bound: list[tuple[str, str]]) -> Progress:
    """Return the gang with one more task to place, near the members bound in this cycle too."""
    group = part.group.name
    near = {*part.nodes, *(node for name, node in bound if name == group)}
    everywhere = {*progress.nodes, *(node for _, node in bound)}
    one = replace(part, nodes=tuple(sorted(near)))
    return replace(progress, parts=(one,), elastic=(), nodes=tuple(sorted(everywhere)))


def _nodes_bound(draft: Draft) -> dict[GangId, list[tuple[str, str]]]:
    """Return the group and the node of every task bound in this cycle, per gang."""
    nodes: dict[GangId, list[tuple[str, str]]] = {}
    for bind in draft.binds:
        task = draft.cluster.tasks[bind.task]
        nodes.setdefault(task.gang, []).append((task.group, bind.node))
    return nodes
