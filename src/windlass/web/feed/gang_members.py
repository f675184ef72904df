"""The tasks of every gang, and the start of every gang: updated by the tasks that changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.model.jobs import OCCUPYING, GangId, Task, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.web.feed.requested_gpus import RequestedGpus, given_milli
from windlass.web.feed.view import ClusterView, Hardware, changed_tasks

_NO_TASKS: Mapping[TaskId, Task] = {}


class GangMemberIndex:
    """The tasks of every gang in the view that was followed last."""

    def __init__(self) -> None:
        self.running: dict[GangId, int | None] = {}
        """The gangs with tasks on nodes, and the start of the first of these tasks."""
        self.requested: dict[GangId, int] = {}
        """The gangs with waiting tasks, and the GPU thousandths that these tasks request."""
        self.given = 0
        """The GPU thousandths that all gangs have; always the sum of `_given`."""
        self._given: dict[GangId, int] = {}
        self._of: dict[GangId, dict[TaskId, Task]] = {}
        """The tasks by gang; a gang without tasks has no entry."""
        self._before: ClusterView | None = None
        self._requests = RequestedGpus(Hardware({}))
        self._nodes: Mapping[str, Node] = {}

    def follow(self, view: ClusterView) -> None:
        """Update the index to another view; begin anew if its nodes are different."""
        if self._before is None or self._before.hardware is not view.hardware:
            # The amounts are measured by the nodes: with other nodes none of them can be kept.
            self._before, self._nodes = None, view.nodes
            self._requests = RequestedGpus(view.hardware)
            self._of, self.running, self.requested = {}, {}, {}
            self.given, self._given = 0, {}
        changed, gone = changed_tasks(self._before, view)
        touched: set[GangId] = set()
        for task in gone:
            self._of.get(task.gang, {}).pop(task.id, None)
            touched.add(task.gang)
        for task in changed:
            self._of.setdefault(task.gang, {})[task.id] = task
            touched.add(task.gang)
        self._before = view
        for gang in touched:
            self._recount(gang)

    def _recount(self, gang: GangId) -> None:
        """Bring the sums of one gang up to date."""
        placed = self.placed(gang)
        self.given -= self._given.pop(gang, 0)
        nodes = self._nodes
        if milli := sum(given_milli(task, nodes.get(task.node)) for task in placed):
            self._given[gang] = milli
            self.given += milli
        if placed:
            started = [task.started_at for task in placed if task.started_at is not None]
            self.running[gang] = min(started, default=None)
        else:
            self.running.pop(gang, None)
        waiting = self.waiting(gang)
        if waiting:
            self.requested[gang] = self._requests.of(waiting)
        else:
            self.requested.pop(gang, None)
        if not self._of.get(gang):
            self._of.pop(gang, None)

    def of(self, gang: GangId) -> Collection[Task]:
        """Return all tasks of a gang."""
        return self._of.get(gang, _NO_TASKS).values()

    def placed(self, gang: GangId) -> list[Task]:
        """Return the tasks of a gang that are on nodes."""
        return [task for task in self.of(gang) if task.state in OCCUPYING]

    def waiting(self, gang: GangId) -> list[Task]:
        """Return the tasks of a gang that have no node."""
        return [task for task in self.of(gang) if task.state is TaskState.WAITING]
