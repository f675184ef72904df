"""Elastic growth: tasks above the minimum join one at a time, in the order of fairness."""

from __future__ import annotations

from dataclasses import replace

from windlass.engine.draft import Draft
from windlass.engine.order import Order
from windlass.engine.place import Placer
from windlass.engine.progress import Part, Progress
from windlass.model.jobs import GangId


def grow(draft: Draft, placer: Placer, line: Order) -> dict[GangId, int]:
    """Let running gangs grow while there is room; answers by how many tasks each grew."""
    grown: dict[GangId, int] = {}
    nodes = _nodes_bound(draft)
    while (progress := line.next()) is not None:
        gang, part = progress.gang, progress.elastic[0]
        place = nodes.setdefault(gang.id, [])
        mark = len(draft.binds)
        if placer.start(_join(progress, part, place)):
            line.placed(progress)
            grown[gang.id] = grown.get(gang.id, 0) + 1
            place += [(part.group.name, bind.node) for bind in draft.binds[mark:]]
            rest = progress.elastic[1:]
        else:
            rest = tuple(each for each in progress.elastic if not _alike(each, part))
        if rest:
            line.put_back(replace(progress, elastic=rest, grown=grown.get(gang.id, 0)))
    return grown


def _alike(one: Part, other: Part) -> bool:
    return one.group == other.group and one.tasks[0].shape == other.tasks[0].shape


def _join(progress: Progress, part: Part, bound: list[tuple[str, str]]) -> Progress:
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
