"""Every GPU and what is on it, as columns that follow the cluster.

What a task has stands in the same rows for as long as it has it, so that a later document differs
from an earlier one only where the cluster does. Numbers that point from one table into another are
written last, when all rows have their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import is_not
from typing import Any

from windlass.model.jobs import OCCUPYING, Gang, GangId, Task, TaskId, TaskState
from windlass.web.documents.device_runs import places, runs_of
from windlass.web.documents.map_nodes import NOWHERE, MapNodes, is_same_ground, lay_out
from windlass.web.documents.row_table import Table
from windlass.web.documents.tree import in_order
from windlass.web.feed.view import ClusterView, changed_tasks
from windlass.web.schema.documents import ClusterDocument
from windlass.web.schema.map_columns import AllocationColumns, GangColumns, HoldColumns, TaskColumns


def cluster_document(look: ClusterView) -> ClusterDocument:
    """The whole map of one moment."""
    return GpuMap().document(look)


class GpuMap:
    """Remembers the map that it drew last, and draws the next by what has changed."""

    def __init__(self) -> None:
        self._before: ClusterView | None = None
        self._ground = NOWHERE
        self._tasks = Table[TaskId](3)
        """Gang, started, leaving."""
        self._given = Table[str](6)
        """Task, GPU, count, milli, left, width of each run of a task."""
        self._gangs = Table[GangId](5)
        """Job, queue, user, namespace, priority."""
        self._runs = Counter[TaskId]()
        self._members = Counter[GangId]()

    def document(self, look: ClusterView) -> ClusterDocument:
        """The map as it is now; a moment earlier than the last one is not asked for."""
        if self._before is not None and is_same_ground(self._before, look):
            changed, gone = changed_tasks(self._before, look)
            for task in gone:
                self._lift(task.id)
            for task in changed:
                self._set_down(task, look)
        else:
            self._before = None  # GPUs have other numbers now
            self._ground = lay_out(look)
            self._set_down_all(look)
        self._follow_gangs(look)
        self._before = look
        return self._drawn(look)

    def _set_down_all(self, look: ClusterView) -> None:
        """At once, which is several times quicker than one after the other."""
        first = self._ground.first
        there = [task for task in look.tasks.values() if _is_there(task) and task.node in first]
        self._tasks.fill(
            [task.id for task in there],
            [task.gang for task in there],
            [_times(task)[0] for task in there],
            [_times(task)[1] for task in there],
        )
        keys: list[str] = []
        columns = [list[Any]() for _ in range(6)]
        for task in there:
            for number, run in enumerate(places(task, look, first[task.node]), 1):
                keys.append(_key(task.id, number))
                for column, value in zip(columns, (task.id, *run), strict=True):
                    column.append(value)
        self._given.fill(keys, *columns)
        self._gangs.fill([], *(list[Any]() for _ in range(5)))
        self._members = Counter(task.gang for task in there)
        self._runs = Counter(self._given.columns[0])

    def _set_down(self, task: Task, look: ClusterView) -> None:
        first = self._ground.first.get(task.node)
        if first is None or not _is_there(task):
            self._lift(task.id)
            return
        if task.id in self._runs and self._gang_of(task.id) != task.gang:
            self._lift(task.id)
        if task.id not in self._runs:
            self._members[task.gang] += 1
        self._tasks.put(task.id, task.gang, *_times(task))
        number = 0
        for number, run in enumerate(places(task, look, first), 1):
            self._given.put(_key(task.id, number), task.id, *run)
        for excess in range(number, self._runs[task.id]):
            self._given.drop(_key(task.id, excess + 1))
        self._runs[task.id] = number

    def _lift(self, task: TaskId) -> None:
        runs = self._runs.pop(task, 0)
        if not runs:
            return
        gang = self._gang_of(task)
        self._members[gang] -= 1
        if not self._members[gang]:
            del self._members[gang]
        self._tasks.drop(task)
        for number in range(runs):
            self._given.drop(_key(task, number + 1))

    def _gang_of(self, task: TaskId) -> GangId:
        return self._tasks.columns[0][self._tasks.at[task]]

    def _follow_gangs(self, look: ClusterView) -> None:
        """Those that have GPUs or are promised some."""
        before = self._before.gangs if self._before else dict[GangId, Gang]()
        shown = {hold.gang for hold in look.plan.holds if hold.gang in look.gangs}
        shown.update(self._members)
        for name in self._gangs.at.keys() - shown:
            self._gangs.drop(name)
        names = self._gangs.keys
        other = map(is_not, map(before.get, names), map(look.gangs.get, names))
        for name in [*compress(names, other), *sorted(shown - self._gangs.at.keys())]:
            gang = look.gangs[name]
            self._gangs.put(name, gang.job, gang.queue, gang.user, gang.namespace, gang.priority)

    def _drawn(self, look: ClusterView) -> ClusterDocument:
        ground = self._ground
        jobs, queues, users, namespaces, priorities = self._gangs.columns
        tree = [queue.name for queue, _ in in_order(look.queues)]
        known = [*tree, *sorted(set(queues) - set(tree))]
        return ClusterDocument(
            stamp=look.stamp,
            queues=known,
            models=ground.models,
            users=sorted(set(users)),
            namespaces=sorted(set(namespaces)),
            domains=ground.domains,
            racks=ground.racks,
            nodes=ground.nodes,
            gangs=GangColumns(
                name=list(self._gangs.keys),
                job=jobs.copy(),
                queue=_numbered(queues, known),
                user=_numbered(users, sorted(set(users))),
                namespace=_numbered(namespaces, sorted(set(namespaces))),
                priority=priorities.copy(),
            ),
            tasks=self._tasks_drawn(),
            given=self._given_drawn(),
            held=self._held_drawn(look),
            unhealthy=ground.unhealthy,
            utilisation=_measured(look, ground),
        )

    def _tasks_drawn(self) -> TaskColumns:
        gangs, started, leaving = self._tasks.columns
        return TaskColumns(
            name=list(self._tasks.keys),
            gang=list(map(self._gangs.at.__getitem__, gangs)),
            started=started.copy(),
            leaving=leaving.copy(),
        )

    def _given_drawn(self) -> AllocationColumns:
        tasks, gpu, count, milli, left, width = self._given.columns
        return AllocationColumns(
            gpu=gpu.copy(),
            count=count.copy(),
            task=list(map(self._tasks.at.__getitem__, tasks)),
            milli=milli.copy(),
            left=left.copy(),
            width=width.copy(),
        )

    def _held_drawn(self, look: ClusterView) -> HoldColumns:
        first = self._ground.first
        held = HoldColumns([], [], [], [], [])
        for hold in look.plan.holds:
            for claim in hold.claims if hold.gang in self._gangs.at else ():
                for each, count in (
                    runs_of(claim.devices) if claim.devices and claim.node in first else ()
                ):
                    held.gpu.append(first[claim.node] + each.device)
                    held.count.append(count)
                    held.gang.append(self._gangs.at[hold.gang])
                    held.milli.append(each.milli)
                    held.later.append(int(hold.starts_at > look.now))
        return held


def _numbered(names: Iterable[str], of: Sequence[str]) -> list[int]:
    number = {name: at for at, name in enumerate(of)}
    return list(map(number.__getitem__, names))


def _measured(look: ClusterView, ground: MapNodes) -> list[int]:
    """Per GPU; empty where nothing is measured at all."""
    measured = look.beside.utilisation
    if not measured:
        return []
    found: list[int] = []
    for name, gpus in zip(ground.nodes.name, ground.nodes.gpus, strict=True):
        told = list(measured.get(name, ()))[:gpus]
        found += told + [-1] * (gpus - len(told))
    return found


def _key(task: TaskId, run: int) -> str:
    """Names a run of a task; most tasks have one."""
    return task if run == 1 else f"{task}\0{run}"


def _is_there(task: Task) -> bool:
    return bool(task.devices) and task.state in OCCUPYING


def _times(task: Task) -> tuple[int, int]:
    """When it started, and whether it is leaving."""
    started = -1 if task.started_at is None else task.started_at
    return started, int(task.state is TaskState.RELEASING)
