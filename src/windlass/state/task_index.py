"""The roll of tasks: by gang, by queue, by node, and by where they are in their lives.

Each task is counted as it is and taken out as it was, so nothing here is ever worked out anew. What
a task takes up and what that costs is kept elsewhere (`layout.py`, `accounts.py`).
"""

from __future__ import annotations

from windlass.model.jobs import (
    ACTIVE,
    COUNTED,
    OCCUPYING,
    Gang,
    GangId,
    Shape,
    Task,
    TaskId,
    TaskState,
)
from windlass.state.counts import count


class TaskIndex:
    """Who is there, and what they do."""

    __slots__ = (
        "_changes",
        "_there",
        "active",
        "leaving",
        "members",
        "on_node",
        "stamps",
        "waiting",
        "wanted",
    )

    def __init__(self) -> None:
        self.members: dict[GangId, dict[TaskId, Task]] = {}
        """The tasks of each gang, whatever their state."""
        self.waiting: dict[str, dict[GangId, int]] = {}
        """Per queue, the gangs with waiting tasks, and how many."""
        self.wanted: dict[str, dict[Shape, int]] = {}
        """Per queue, how many tasks of each shape wait."""
        self.active: dict[GangId, int] = {}
        """The gangs with bound or running tasks, and how many."""
        self.on_node: dict[str, dict[TaskId, None]] = {}
        """Who occupies each node."""
        self.leaving: set[TaskId] = set()
        """Who is on its way out."""
        self.stamps: dict[GangId, int] = {}
        """Moves for a gang whenever it or one of its tasks changes; never the same twice."""
        self._changes = 0
        self._there: dict[GangId, dict[str, int]] = {}
        """Per gang and group, the members that work or have succeeded."""

    def count(self, task: Task, queue: str, by: int) -> None:
        """A task of a queue is there as it is (1), or is so no longer (-1)."""
        gang, state = task.gang, task.state
        self._changes += 1
        self.stamps[gang] = self._changes
        if state in ACTIVE:
            count(self.active, gang, by)
        if state in COUNTED:
            count(self._there.setdefault(gang, {}), task.group, by)
        if state == TaskState.WAITING:
            count(self.waiting.setdefault(queue, {}), gang, by)
            count(self.wanted.setdefault(queue, {}), task.shape, by)
        elif state in OCCUPYING:
            self._settle(task, by)

    def has_minimum(self, gang: Gang) -> bool:
        """Do as many members work, or have succeeded, as the gang needs?"""
        return gang.has_minimum(self._there.get(gang.id, {}))

    def strike(self, gang: GangId) -> None:
        """A gang is gone, and all its tasks are."""
        self.members.pop(gang, None)
        self._there.pop(gang, None)
        self.stamps.pop(gang, None)

    def _settle(self, task: Task, by: int) -> None:
        if by > 0:
            self.on_node.setdefault(task.node, {})[task.id] = None
            if task.state == TaskState.RELEASING:
                self.leaving.add(task.id)
        else:
            self.on_node[task.node].pop(task.id, None)
            self.leaving.discard(task.id)
