"""The arrays over nodes, the pod-affinity counts, and the caches that rest on both.

They are built when they are first read, and then follow every task. They are dropped, and built
anew at the next read, when a node changes, or when a task needs a row that they do not have: a new
subject of pod affinity, or a host port that a second task asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from windlass.model.jobs import OCCUPYING, Gang, GangId, Task, TaskId
from windlass.model.nodes import Node
from windlass.model.resources import Port
from windlass.state.device_states import MOST_REMEMBERED
from windlass.state.node_columns import NodeTable
from windlass.state.pod_affinity import PodAffinityIndex, Subject, labels_of, subjects_of
from windlass.state.task_index import add_count


class NodeLayout:
    """The arrays of a cluster, built from its nodes, tasks and gangs when they are first read.

    The three mappings belong to the inventory, which changes them in place.
    """

    __slots__ = ("_gangs", "_laid", "_memory", "_nodes", "_tasks", "ports", "subjects")

    def __init__(
        self,
        nodes: Mapping[str, Node],
        tasks: Mapping[TaskId, Task],
        gangs: Mapping[GangId, Gang],
    ) -> None:
        self._nodes, self._tasks, self._gangs = nodes, tasks, gangs
        self.ports = PortDemand()
        """The host ports that tasks ask for, in any state."""
        self.subjects: dict[Subject, int] = {}
        """The pod-affinity subjects of all tasks, and the number of tasks with each."""
        self._laid: tuple[NodeTable, PodAffinityIndex] | None = None
        """The arrays as of now; None: dropped, to be built at the next read."""
        self._memory: dict[Callable[..., object], object] = {}
        """Caches of others, by the function that makes them. Cleared when the arrays are built."""

    @property
    def columns(self) -> NodeTable:
        """The arrays over all nodes. May build them."""
        return (self._laid or self._lay_out())[0]

    @property
    def neighbours(self) -> PodAffinityIndex:
        """The counts of pod affinity and topology spread. May build them."""
        return (self._laid or self._lay_out())[1]

    @property
    def memory(self) -> dict[Callable[..., object], object]:
        """The caches that rest on the current arrays, by the function that makes each."""
        if self._laid is None:
            self._lay_out()
        return self._memory

    def count(self, task: Task, by: int) -> None:
        """Add (`by` 1) or remove (-1) a task as it is in this state."""
        namespace = self._gangs[task.gang].namespace
        for subject in subjects_of(task.shape.constraints, namespace):
            # A subject that no task has any more keeps its row until the next build: it is correct,
            # and building anew would cost more.
            if subject not in self.subjects:
                self.drop()
            add_count(self.subjects, subject, by)
        for port in task.shape.request.ports:
            is_shared = self.ports.count(port, by) > 1
            if by > 0 and is_shared and self._laid and not self._laid[0].has_port(port):
                self.drop()
        if self._laid is not None and task.state in OCCUPYING:
            self._occupy(self._laid, task, by)

    def drop(self) -> None:
        """Drop the arrays; the next read builds them from the nodes and tasks as they are then."""
        self._laid = None

    def forget(self) -> None:
        """Clear the caches of others: settings, topologies or the request mix have changed."""
        self._memory.clear()

    def shorten(self) -> None:
        """Drop the arrays if they have interned too many device states, to free the memory."""
        if self._laid is not None and len(self._laid[0].states.states) > MOST_REMEMBERED:
            self.drop()

    def _lay_out(self) -> tuple[NodeTable, PodAffinityIndex]:
        columns = NodeTable(self._nodes.values(), self.ports.shared())
        self._laid = laid = columns, PodAffinityIndex(columns, self.subjects)
        self._memory.clear()
        for task in self._tasks.values():
            if task.state in OCCUPYING:
                self._occupy(laid, task, 1)
        return laid

    def _occupy(self, laid: tuple[NodeTable, PodAffinityIndex], task: Task, by: int) -> None:
        columns, neighbours = laid
        slot = columns.slot.get(task.node)
        if slot is None:
            return
        amounts, slices = (
            columns.occupied_amounts(task.shape.request),
            columns.existing_slices(slot, task.devices),
        )
        (columns.take if by > 0 else columns.give)(slot, amounts, slices)
        who = labels_of(task, self._gangs[task.gang].namespace)
        neighbours.count(who, task.shape.constraints, slot, by)


class PortDemand:
    """The number of tasks that ask for each host port.

    Each port in the arrays is a row over all nodes. A port that only one task asks for cannot
    collide, so only ports of several tasks get rows.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], dict[Port, int]] = {}
        """By protocol and number, because a port without an address collides with all addresses.
        No inner dictionary is empty."""

    def count(self, port: Port, by: int) -> int:
        """Add to the tasks that ask for a port; return how many ask for its number in all."""
        key = port.protocol, port.number
        counts = self._counts.setdefault(key, {})
        add_count(counts, port, by)
        if not counts:
            del self._counts[key]
        return sum(counts.values())

    def shared(self) -> Iterator[Port]:
        """Yield the ports whose number several tasks ask for."""
        for counts in self._counts.values():
            if sum(counts.values()) > 1:
                yield from counts
