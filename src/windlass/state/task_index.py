"""An index of all tasks by gang, queue, node and state.

Each change of a task removes its old value and adds its new one, so nothing here is recomputed. The
resources that a task occupies and the amounts that its queue is charged are kept by
`node_layout.py` and `queue_accounts.py`.
"""

from __future__ import annotations

from typing import TypeVar

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

Key = TypeVar("Key")


class TaskIndex:
    """The tasks of a cluster, counted in several ways. Only `count` and `remove_gang` write to it.

    Readers may keep references to the dictionaries: they are changed, never replaced.
    """

    __slots__ = (
        "_changes",
        "_working",
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
        """The tasks of each gang, in any state. Written by `Inventory`."""
        self.waiting: dict[str, dict[GangId, int]] = {}
        """By queue: the number of waiting tasks of each gang. Gangs without any are absent."""
        self.wanted: dict[str, dict[Shape, int]] = {}
        """By queue: the number of waiting tasks of each shape. Shapes without any are absent."""
        self.active: dict[GangId, int] = {}
        """The number of bound or running tasks of each gang. Gangs without any are absent."""
        self.on_node: dict[str, dict[TaskId, None]] = {}
        """By node: the tasks that are bound, running or releasing there, as an ordered set."""
        self.leaving: set[TaskId] = set()
        """The releasing tasks: evicted or deleted, and still on their node."""
        self.stamps: dict[GangId, int] = {}
        """A version of each gang; a new, unique number whenever the gang or a task of it changes.
        Caches compare it to see whether they are current."""
        self._changes = 0
        self._working: dict[GangId, dict[str, int]] = {}
        """By gang and group: the number of bound, running or succeeded tasks."""

    def count(self, task: Task, queue: str, by: int) -> None:
        """Add (`by` 1) or remove (-1) a task of a queue as it is in this state."""
        gang, state = task.gang, task.state
        self._changes += 1
        self.stamps[gang] = self._changes
        if state in ACTIVE:
            add_count(self.active, gang, by)
        if state in COUNTED:
            add_count(self._working.setdefault(gang, {}), task.group, by)
        if state == TaskState.WAITING:
            add_count(self.waiting.setdefault(queue, {}), gang, by)
            add_count(self.wanted.setdefault(queue, {}), task.shape, by)
        elif state in OCCUPYING:
            self._settle(task, by)

    def has_minimum(self, gang: Gang) -> bool:
        """Return whether the working and succeeded members of a gang make up its minimum."""
        return gang.has_minimum(self._working.get(gang.id, {}))

    def remove_gang(self, gang: GangId) -> None:
        """Forget a gang. All its tasks must have been removed before."""
        self.members.pop(gang, None)
        self._working.pop(gang, None)
        self.stamps.pop(gang, None)

    def _settle(self, task: Task, by: int) -> None:
        """Add or remove a task at its node."""
        if by > 0:
            self.on_node.setdefault(task.node, {})[task.id] = None
            if task.state == TaskState.RELEASING:
                self.leaving.add(task.id)
        else:
            self.on_node[task.node].pop(task.id, None)
            self.leaving.discard(task.id)


def add_count(counts: dict[Key, int], key: Key, by: int) -> None:
    """Add to the count of a key; a count that becomes zero is deleted."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]
