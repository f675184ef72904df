"""The devices that each pod is assumed to have.

The device plug-in chooses the devices of whole-GPU pods and announces them nowhere in advance;
among equal devices it does not matter which. So every pod on a node is assigned the lowest devices
that are free here, except pods that were bound by us: they keep the devices of the plan.
"""

from __future__ import annotations

from windlass.model.gpus import WHOLE, GpuRequest, Slice
from windlass.model.jobs import TaskId
from windlass.workloads.nodes import MOST_GPUS


class Allotments:
    """The devices of every task, by node."""

    __slots__ = ("_counts", "_nodes")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        """The number of devices of each observed node."""
        self._nodes: dict[str, dict[TaskId, tuple[Slice, ...]]] = {}
        """No device twice, and none at or above the count while there are enough."""

    def see_node(self, node: str, count: int) -> list[TaskId]:
        """Set the number of devices of a node; return the tasks that have other devices now."""
        if self._counts.get(node) == count:
            return []
        self._counts[node] = count
        before = self._nodes.pop(node, {})
        # with fewer devices than pods the last ones get devices that do not exist: an overcommit
        # that the engine sees as a full node
        return [
            task
            for task, slices in sorted(before.items())
            if self.give(task, node, _request(slices)) != slices
        ]

    def forget_node(self, node: str) -> None:
        """Forget a node that is gone, and the devices of its tasks."""
        self._counts.pop(node, None)
        self._nodes.pop(node, None)

    def keep(self, task: TaskId, node: str, slices: tuple[Slice, ...]) -> None:
        """Assign the devices that a plan has chosen to a task."""
        if slices:
            self._nodes.setdefault(node, {})[task] = slices

    def give(self, task: TaskId, node: str, gpu: GpuRequest | None) -> tuple[Slice, ...]:
        """Return the devices of a task on a node, and assign free ones at the first call."""
        if gpu is None:
            return ()
        assigned = self._nodes.setdefault(node, {})
        if task not in assigned:
            assigned[task] = self._lowest(assigned, gpu, self._counts.get(node, 0))
        return assigned[task]

    def take_back(self, task: TaskId, node: str) -> None:
        """Free the devices of a task that has left its node."""
        assigned = self._nodes.get(node, {})
        assigned.pop(task, None)
        if not assigned:
            self._nodes.pop(node, None)

    def mend(self, node: str) -> list[TaskId]:
        """Assign freed devices to tasks whose devices do not exist; return the changed tasks."""
        assigned, count = self._nodes.get(node, {}), self._counts.get(node, 0)
        beyond = [
            task
            for task, slices in assigned.items()
            if any(part.device >= count for part in slices)
        ]
        before = {task: assigned.pop(task) for task in sorted(beyond)}
        return [
            task
            for task, slices in before.items()
            if self.give(task, node, _request(slices)) != slices
        ]

    @staticmethod
    def _lowest(
        assigned: dict[TaskId, tuple[Slice, ...]], gpu: GpuRequest, count: int
    ) -> tuple[Slice, ...]:
        taken = {part.device for slices in assigned.values() for part in slices}
        free = [device for device in range(count) if device not in taken][: gpu.count]
        # a foreign pod with an absurd request fills its node, and not our memory
        missing = min(gpu.count, MOST_GPUS) - len(free)
        return tuple(Slice(device, WHOLE) for device in (*free, *range(count, count + missing)))


def _request(slices: tuple[Slice, ...]) -> GpuRequest:
    return GpuRequest(len(slices))
