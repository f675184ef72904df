"""Who belongs to which gang, and since when it runs: kept up by what has changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.model.jobs import OCCUPYING, GangId, Task, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.web.documents.requested_gpus import RequestedGpus, given_milli
from windlass.web.feed.view import ClusterView, Hardware, changed_tasks

_NOBODY: Mapping[TaskId, Task] = {}


class GangMemberIndex:
    """The tasks of every gang at the moment that was followed last."""

    def __init__(self) -> None:
        self.running: dict[GangId, int | None] = {}
        """The gangs with tasks on nodes, and when the first of these started."""
        self.asked: dict[GangId, int] = {}
        """The gangs with tasks that wait, and the GPU thousandths that these ask for."""
        self.given = 0
        """GPU thousandths that all of them have."""
        self._given: dict[GangId, int] = {}
        self._of: dict[GangId, dict[TaskId, Task]] = {}
        self._before: ClusterView | None = None
        self._asked = RequestedGpus(Hardware({}))
        self._nodes: Mapping[str, Node] = {}

    def follow(self, look: ClusterView) -> None:
        """Take note of a later moment."""
        if self._before is None or self._before.hardware is not look.hardware:
            self._before, self._asked, self._nodes = None, RequestedGpus(look.hardware), look.nodes
            self._of, self.running, self.asked = {}, {}, {}
            self.given, self._given = 0, {}
        changed, gone = changed_tasks(self._before, look)
        touched: set[GangId] = set()
        for task in gone:
            self._of.get(task.gang, {}).pop(task.id, None)
            touched.add(task.gang)
        for task in changed:
            self._of.setdefault(task.gang, {})[task.id] = task
            touched.add(task.gang)
        self._before = look
        for gang in touched:
            self._note(gang)

    def _note(self, gang: GangId) -> None:
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
            self.asked[gang] = self._asked.of(waiting)
        else:
            self.asked.pop(gang, None)
        if not self._of.get(gang):
            self._of.pop(gang, None)

    def of(self, gang: GangId) -> Collection[Task]:
        """All tasks of a gang."""
        return self._of.get(gang, _NOBODY).values()

    def placed(self, gang: GangId) -> list[Task]:
        """Its tasks that are on nodes."""
        return [task for task in self.of(gang) if task.state in OCCUPYING]

    def waiting(self, gang: GangId) -> list[Task]:
        """Its tasks that have no place."""
        return [task for task in self.of(gang) if task.state is TaskState.WAITING]
