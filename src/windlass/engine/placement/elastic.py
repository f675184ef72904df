"""Elastic growth: tasks above the minimum join one at a time, in the order of fairness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from windlass.engine.draft.draft import Draft
from windlass.engine.placement.place import Placer
from windlass.engine.queueing.order import GangOrder
from windlass.engine.queueing.progress import Progress, TaskBatch
from windlass.model.jobs import GangId

InTurn: TypeAlias = Callable[[Iterable[Progress]], GangOrder]
"""Puts gangs in line."""
NOT_YET: Mapping[GangId, int] = MappingProxyType({})


def grow_as_held(
    draft: Draft, placer: Placer, growing: Iterable[Progress], in_turn: InTurn
) -> dict[GangId, int]:
    """Let gangs grow for which places are held; whoever seeks room next takes them for gone."""
    grown, _ = grow(draft, placer, in_turn(_held_growth(draft, growing)), as_held=True)
    return grown


def grow(
    draft: Draft,
    placer: Placer,
    line: GangOrder,
    before: Mapping[GangId, int] = NOT_YET,
    as_held: bool = False,
) -> tuple[dict[GangId, int], list[Progress]]:
    """Let running gangs grow while there is room; `before` is by how much they have already.

    Answers by how many tasks each grew, and the gangs that found no room for their next one.
    """
    grown: dict[GangId, int] = dict(before)
    short: dict[GangId, Progress] = {}
    nodes = _nodes_bound(draft)
    while (progress := line.next()) is not None:
        gang, part = progress.gang, progress.elastic[0]
        place = nodes.setdefault(gang.id, [])
        mark = len(draft.binds)
        one_more = _join(progress, part, place)
        if placer.start(one_more):
            line.placed(progress)
            grown[gang.id] = grown.get(gang.id, 0) + 1
            hold = draft.holds.standing.get(gang.id)
            if hold is not None and len(hold.claims) <= grown[gang.id]:
                draft.holds.drop(gang.id)
            place += [(part.group.name, bind.node) for bind in draft.binds[mark:]]
            is_done = as_held and gang.id not in draft.holds.standing
            rest = () if is_done else progress.elastic[1:]
        else:
            short.setdefault(gang.id, one_more)
            rest = tuple(each for each in progress.elastic if not _alike(each, part))
        if rest:
            line.put_back(replace(progress, elastic=rest, grown=grown.get(gang.id, 0)))
    return grown, list(short.values())


def still_growing(
    draft: Draft, growing: Iterable[Progress], grown: Mapping[GangId, int]
) -> Iterator[Progress]:
    """The gangs that may grow more, without the tasks that have joined."""
    joined = {bind.task for bind in draft.binds}
    for each in growing:
        rest = tuple(part for part in each.elastic if part.tasks[0].id not in joined)
        if rest:
            yield replace(each, elastic=rest, grown=grown.get(each.gang.id, 0))


def _held_growth(draft: Draft, growing: Iterable[Progress]) -> Iterator[Progress]:
    """The gangs with held places, and the tasks that ask for what is held: any may be the one."""
    for each in growing:
        hold = draft.holds.standing.get(each.gang.id)
        if hold is not None and hold.firm:
            held = {claim.request for claim in hold.claims}
            some = [part for part in each.elastic if part.tasks[0].shape.request in held]
            if some:
                yield replace(each, elastic=tuple(some))


def _alike(one: TaskBatch, other: TaskBatch) -> bool:
    return one.group == other.group and one.tasks[0].shape == other.tasks[0].shape


def _join(progress: Progress, part: TaskBatch, bound: list[tuple[str, str]]) -> Progress:
    """The gang as it asks for one more task, beside the members bound in this cycle."""
    group = part.group.name
    near = {*part.nodes, *(node for name, node in bound if name == group)}
    everywhere = {*progress.nodes, *(node for _, node in bound)}
    one = replace(part, nodes=tuple(sorted(near)))
    return replace(progress, parts=(one,), elastic=(), nodes=tuple(sorted(everywhere)))


def _nodes_bound(draft: Draft) -> dict[GangId, list[tuple[str, str]]]:
    """Group and node of every task bound in this cycle, per gang."""
    found: dict[GangId, list[tuple[str, str]]] = {}
    for bind in draft.binds:
        task = draft.cluster.tasks[bind.task]
        found.setdefault(task.gang, []).append((task.group, bind.node))
    return found
