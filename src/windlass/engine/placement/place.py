"""Placing a gang: all of what must start together, or nothing.

Scopes narrow the nodes: first the gang's own domain, then each group's inside it. For one shape in
a domain the sums of room are exact, so the first scope that has room succeeds; mixed shapes and
neighbours may need another try, at most a few. Every try is an attempt: not kept means undone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from windlass.engine.draft.draft import Draft
from windlass.engine.nodes.bounds import domains_with_room, never
from windlass.engine.nodes.node_index import ShapeIndex
from windlass.engine.nodes.pod_affinity import overlay
from windlass.engine.nodes.score import NOWHERE
from windlass.engine.nodes.topology import Topologies, TopologyLevel
from windlass.engine.placement.nominated import NominatedPlaces
from windlass.engine.placement.turns import hardest_first, largest_first, look_of, one_by_one
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.progress import Progress, TaskBatch
from windlass.model.jobs import Domain, Gang, Shape, Task
from windlass.state.node_columns import Ints
from windlass.state.pod_affinity import Subject, TaskLabels, near_subjects

MOST_TRIES = 8
"""Domains tried per wish before giving up for this cycle."""


class Maker(Protocol):
    """Whoever can make room by displacing others."""

    def clear(
        self, task: Task, kind: ShapeIndex, scope: Ints | None, over: Ints | None
    ) -> int | None:
        """A node on which one more task fits now, or None; what was taken is undone with it."""
        ...

    def room(self, shape: Shape) -> Ints:
        """How many tasks would fit each node with everything gone that can be displaced."""
        ...

    def cheapest(
        self, domains: list[int], level: TopologyLevel, parts: Sequence[TaskBatch]
    ) -> list[int]:
        """The domains, those first in which room costs least."""
        ...


class Placer:
    """Places gangs on a draft."""

    __slots__ = (
        "_by_queue",
        "_draft",
        "_failed",
        "_held",
        "_kind",
        "_limits",
        "_topologies",
        "maker",
    )

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft, self._limits, self._held = draft, limits, NominatedPlaces(draft, limits)
        self._topologies = draft.cluster.recall(Topologies)
        self._failed: set[Hashable] = set()
        self._by_queue = False
        """Did a rule of the gang's queue have a say in the last attempt?"""
        self._kind: ShapeIndex | None = None
        """Of the last task: most tasks of a gang are alike."""
        self.maker: Maker | None = None
        """Makes room where there is none; nobody does while gangs are placed on free room."""

    def may_fit(self, progress: Progress) -> bool:
        """Is room all that the gang lacks: do its queue and the empty cluster allow it?"""
        need = self._limits.need(progress.counts)
        return (
            self._limits.never(progress.gang, need) is None
            and self._limits.now(progress.gang, need) is None
            and never(self._draft.index, self._topologies, progress) is None
        )

    def start(self, progress: Progress) -> bool:
        """Bind what the gang lacks to run, or nothing; what equals a failure is not tried again."""
        alike = self._alike(progress)
        if alike in self._failed or self._held.is_awaited(progress):
            return False
        with self._draft.holds.lifted(progress.gang):
            return self._start(progress, alike)

    def _start(self, progress: Progress, alike: Hashable) -> bool:
        gang = progress.gang
        need = self._limits.need(progress.counts)
        if self._held.take(progress, need):
            return True
        if self._held.are_sought(progress) or self._limits.now(gang, need) is not None:
            return False
        self._by_queue = False
        if not self._is_refused(progress) and self.place(
            gang, progress.parts, progress.nodes, need
        ):
            return True
        if alike is not None and not self._by_queue:
            self._failed.add(alike)
        return False

    def _is_refused(self, progress: Progress) -> bool:
        """Is there too little room for tasks of one shape, wherever they may lie?"""
        for shape, count in progress.counts.items():
            kind = self._draft.index.of(shape)
            if kind.key.min(initial=NOWHERE) >= NOWHERE:
                return True
            if count > 1 and int(kind.room().sum()) < count:
                return True
        return False

    def place(
        self, gang: Gang, parts: Sequence[TaskBatch], nodes: Sequence[str], need: dict[str, int]
    ) -> bool:
        """Bind all tasks of the parts, or none; `nodes` is where the gang runs already."""
        with self._draft.holds.lifted(gang):
            return self._place(gang, parts, nodes, need)

    def _alike(self, progress: Progress) -> Hashable:
        """What decides whether the gang fits; None where its own claims or other tasks do."""
        view = self._draft.holds.view(progress.gang)
        if view is None or self._draft.neighbours.tallies:
            return None
        return view, progress.signature

    def _place(
        self, gang: Gang, parts: Sequence[TaskBatch], nodes: Sequence[str], need: dict[str, int]
    ) -> bool:
        for scope in self._tries(gang, parts, nodes):
            with self._draft.attempt() as keep:
                if self._place_parts(gang, parts, scope):
                    if self._limits.kept(gang, need):
                        keep()
                        return True
                    self._by_queue = True
        return False

    def _tries(
        self, gang: Gang, parts: Sequence[TaskBatch], nodes: Sequence[str]
    ) -> Iterator[Ints | None]:
        """The sets of nodes to try; for one that lost its place, what is near that comes first."""
        if gang.home and not nodes and not self.maker:
            near = self._topologies.around(gang.domain, self._draft.columns.slots_of(gang.home))
            yield from self._scopes(gang.domain, parts, nodes, near)
        yield from self._scopes(gang.domain, parts, nodes, None)
        if gang.domain is None and not nodes and self._draft.neighbours.tallies:
            for label, seekers in self._meetings(gang, parts).items():
                level = self._topologies.of_label(label)
                yield self._with_room(level, seekers)
                yield from self._inside(level, parts, nodes, None)

    def _place_parts(self, gang: Gang, parts: Sequence[TaskBatch], scope: Ints | None) -> bool:
        place = partial(self._place_part, gang, scope)
        return one_by_one(hardest_first(parts), place, partial(self._part_seeks, gang))

    def _place_part(self, gang: Gang, outer: Ints | None, part: TaskBatch) -> bool:
        if part.group.domain is None and not self._part_seeks(gang, part):
            return self._place_tasks(gang, part.tasks, outer)
        for scope in self._scopes(part.group.domain, [part], part.nodes, outer):
            with self._draft.attempt() as keep:
                if self._place_tasks(gang, part.tasks, scope):
                    keep()
                    return True
        return False

    def _place_tasks(self, gang: Gang, tasks: Sequence[Task], scope: Ints | None) -> bool:
        place = partial(self._place_task, gang, scope)
        return one_by_one(largest_first(tasks), place, partial(self._seeks, gang), look_of)

    def _place_task(self, gang: Gang, scope: Ints | None, task: Task) -> bool:
        narrowed = self._limits.narrowed(gang, task.shape)
        self._by_queue |= narrowed is not task.shape
        if narrowed is None:
            return False
        if self._kind is None or self._kind.shape is not narrowed:
            self._kind = self._draft.index.of(narrowed)
        kind = self._kind
        kind.sync()
        slot = self._best(gang, task, kind, scope)
        if slot is None:
            return False
        self._draft.bind(task, gang, slot, kind)
        return True

    def _part_seeks(self, gang: Gang, part: TaskBatch) -> bool:
        return bool(self._draft.neighbours.tallies) and any(
            self._seeks(gang, task) for task in part.tasks
        )

    def _seeks(self, gang: Gang, task: Task) -> bool:
        """Must a task be near others than its like? They may be of its gang, and come first."""
        subjects = near_subjects(task.shape.constraints, gang.namespace)
        return bool(subjects) and not self._is_like(gang, task, subjects[0])

    def _is_like(self, gang: Gang, task: Task, subject: Subject) -> bool:
        neighbours = self._draft.neighbours
        return neighbours.tallies[subject] in neighbours.matching(
            TaskLabels(task.labels, gang.namespace)
        )

    def _meetings(self, gang: Gang, parts: Sequence[TaskBatch]) -> dict[str, set[Shape]]:
        """In the domains of which labels members seek others of their gang, and their shapes."""
        tasks = {(task.shape, task.labels): task for part in parts for task in part.tasks}.values()
        found: dict[str, set[Shape]] = {}
        for task in tasks:
            if self._seeks(gang, task):
                for subject in near_subjects(task.shape.constraints, gang.namespace):
                    if any(self._is_like(gang, other, subject) for other in tasks):
                        found.setdefault(subject.topology_key, set()).add(task.shape)
        return found

    def _with_room(self, level: TopologyLevel, shapes: Iterable[Shape]) -> Ints:
        """The nodes of domains in which there is room for a task of each shape: who is sought by
        them had better go there."""
        room = self.maker.room if self.maker else self._room
        enough = np.ones(len(level.members) + 1, np.bool_)
        enough[-1] = False  # of nodes in no domain
        for shape in shapes:
            enough[:-1] &= level.sums(room(shape), None) > 0
        return np.flatnonzero(enough[level.domain_of])

    def _best(self, gang: Gang, task: Task, kind: ShapeIndex, scope: Ints | None) -> int | None:
        """The node with the lowest key; None if none fits."""
        key, draft, over = kind.key, self._draft, None
        if draft.neighbours.tallies:
            over = overlay(draft.neighbours, draft.index, task, gang)
            key = key if over is None else key + over
        if not key.size or (scope is not None and not scope.size):
            return None
        slot = int(key.argmin()) if scope is None else int(scope[key[scope].argmin()])
        if key[slot] < NOWHERE:
            return slot
        return self.maker.clear(task, kind, scope, over) if self.maker else None

    def _scopes(
        self,
        wish: Domain | None,
        parts: Sequence[TaskBatch],
        nodes: Sequence[str],
        outer: Ints | None,
    ) -> Iterator[Ints | None]:
        """The sets of nodes to try, best first; members that run already pin the domain."""
        if wish is None:
            yield outer
            return
        for level in self._topologies.levels(wish):
            yield from self._inside(level, parts, nodes, outer)
        if not wish.required:
            yield outer

    def _inside(
        self,
        level: TopologyLevel,
        parts: Sequence[TaskBatch],
        nodes: Sequence[str],
        outer: Ints | None,
    ) -> Iterator[Ints]:
        """The nodes of each domain that has room, a few of them."""
        room = self.maker.room if self.maker else self._room
        found = domains_with_room(room, self._topologies, level, parts, outer)
        found = _pinned(found, level, self._draft.columns.slots_of(nodes))
        if self.maker:
            found = self.maker.cheapest(found, level, parts)
        for domain in _few(found):
            members = level.members[domain]
            yield members if outer is None else np.intersect1d(members, outer)

    def _room(self, shape: Shape) -> Ints:
        return self._draft.index.of(shape).room()


def _few(domains: list[int]) -> list[int]:
    """The tightest, and last the roomiest, which is the likeliest to hold a mixed gang."""
    if len(domains) <= MOST_TRIES:
        return domains
    return [*domains[: MOST_TRIES - 1], domains[-1]]


def _pinned(domains: list[int], level: TopologyLevel, slots: list[int]) -> list[int]:
    if not slots:
        return domains
    theirs = {int(level.domain_of[slot]) for slot in slots}
    return [domain for domain in domains if theirs == {domain}]
