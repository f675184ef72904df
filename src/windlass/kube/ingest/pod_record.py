"""A pod that counts, and what was made of it.

What we have set going and not yet seen counts as done: a pod that is being bound is on its node,
and one that is being evicted leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.model.jobs import ACTIVE, GangId, Shape, Task, TaskId, TaskState
from windlass.workloads.objects.wire import Pod
from windlass.workloads.pods.task import state_of, task_of

PRESENT = ACTIVE | {TaskState.WAITING, TaskState.SUCCEEDED}
"""States in which a pod has a place in its gang."""


@dataclass(slots=True)
class PodRecord:
    """It stands where it was seen, or where it is on its way to."""

    pod: Pod
    gang: GangId
    shape: Shape
    node: str
    owners: tuple[str, ...] = ()
    group: str = ""

    def task(self, task: TaskId, leaving_since: int | None) -> Task:
        """Return the task that the engine sees, without devices; stand-ins may share one pod."""
        found = task_of(self.pod, self.gang, self.shape, (), self.group)
        if found.id != task:
            found = replace(found, id=task)
        if found.state == TaskState.WAITING and self.node:
            found = replace(found, state=TaskState.BOUND, node=self.node)
        if leaving_since is not None and found.state in ACTIVE:
            found = replace(found, state=TaskState.RELEASING, releasing_since=leaving_since)
        return found

    def state(self, leaving_since: int | None) -> TaskState:
        """The state of that task, without making it."""
        state = state_of(self.pod)
        if state == TaskState.WAITING and self.node:
            state = TaskState.BOUND
        is_leaving = leaving_since is not None and state in ACTIVE
        return TaskState.RELEASING if is_leaving else state
