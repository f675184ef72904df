"""Placing one gang: all of the tasks that must start together, or none.

Scopes narrow the nodes: first the gang's own domain, then each group's domain inside it. For tasks
of one shape the sum of room in a domain is exact, so the first scope with enough room succeeds;
mixed shapes and pod affinity may need another try, at most `MOST_TRIES`. Every try is an attempt on
the draft: what is not kept is undone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from windlass.engine.draft import Draft
from windlass.engine.nodes import (
    INFEASIBLE,
    ShapeIndex,
    Topologies,
    TopologyLevel,
    domains_with_room,
    one_by_one,
    overlay,
    placement_traits,
    why_never,
)
from windlass.engine.placement.nominated import NominatedPlaces
from windlass.engine.queueing import Limits, Progress, TaskBatch
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Domain, Gang, Shape, Task
from windlass.state.node_columns import Ints
from windlass.state.pod_affinity import Subject, TaskLabels, affinity_subjects

MOST_TRIES = 8
"""The number of domains that are tried per wish before the gang has to wait for the next cycle."""


class RoomMaker(Protocol):
    """Makes room on nodes by evicting others, while a preemptor is placed."""

    def clear(
        self, task: Task, kind: ShapeIndex, scope: Ints | None, over: Ints | None
    ) -> int | None:
        """Evict what is needed for one more task; return the slot of the node, None if impossible.

        The evictions are undone with the attempt in which they were made.
        """
        ...

    def room(self, shape: Shape) -> Ints:
        """Return the number of tasks that would fit each node without any possible victim."""
        ...

    def cheapest(
        self, domains: list[int], level: TopologyLevel, parts: Sequence[TaskBatch]
    ) -> list[int]:
        """Return the domains in the order of what making room in them costs, cheapest first."""
        ...


class Placer:
    """Places gangs on a draft."""

    __slots__ = (
        "_draft",
        "_failed",
        "_last_index",
        "_limits",
        "_nominated",
        "_queue_decided",
        "_topologies",
        "room_maker",
    )

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft, self._limits = draft, limits
        self._nominated = NominatedPlaces(draft, limits)
        self._topologies = draft.cluster.recall(Topologies)
        self._failed: set[Hashable] = set()
        """The traits of gangs that did not fit. An equal gang is not tried again by the same
        placer: while gangs are placed on free room, room only shrinks."""
        self._queue_decided = False
        """True if a rule of the gang's queue changed the outcome of the last attempt: then the
        failure says nothing about gangs of other queues."""
        self._last_index: ShapeIndex | None = None
        """The index of the last task's shape: most tasks of a gang are alike."""
        self.room_maker: RoomMaker | None = None
        """Makes room where there is none; None while gangs are placed on free room."""

    def may_fit(self, progress: Progress) -> bool:
        """Return whether room is all that the gang lacks: queue rules and an empty cluster pass."""
        need = self._limits.need(progress.counts)
        return (
            self._limits.why_never(progress.gang, need) is None
            and self._limits.why_not_now(progress.gang, need) is None
            and why_never(self._draft.index, self._topologies, progress) is None
        )

    def start(self, progress: Progress) -> bool:
        """Bind what the gang lacks to run, or nothing; return whether it was bound.

        A gang that equals one that failed before is not tried.
        """
        traits = self._traits(progress)
        if traits in self._failed or self._nominated.must_wait(progress):
            return False
        with self._draft.holds.lifted(progress.gang):
            return self._start(progress, traits)

    def _start(self, progress: Progress, traits: Hashable) -> bool:
        gang = progress.gang
        need = self._limits.need(progress.counts)
        if self._nominated.bind(progress, need):
            return True
        if (
            self._nominated.are_required(progress)
            or self._limits.why_not_now(gang, need) is not None
        ):
            return False
        self._queue_decided = False
        if not self._lacks_room(progress) and self.place(
            gang, progress.parts, progress.nodes, need
        ):
            return True
        if traits is not None and not self._queue_decided:
            self._failed.add(traits)
        return False

    def _lacks_room(self, progress: Progress) -> bool:
        """Return whether the whole cluster has too little room for the tasks of one shape."""
        for shape, count in progress.counts.items():
            index = self._draft.index.of(shape)
            if index.key.min(initial=INFEASIBLE) >= INFEASIBLE:
                return True
            if count > 1 and int(index.room().sum()) < count:
                return True
        return False

    def place(
        self, gang: Gang, parts: Sequence[TaskBatch], nodes: Sequence[str], need: dict[str, int]
    ) -> bool:
        """Bind all tasks of the parts, or none; return whether they were bound.

        `nodes` are those on which members of the gang run already.
        """
        with self._draft.holds.lifted(gang):
            for scope in self._gang_scopes(gang, parts, nodes):
                with self._draft.attempt() as keep:
                    if self._place_parts(gang, parts, scope):
                        if self._limits.rules_hold(gang, need):
                            keep()
                            return True
                        self._queue_decided = True
        return False

    def _traits(self, progress: Progress) -> Hashable:
        """Return what decides whether the gang fits; None where its holds or other tasks do."""
        view = self._draft.holds.view(progress.gang)
        if view is None or self._draft.neighbours.tallies:
            return None
        return view, progress.signature

    # -- from the gang to its tasks

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
        place, seeks = partial(self._place_task, gang, scope), partial(self._seeks, gang)
        return one_by_one(largest_first(tasks), place, seeks, placement_traits)

    def _place_task(self, gang: Gang, scope: Ints | None, task: Task) -> bool:
        narrowed = self._limits.narrowed(gang, task.shape)
        self._queue_decided |= narrowed is not task.shape
        if narrowed is None:
            return False
        if self._last_index is None or self._last_index.shape is not narrowed:
            self._last_index = self._draft.index.of(narrowed)
        index = self._last_index
        index.sync()
        slot = self._best_slot(gang, task, index, scope)
        if slot is None:
            return False
        self._draft.bind(task, gang, slot, index)
        return True

    def _best_slot(
        self, gang: Gang, task: Task, index: ShapeIndex, scope: Ints | None
    ) -> int | None:
        """Return the slot of the node with the lowest key; None if no node fits."""
        key, draft, over = index.key, self._draft, None
        if draft.neighbours.tallies:
            over = overlay(draft.neighbours, draft.index, task, gang)
            key = key if over is None else key + over
        if not key.size or (scope is not None and not scope.size):
            return None
        slot = int(key.argmin()) if scope is None else int(scope[key[scope].argmin()])
        if key[slot] < INFEASIBLE:
            return slot
        return self.room_maker.clear(task, index, scope, over) if self.room_maker else None

    # -- the nodes to try

    def _gang_scopes(
        self, gang: Gang, parts: Sequence[TaskBatch], nodes: Sequence[str]
    ) -> Iterator[Ints | None]:
        """Yield the sets of nodes to try for a gang; None stands for all nodes.

        A gang that lost its place is first tried near it. If members have pod affinity to other
        members, the domains in which they could meet come last.
        """
        if gang.home and not nodes and not self.room_maker:
            near = self._topologies.around(gang.domain, self._draft.columns.slots_of(gang.home))
            yield from self._scopes(gang.domain, parts, nodes, near)
        yield from self._scopes(gang.domain, parts, nodes, None)
        if gang.domain is None and not nodes and self._draft.neighbours.tallies:
            for label, dependents in self._affinity_inside(gang, parts).items():
                level = self._topologies.of_label(label)
                yield self._nodes_with_room(level, dependents)
                yield from self._domain_scopes(level, parts, nodes, None)

    def _scopes(
        self,
        wish: Domain | None,
        parts: Sequence[TaskBatch],
        nodes: Sequence[str],
        outer: Ints | None,
    ) -> Iterator[Ints | None]:
        """Yield the sets of nodes inside `outer` to try for a wish, best first."""
        if wish is None:
            yield outer
            return
        for level in self._topologies.levels(wish):
            yield from self._domain_scopes(level, parts, nodes, outer)
        if not wish.required:
            yield outer

    def _domain_scopes(
        self,
        level: TopologyLevel,
        parts: Sequence[TaskBatch],
        nodes: Sequence[str],
        outer: Ints | None,
    ) -> Iterator[Ints]:
        """Yield the nodes of a few domains that have room.

        Members that run already, on `nodes`, pin the domain.
        """
        room = self.room_maker.room if self.room_maker else self._room
        domains = domains_with_room(room, self._topologies, level, parts, outer)
        domains = _pinned(domains, level, self._draft.columns.slots_of(nodes))
        if self.room_maker:
            domains = self.room_maker.cheapest(domains, level, parts)
        for domain in _few(domains):
            members = level.members[domain]
            yield members if outer is None else np.intersect1d(members, outer)

    def _room(self, shape: Shape) -> Ints:
        return self._draft.index.of(shape).room()

    # -- pod affinity between members of the gang

    def _part_seeks(self, gang: Gang, part: TaskBatch) -> bool:
        return bool(self._draft.neighbours.tallies) and any(
            self._seeks(gang, task) for task in part.tasks
        )

    def _seeks(self, gang: Gang, task: Task) -> bool:
        """Return whether a task requires affinity to pods other than its like.

        They may be members of its gang, and must then be placed before it.
        """
        subjects = affinity_subjects(task.shape.constraints, gang.namespace)
        return bool(subjects) and not self._matches(gang, task, subjects[0])

    def _matches(self, gang: Gang, task: Task, subject: Subject) -> bool:
        neighbours = self._draft.neighbours
        return neighbours.tallies[subject] in neighbours.matching(
            TaskLabels(task.labels, gang.namespace)
        )

    def _affinity_inside(self, gang: Gang, parts: Sequence[TaskBatch]) -> dict[str, set[Shape]]:
        """Return the topology keys of affinity between members, with the dependents' shapes."""
        tasks = {(task.shape, task.labels): task for part in parts for task in part.tasks}.values()
        dependents: dict[str, set[Shape]] = {}
        for task in tasks:
            if self._seeks(gang, task):
                for subject in affinity_subjects(task.shape.constraints, gang.namespace):
                    if any(self._matches(gang, other, subject) for other in tasks):
                        dependents.setdefault(subject.topology_key, set()).add(task.shape)
        return dependents

    def _nodes_with_room(self, level: TopologyLevel, shapes: Iterable[Shape]) -> Ints:
        """Return the nodes in domains where every dependent shape fits.

        Affinity targets are placed there first, so that their dependents can follow.
        """
        room = self.room_maker.room if self.room_maker else self._room
        # One entry per domain, and a last one for nodes in no domain, whose number is -1.
        enough = np.ones(len(level.members) + 1, np.bool_)
        enough[-1] = False
        for shape in shapes:
            enough[:-1] &= level.sums(room(shape), None) > 0
        return np.flatnonzero(enough[level.domain_of])


def hardest_first(parts: Sequence[TaskBatch]) -> list[TaskBatch]:
    """Return groups with a domain first, then large requests, then groups of many tasks."""
    if len(parts) == 1:
        return list(parts)
    return sorted(parts, key=_part_order)


def largest_first(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return tasks that name a GPU model first, then by GPUs and CPUs, the largest first.

    Tasks of one shape stay in their order.
    """
    if len(tasks) == 1 or all(task.shape is tasks[0].shape for task in tasks):
        return tasks
    return sorted(tasks, key=_task_size, reverse=True)


def _part_order(part: TaskBatch) -> tuple[bool, int, int, str]:
    gpu = part.tasks[0].shape.request.gpu
    return part.group.domain is None, -_milli(gpu), -len(part.tasks), part.group.name


def _task_size(task: Task) -> tuple[bool, int, int]:
    gpu = task.shape.request.gpu
    return bool(gpu and gpu.models), _milli(gpu), task.shape.request.cpu_milli


def _milli(gpu: GpuRequest | None) -> int:
    """Return the requested thousandths of GPUs.

    For memory and MIG instances they depend on the device; these fit beside others, so they count
    as almost nothing and are placed last.
    """
    if gpu is None:
        return 0
    return gpu.count if gpu.memory_mib or gpu.profile else gpu.count * gpu.milli


def _few(domains: list[int]) -> list[int]:
    """Return the tightest domains, and last the roomiest: it most likely fits a mixed gang."""
    if len(domains) <= MOST_TRIES:
        return domains
    return [*domains[: MOST_TRIES - 1], domains[-1]]


def _pinned(domains: list[int], level: TopologyLevel, slots: list[int]) -> list[int]:
    """Return the domains that contain all given slots; all domains if there are no slots."""
    if not slots:
        return domains
    occupied = {int(level.domain_of[slot]) for slot in slots}
    return [domain for domain in domains if occupied == {domain}]
