"""Proofs that a gang cannot fit, cheapest first, without a search.

Room is summed over nodes, per shape and per domain. Where a sum falls short no arrangement exists;
where it suffices one may still be lacking. Against the empty cluster the answer is "never",
against the cluster as it stands it is "not now".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from windlass.engine.nodes.node_index import NodeIndex
from windlass.engine.nodes.topology import Topologies, TopologyLevel
from windlass.engine.queueing.progress import Progress, TaskBatch
from windlass.model.jobs import Domain, Shape
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import describe
from windlass.state.node_columns import Ints

Room: TypeAlias = Callable[[Shape], Ints]
"""How many tasks of a shape fit each node."""


def never(index: NodeIndex, topologies: Topologies, progress: Progress) -> Reason | None:
    """Why not even an empty cluster could run the gang, if so."""
    room = index.room_when_empty
    for shape, count in progress.counts.items():
        total = int(room(shape).sum())
        if total == 0:
            return Reason(ReasonCode.NEVER_NODE, {"shape": describe(shape.request)})
        if total < count:
            values = {"need": count, "shape": describe(shape.request), "room": total}
            return Reason(ReasonCode.NEVER_ROOM, values)
    return _no_domain(room, topologies, progress, ReasonCode.NEVER_DOMAIN)


def not_now(index: NodeIndex, topologies: Topologies, progress: Progress) -> Reason | None:
    """Why the cluster as it stands cannot run the gang, if sums prove it."""

    def room(shape: Shape) -> Ints:
        return index.of(shape).room()

    for shape, count in progress.counts.items():
        total = int(room(shape).sum())
        if total < count:
            values = {"need": count, "shape": describe(shape.request), "room": total}
            return Reason(ReasonCode.NO_ROOM, values)
    return _no_domain(room, topologies, progress, ReasonCode.NO_DOMAIN)


def domains_with_room(
    room: Room,
    topologies: Topologies,
    level: TopologyLevel,
    parts: Iterable[TaskBatch],
    scope: Ints | None,
) -> list[int]:
    """The domains that could hold the parts, tightest first; exact for tasks of one shape."""
    parts = list(parts)
    enough = np.ones(len(level.members), np.bool_)
    tightness: Ints = np.zeros(len(level.members), np.int64)
    for shape, count in _counts(parts).items():
        sums = level.sums(room(shape), scope)
        enough &= sums >= count
        tightness += sums
    for count, places in _sub_domains(room, topologies, level, parts, scope):
        enough &= places >= count
    found = np.flatnonzero(enough)
    return found[np.argsort(tightness[found], kind="stable")].tolist()


def _sub_domains(
    room: Room,
    topologies: Topologies,
    level: TopologyLevel,
    parts: list[TaskBatch],
    scope: Ints | None,
) -> Iterable[tuple[int, Ints]]:
    """For equal sub-groups that each need a domain of their own level: how many each domain has
    room for."""
    groups: dict[tuple[Domain, Shape, int], int] = {}
    for part in parts:
        wish = part.group.domain
        shapes = {task.shape for task in part.tasks}
        if wish is not None and wish.required and len(shapes) == 1:
            key = (wish, next(iter(shapes)), len(part.tasks))
            groups[key] = groups.get(key, 0) + 1
    for (wish, shape, size), count in groups.items():
        inner = topologies.level(wish.topology, wish.level)
        if inner is not None and inner.members:
            outer = np.array([level.domain_of[nodes[0]] for nodes in inner.members], np.int64)
            there = inner.domain_of >= 0
            if (outer[inner.domain_of[there]] != level.domain_of[there]).any():
                continue  # not nested: the inner domains do not add up to outer ones
            whole = inner.sums(room(shape), scope) // size
            places = np.bincount(outer + 1, weights=whole, minlength=len(level.members) + 1)
            yield count, places[1:].astype(np.int64)


def _no_domain(
    room: Room, topologies: Topologies, progress: Progress, why: ReasonCode
) -> Reason | None:
    wishes = [(progress.gang.domain, list(progress.parts))]
    wishes += [(part.group.domain, [part]) for part in progress.parts]
    for wish, parts in wishes:
        if wish is None or not wish.required:
            continue
        level = topologies.level(wish.topology, wish.level)
        if level is None:
            return Reason(why, {"need": _size(parts), "level": wish.level, "room": 0})
        if not domains_with_room(room, topologies, level, parts, None):
            best = _best(room, level, parts)
            return Reason(why, {"need": _size(parts), "level": wish.level, "room": best})
    return None


def _best(room: Room, level: TopologyLevel, parts: list[TaskBatch]) -> int:
    """How many of the tasks the best domain has room for."""
    holds = np.zeros(len(level.members), np.int64)
    for shape, count in _counts(parts).items():
        holds += np.minimum(level.sums(room(shape), None), count)
    return int(holds.max()) if holds.size else 0


def _counts(parts: Iterable[TaskBatch]) -> dict[Shape, int]:
    counts: dict[Shape, int] = {}
    for part in parts:
        for task in part.tasks:
            counts[task.shape] = counts.get(task.shape, 0) + 1
    return counts


def _size(parts: Iterable[TaskBatch]) -> int:
    return sum(len(part.tasks) for part in parts)
