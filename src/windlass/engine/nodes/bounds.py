"""Upper bounds of room: proofs that a gang cannot fit, cheapest first, without a search.

Room is summed over nodes, per shape and per domain. Where a sum is too small no arrangement exists;
where it is large enough there may still be none. Against the empty cluster a proof means "never",
against the cluster as it is now it means "not now".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from windlass.engine.nodes.node_index import NodeIndex
from windlass.engine.nodes.topology import Topologies, TopologyLevel
from windlass.engine.queueing import Progress, TaskBatch
from windlass.model.jobs import Domain, Shape
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import describe
from windlass.state.node_columns import Ints

Room: TypeAlias = Callable[[Shape], Ints]
"""Returns the number of tasks of a shape that fit each node."""


def why_never(index: NodeIndex, topologies: Topologies, progress: Progress) -> Reason | None:
    """Return why not even an empty cluster could run the gang; None if no sum proves it."""
    room = index.room_when_empty
    for shape, count in progress.counts.items():
        total = int(room(shape).sum())
        if total == 0:
            return Reason(ReasonCode.NEVER_NODE, {"shape": describe(shape.request)})
        if total < count:
            values = {"need": count, "shape": describe(shape.request), "room": total}
            return Reason(ReasonCode.NEVER_ROOM, values)
    return _no_domain(room, topologies, progress, ReasonCode.NEVER_DOMAIN)


def why_not_now(index: NodeIndex, topologies: Topologies, progress: Progress) -> Reason | None:
    """Return why the cluster cannot run the gang now; None if no sum proves it."""

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
    """Return the domains that may have room for the parts, tightest first.

    Exact for tasks of one shape; an upper bound for mixed shapes. `scope` restricts the nodes.
    """
    parts = list(parts)
    enough = np.ones(len(level.members), np.bool_)
    tightness: Ints = np.zeros(len(level.members), np.int64)
    for shape, count in _counts(parts).items():
        sums = level.sums(room(shape), scope)
        enough &= sums >= count
        tightness += sums
    for count, places in _room_for_groups(room, topologies, level, parts, scope):
        enough &= places >= count
    domains = np.flatnonzero(enough)
    return domains[np.argsort(tightness[domains], kind="stable")].tolist()


def _room_for_groups(
    room: Room,
    topologies: Topologies,
    level: TopologyLevel,
    parts: list[TaskBatch],
    scope: Ints | None,
) -> Iterable[tuple[int, Ints]]:
    """Yield, for groups that need a narrower domain, their number and how many each domain fits.

    Groups with the same wish, shape and size are counted together.
    """
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
            # The outer domain of each inner domain, by its first node; -1 if it has none.
            outer = np.array([level.domain_of[nodes[0]] for nodes in inner.members], np.int64)
            inside = inner.domain_of >= 0
            if (outer[inner.domain_of[inside]] != level.domain_of[inside]).any():
                continue  # not nested: the inner domains do not add up to outer ones
            whole = inner.sums(room(shape), scope) // size
            places = np.bincount(outer + 1, weights=whole, minlength=len(level.members) + 1)
            yield count, places[1:].astype(np.int64)


def _no_domain(
    room: Room, topologies: Topologies, progress: Progress, why: ReasonCode
) -> Reason | None:
    """Return why no required domain, of the gang or of a group, has enough room."""
    wishes = [(progress.gang.domain, list(progress.parts))]
    wishes += [(part.group.domain, [part]) for part in progress.parts]
    for wish, parts in wishes:
        if wish is None or not wish.required:
            continue
        level = topologies.level(wish.topology, wish.level)
        if level is None:
            return Reason(why, {"need": _size(parts), "level": wish.level, "room": 0})
        if not domains_with_room(room, topologies, level, parts, None):
            best = _most_tasks(room, level, parts)
            return Reason(why, {"need": _size(parts), "level": wish.level, "room": best})
    return None


def _most_tasks(room: Room, level: TopologyLevel, parts: list[TaskBatch]) -> int:
    """Return how many of the tasks the best domain has room for."""
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
