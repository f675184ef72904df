"""The record of a pod that counts, and the pods whose nodes are not known.

Actions that were decided and not yet observed count as done: a pod that is being bound is on its
node, and a pod that is being evicted is leaving.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass.model.jobs import ACTIVE, GangId, Shape, Task, TaskId, TaskState
from windlass.workloads.objects import Pod
from windlass.workloads.pods import state_of, task_of

PRESENT = ACTIVE | {TaskState.WAITING, TaskState.SUCCEEDED}
"""States in which a pod has a place in its gang."""


@dataclass(slots=True)
class PodRecord:
    """A pod with its observed or assumed node."""

    pod: Pod
    gang: GangId
    shape: Shape
    node: str
    """Empty while the pod waits."""
    owners: tuple[str, ...] = ()
    """The keys of the owners on which the pod depends (`owners.py`)."""
    group: str = ""

    def task(self, task: TaskId, leaving_since: int | None) -> Task:
        """Return the task as the engine sees it, without devices.

        `task` is the id: placeholders may share one pod object, so it may differ from the pod's.
        """
        made = task_of(self.pod, self.gang, self.shape, (), self.group)
        if made.id != task:
            made = replace(made, id=task)
        if made.state == TaskState.WAITING and self.node:
            made = replace(made, state=TaskState.BOUND, node=self.node)
        if leaving_since is not None and made.state in ACTIVE:
            made = replace(made, state=TaskState.RELEASING, releasing_since=leaving_since)
        return made

    def state(self, leaving_since: int | None) -> TaskState:
        """Return the state that the task of this pod would have, without building the task."""
        state = state_of(self.pod)
        if state == TaskState.WAITING and self.node:
            state = TaskState.BOUND
        is_leaving = leaving_since is not None and state in ACTIVE
        return TaskState.RELEASING if is_leaving else state


class OrphanPods:
    """Pods on nodes that were not observed yet, or are gone; they count once the node is there."""

    __slots__ = ("_on", "_pods")

    def __init__(self) -> None:
        self._pods: dict[str, dict[TaskId, Pod]] = {}
        """The pods by the node that they name; no empty entries."""
        self._on: dict[TaskId, str] = {}
        """The same the other way round: the node that each pod names."""

    def __iter__(self) -> Iterator[tuple[Pod, str]]:
        """Yield each pod with the name of its node."""
        return ((pod, node) for node, pods in self._pods.items() for pod in pods.values())

    def put(self, task: TaskId, pod: Pod, node: str) -> None:
        """Store a pod whose node is not there."""
        self._pods.setdefault(node, {})[task] = pod
        self._on[task] = node

    def take(self, task: TaskId) -> Pod | None:
        """Remove a pod and return it as it was observed last; None if it is not an orphan."""
        node = self._on.pop(task, None)
        if node is None:
            return None
        pods = self._pods[node]
        pod = pods.pop(task)
        if not pods:
            del self._pods[node]
        return pod

    def on(self, node: str) -> list[Pod]:
        """Return the pods that name a node."""
        return list(self._pods.get(node, {}).values())
