"""Every GPU and the task on it, as columns that follow the cluster.

The allocation of a task keeps its rows for as long as the task has it, so that two documents differ
only where the cluster does and the delta between them is small.

`GpuMap` follows the whole cluster and draws any view of it. All names in a document come from the
view that is drawn: a gang that is not in it keeps its GPUs on the map and loses everything else.
All such gangs of one queue are drawn as one gang without a name, with one task without a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress
from operator import is_not
from typing import Any, TypeVar, cast

from windlass.model.jobs import OCCUPYING, Gang, GangId, Task, TaskId, TaskState
from windlass.web.documents.device_runs import places, runs_of
from windlass.web.documents.map_nodes import (
    NO_NODES,
    MapNodes,
    has_same_layout,
    lay_out,
)
from windlass.web.documents.queues import in_tree_order
from windlass.web.documents.row_table import RowTable
from windlass.web.feed import ClusterView, changed_tasks
from windlass.web.schema import (
    AllocationColumns,
    ClusterDocument,
    GangColumns,
    HoldColumns,
    TaskColumns,
)

NO_NAME = ""
Columns = TypeVar("Columns", AllocationColumns, HoldColumns)


def cluster_document(view: ClusterView) -> ClusterDocument:
    """Return the map of one whole view."""
    gpu_map = GpuMap()
    gpu_map.follow(view)
    return gpu_map.draw(view)


class GpuMap:
    """The rows of the map at the moment that was followed last; updated by what has changed."""

    def __init__(self) -> None:
        self._before: ClusterView | None = None
        """The view that the rows describe; None before the first."""
        self._layout = NO_NODES
        self._tasks = RowTable[TaskId](3)
        """The columns: gang, started, leaving."""
        self._given = RowTable[str](6)
        """A row per run of a task, with the columns: task, GPU, count, milli, left, width."""
        self._gangs = RowTable[GangId](5)
        """The columns: job, queue, user, namespace, priority."""
        # Invariant: `_runs` has exactly the tasks in `_tasks`, `_members` exactly their gangs.
        self._runs = Counter[TaskId]()
        self._members = Counter[GangId]()

    # -- following

    def follow(self, view: ClusterView) -> None:
        """Bring all rows up to another view of the whole cluster."""
        if self._before is view:
            return
        if self._before is not None and has_same_layout(self._before, view):
            changed, gone = changed_tasks(self._before, view)
            for task in gone:
                self._remove(task.id)
            for task in changed:
                self._put(task, view)
        else:
            self._before = None  # GPUs have other numbers now
            self._layout = lay_out(view)
            self._put_all(view)
        self._follow_gangs(view)
        self._before = view

    def _put_all(self, view: ClusterView) -> None:
        """Write the rows of all tasks at once, several times faster than one after the other."""
        first = self._layout.first
        placed = [task for task in view.tasks.values() if _has_gpus(task) and task.node in first]
        self._tasks.fill(
            [task.id for task in placed],
            [task.gang for task in placed],
            [_times(task)[0] for task in placed],
            [_times(task)[1] for task in placed],
        )
        keys: list[str] = []
        columns = [list[Any]() for _ in range(6)]
        for task in placed:
            for number, run in enumerate(places(task, view, first[task.node]), 1):
                keys.append(_key(task.id, number))
                for column, value in zip(columns, (task.id, *run), strict=True):
                    column.append(value)
        self._given.fill(keys, *columns)
        self._gangs.fill([], *(list[Any]() for _ in range(5)))
        self._members = Counter(task.gang for task in placed)
        self._runs = Counter(self._given.columns[0])

    def _put(self, task: Task, view: ClusterView) -> None:
        first = self._layout.first.get(task.node)
        if first is None or not _has_gpus(task):
            self._remove(task.id)
            return
        if task.id in self._runs and self._gang_of(task.id) != task.gang:
            self._remove(task.id)
        if task.id not in self._runs:
            self._members[task.gang] += 1
        self._tasks.put(task.id, task.gang, *_times(task))
        number = 0
        for number, run in enumerate(places(task, view, first), 1):
            self._given.put(_key(task.id, number), task.id, *run)
        for excess in range(number, self._runs[task.id]):
            self._given.drop(_key(task.id, excess + 1))
        self._runs[task.id] = number

    def _remove(self, task: TaskId) -> None:
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

    def _follow_gangs(self, view: ClusterView) -> None:
        """Write the rows of the gangs that have GPUs or hold some."""
        before = self._before.gangs if self._before else dict[GangId, Gang]()
        shown = {hold.gang for hold in view.plan.holds if hold.gang in view.gangs}
        shown.update(self._members)
        for name in self._gangs.at.keys() - shown:
            self._gangs.drop(name)
        names = self._gangs.keys
        changed = map(is_not, map(before.get, names), map(view.gangs.get, names))
        for name in [*compress(names, changed), *sorted(shown - self._gangs.at.keys())]:
            gang = view.gangs[name]
            self._gangs.put(name, gang.job, gang.queue, gang.user, gang.namespace, gang.priority)

    # -- drawing

    def draw(self, view: ClusterView) -> ClusterDocument:
        """Return the map of the view that was followed last, or of one redacted from it."""
        whole = self._before
        assert whole is not None, "follow a view before drawing one"
        owners = self._owners() if view.is_whole else self._redacted_owners(view)
        layout = self._layout if view.has_all_nodes else lay_out(view, _nodes_with_gpus(view))
        tree = [queue.name for queue, _ in in_tree_order(view.queues)]
        queues = [*tree, *sorted(set(owners.queues) - set(tree))]
        users, namespaces = sorted(set(owners.users)), sorted(set(owners.namespaces))
        given, held = self._given_columns(owners), self._held_columns(whole, owners)
        if not view.has_all_nodes:
            numbers = _renumbered(self._layout, layout)
            given, held = _renumber(given, numbers), _renumber(held, numbers)
        return ClusterDocument(
            stamp=view.stamp,
            queues=queues,
            models=layout.models,
            users=users,
            namespaces=namespaces,
            domains=layout.domains,
            racks=layout.racks,
            nodes=layout.nodes,
            gangs=GangColumns(
                name=owners.names,
                job=owners.jobs,
                queue=_numbered(owners.queues, queues),
                user=_numbered(owners.users, users),
                namespace=_numbered(owners.namespaces, namespaces),
                priority=owners.priorities,
            ),
            tasks=owners.tasks,
            given=given,
            held=held,
            unhealthy=layout.unhealthy,
            utilisation=_utilisation(view, layout),
        )

    def _owners(self) -> _Owners:
        """Return all gangs and tasks of the whole map, with their names."""
        jobs, queues, users, namespaces, priorities = self._gangs.columns
        task_gangs, started, leaving = self._tasks.columns
        return _Owners(
            names=list(self._gangs.keys),
            jobs=jobs.copy(),
            queues=queues,
            users=users,
            namespaces=namespaces,
            priorities=priorities.copy(),
            tasks=TaskColumns(
                name=list(self._tasks.keys),
                gang=list(map(self._gangs.at.__getitem__, task_gangs)),
                started=started.copy(),
                leaving=leaving.copy(),
            ),
            gang_at=self._gangs.at,
            task_at=self._tasks.at,
        )

    def _redacted_owners(self, view: ClusterView) -> _Owners:
        """Return the gangs and tasks that are in the view; the others have no names and no times.

        One gang without a name stands for all hidden gangs of one visible queue, and one for those
        of all hidden queues.
        """
        owners = _Owners([], [], [], [], [], [], TaskColumns([], [], [], []), {}, {})
        # These loops run over all gangs and tasks for every scope: lookups are kept in locals.
        gang_at, task_at, tasks = owners.gang_at, owners.task_at, view.tasks
        hidden_gang_at: dict[str, int] = {}
        for name, queue_name in zip(self._gangs.keys, self._gangs.columns[1], strict=True):
            gang = view.gangs.get(name)
            if gang is not None:
                row = (name, gang.job, gang.queue, gang.user, gang.namespace, gang.priority)
                gang_at[name] = owners.add_gang(*row)
                continue
            queue = queue_name if queue_name in view.queues else NO_NAME
            if queue not in hidden_gang_at:
                hidden_gang_at[queue] = owners.add_gang("", "", queue, "", "", 0)
            gang_at[name] = hidden_gang_at[queue]
        hidden_task_at: dict[int, int] = {}
        columns = zip(self._tasks.keys, *self._tasks.columns, strict=True)
        for name, gang_name, started, leaving in columns:
            at = gang_at[gang_name]
            if name in tasks:
                task_at[name] = owners.add_task(name, at, started, leaving)
            elif at in hidden_task_at:
                task_at[name] = hidden_task_at[at]
            else:
                task_at[name] = hidden_task_at[at] = owners.add_task(NO_NAME, at, -1, 0)
        return owners

    def _given_columns(self, owners: _Owners) -> AllocationColumns:
        tasks, gpu, count, milli, left, width = self._given.columns
        return AllocationColumns(
            gpu=gpu.copy(),
            count=count.copy(),
            task=list(map(owners.task_at.__getitem__, tasks)),
            milli=milli.copy(),
            left=left.copy(),
            width=width.copy(),
        )

    def _held_columns(self, whole: ClusterView, owners: _Owners) -> HoldColumns:
        first = self._layout.first
        held = HoldColumns([], [], [], [], [])
        for hold in whole.plan.holds:
            for claim in hold.claims if hold.gang in owners.gang_at else ():
                if not claim.devices or claim.node not in first:
                    continue
                for device, count in runs_of(claim.devices):
                    held.gpu.append(first[claim.node] + device.device)
                    held.count.append(count)
                    held.gang.append(owners.gang_at[hold.gang])
                    held.milli.append(device.milli)
                    held.later.append(int(hold.starts_at > whole.now))
        return held


@dataclass(frozen=True, slots=True)
class _Owners:
    """The gangs and tasks of a document, and the row of each gang and task of the whole map."""

    names: list[str]
    jobs: list[str]
    queues: list[str]
    users: list[str]
    namespaces: list[str]
    priorities: list[int]
    tasks: TaskColumns
    gang_at: dict[GangId, int]
    """The row of every gang on the map; several hidden gangs share one."""
    task_at: dict[TaskId, int]
    """The row of every task on the map; several hidden tasks share one."""

    def add_gang(
        self, name: str, job: str, queue: str, user: str, namespace: str, priority: int
    ) -> int:
        self.names.append(name)
        self.jobs.append(job)
        self.queues.append(queue)
        self.users.append(user)
        self.namespaces.append(namespace)
        self.priorities.append(priority)
        return len(self.names) - 1

    def add_task(self, name: str, gang: int, started: int, leaving: int) -> int:
        self.tasks.name.append(name)
        self.tasks.gang.append(gang)
        self.tasks.started.append(started)
        self.tasks.leaving.append(leaving)
        return len(self.tasks.name) - 1


def _nodes_with_gpus(view: ClusterView) -> set[str]:
    """Return the nodes on which gangs of the view have GPUs."""
    return {task.node for task in view.tasks.values() if _has_gpus(task)}


def _renumbered(whole: MapNodes, part: MapNodes) -> Mapping[int, int]:
    """Return the number in the part for the number in the whole of every GPU of the part."""
    return {
        whole.first[name] + device: first + device
        for name, first, gpus in zip(
            part.nodes.name, part.nodes.first, part.nodes.gpus, strict=True
        )
        for device in range(gpus)
    }


def _renumber(columns: Columns, numbers: Mapping[int, int]) -> Columns:
    """Return the rows of GPUs that have a new number, with that number."""
    is_kept = [gpu in numbers for gpu in columns.gpu]
    names = [column.name for column in fields(columns)]
    kept: dict[str, list[int]] = {
        name: list(compress(cast("list[int]", getattr(columns, name)), is_kept)) for name in names
    }
    kept["gpu"] = [numbers[gpu] for gpu in kept["gpu"]]
    return replace(columns, **kept)


def _numbered(names: Iterable[str], of: Sequence[str]) -> list[int]:
    number = {name: at for at, name in enumerate(of)}
    return list(map(number.__getitem__, names))


def _utilisation(view: ClusterView, layout: MapNodes) -> list[int]:
    """Return the measured utilisation of each GPU in thousandths, -1 where it is unknown; an empty
    list if no GPU is measured."""
    measured = view.beside.utilisation
    if not measured:
        return []
    per_gpu: list[int] = []
    for name, gpus in zip(layout.nodes.name, layout.nodes.gpus, strict=True):
        figures = list(measured.get(name, ()))[:gpus]
        per_gpu += figures + [-1] * (gpus - len(figures))
    return per_gpu


def _key(task: TaskId, run: int) -> str:
    """Return the key of one run of a task; most tasks have a single run."""
    return task if run == 1 else f"{task}\0{run}"


def _has_gpus(task: Task) -> bool:
    return bool(task.devices) and task.state in OCCUPYING


def _times(task: Task) -> tuple[int, int]:
    """Return the start of a task, -1 before it, and 1 if the task is leaving."""
    started = -1 if task.started_at is None else task.started_at
    return started, int(task.state is TaskState.RELEASING)
