"""Which devices a pod is taken to have.

The device plug-in chooses the devices of whole-GPU pods and tells nobody in advance; among equals
it does not matter which. So every pod on a node gets the lowest devices that are free in this book,
except those that were bound by us: they keep what the plan said.
"""

from __future__ import annotations

from windlass.model.gpus import WHOLE, GpuRequest, Slice
from windlass.model.jobs import TaskId
from windlass.workloads.nodes.offers import MOST_GPUS


class Allotments:
    """Per node, who has which devices."""

    __slots__ = ("_counts", "_nodes")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._nodes: dict[str, dict[TaskId, tuple[Slice, ...]]] = {}

    def see_node(self, node: str, count: int) -> list[TaskId]:
        """A node has so many devices; answers who was given others than before."""
        if self._counts.get(node) == count:
            return []
        self._counts[node] = count
        before = self._nodes.pop(node, {})
        # with fewer devices than pods the last ones get devices that are not there: an overcommit
        # that the engine sees as a full node
        return [
            task
            for task, slices in sorted(before.items())
            if self.give(task, node, _asked(slices)) != slices
        ]

    def forget_node(self, node: str) -> None:
        """A node is gone, and all that ran on it."""
        self._counts.pop(node, None)
        self._nodes.pop(node, None)

    def keep(self, task: TaskId, node: str, slices: tuple[Slice, ...]) -> None:
        """A task was bound to these devices."""
        if slices:
            self._nodes.setdefault(node, {})[task] = slices

    def give(self, task: TaskId, node: str, gpu: GpuRequest | None) -> tuple[Slice, ...]:
        """The devices of a task on a node, the same whenever it is asked."""
        if gpu is None:
            return ()
        there = self._nodes.setdefault(node, {})
        if task not in there:
            there[task] = self._lowest(there, gpu, self._counts.get(node, 0))
        return there[task]

    def take_back(self, task: TaskId, node: str) -> None:
        """A task has left its node."""
        there = self._nodes.get(node, {})
        there.pop(task, None)
        if not there:
            self._nodes.pop(node, None)

    def mend(self, node: str) -> list[TaskId]:
        """Something came free: answers who had devices that are not there and has others now."""
        there, count = self._nodes.get(node, {}), self._counts.get(node, 0)
        beyond = [task for task, has in there.items() if any(each.device >= count for each in has)]
        before = {task: there.pop(task) for task in sorted(beyond)}
        return [
            task
            for task, slices in before.items()
            if self.give(task, node, _asked(slices)) != slices
        ]

    @staticmethod
    def _lowest(
        there: dict[TaskId, tuple[Slice, ...]], gpu: GpuRequest, count: int
    ) -> tuple[Slice, ...]:
        taken = {part.device for slices in there.values() for part in slices}
        free = [device for device in range(count) if device not in taken][: gpu.count]
        # an absurd pod that somebody put on a node fills it, and not our memory
        missing = min(gpu.count, MOST_GPUS) - len(free)
        return tuple(Slice(device, WHOLE) for device in (*free, *range(count, count + missing)))


def _asked(slices: tuple[Slice, ...]) -> GpuRequest:
    return GpuRequest(len(slices))
