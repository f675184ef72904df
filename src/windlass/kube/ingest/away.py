"""Pods on nodes that have not been seen, or are gone: they do not count until the node is there."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.model.jobs import TaskId
from windlass.workloads.objects.wire import Pod


class Away:
    """Such pods, by the nodes that they name."""

    __slots__ = ("_on", "_pods")

    def __init__(self) -> None:
        self._pods: dict[str, dict[TaskId, Pod]] = {}
        self._on: dict[TaskId, str] = {}

    def __iter__(self) -> Iterator[tuple[Pod, str]]:
        """All of them, each with the name of its node."""
        return ((pod, node) for node, pods in self._pods.items() for pod in pods.values())

    def put(self, task: TaskId, pod: Pod, node: str) -> None:
        """A pod is on a node that is not there."""
        self._pods.setdefault(node, {})[task] = pod
        self._on[task] = node

    def take(self, task: TaskId) -> Pod | None:
        """A pod that was away is not any more; answers how it was seen last."""
        node = self._on.pop(task, None)
        if node is None:
            return None
        there = self._pods[node]
        found = there.pop(task)
        if not there:
            del self._pods[node]
        return found

    def on(self, node: str) -> list[Pod]:
        """Those that wait for a node to be seen."""
        return list(self._pods.get(node, {}).values())
