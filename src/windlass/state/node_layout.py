"""How tasks lie on nodes: the columns, the tallies of neighbours, and what is remembered of both.

All of it follows every task. It is laid out anew, when somebody asks for it, after a node has
changed, or if a task brings something to be counted that nobody counted before: a new subject of
pod affinity, or a port that another task wants as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.model.jobs import OCCUPYING, Gang, GangId, Task, TaskId
from windlass.model.nodes import Node
from windlass.state.counts import count
from windlass.state.device_states import MOST_REMEMBERED
from windlass.state.node_columns import NodeTable
from windlass.state.pod_affinity import PodAffinityIndex, Subject, subjects_of, who_is
from windlass.state.ports import PortDemand


class NodeLayout:
    """The arrays of a cluster, laid out from its nodes, tasks and gangs as they are by then."""

    __slots__ = ("_gangs", "_laid", "_memory", "_nodes", "_tasks", "ports", "subjects")

    def __init__(
        self,
        nodes: Mapping[str, Node],
        tasks: Mapping[TaskId, Task],
        gangs: Mapping[GangId, Gang],
    ) -> None:
        self._nodes, self._tasks, self._gangs = nodes, tasks, gangs
        self.ports = PortDemand()
        self.subjects: dict[Subject, int] = {}
        """What constraints want counted, and how many tasks want it."""
        self._laid: tuple[NodeTable, PodAffinityIndex] | None = None
        self._memory: dict[Callable[..., object], object] = {}

    @property
    def columns(self) -> NodeTable:
        """The arrays over all nodes."""
        return (self._laid or self._lay_out())[0]

    @property
    def neighbours(self) -> PodAffinityIndex:
        """The tallies of pod affinity and spread."""
        return (self._laid or self._lay_out())[1]

    @property
    def memory(self) -> dict[Callable[..., object], object]:
        """What others remember about these columns, by how it was made."""
        if self._laid is None:
            self._lay_out()
        return self._memory

    def count(self, task: Task, by: int) -> None:
        """A task is there as it is (1), or is so no longer (-1)."""
        namespace = self._gangs[task.gang].namespace
        for subject in subjects_of(task.shape.constraints, namespace):
            # one that nobody wants any more stays in the tallies; counting on is harmless
            if subject not in self.subjects:
                self.drop()
            count(self.subjects, subject, by)
        for port in task.shape.request.ports:
            is_shared = self.ports.count(port, by) > 1
            if by > 0 and is_shared and self._laid and not self._laid[0].knows(port):
                self.drop()
        if self._laid is not None and task.state in OCCUPYING:
            self._occupy(self._laid, task, by)

    def drop(self) -> None:
        """It is not as it was laid out any more."""
        self._laid = None

    def forget(self) -> None:
        """Something else changed on which what is remembered rests."""
        self._memory.clear()

    def shorten(self) -> None:
        """Lay out anew if more states of devices were met than are worth remembering."""
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
        amounts, slices = columns.taken(task.shape.request), columns.present(slot, task.devices)
        (columns.take if by > 0 else columns.give)(slot, amounts, slices)
        who = who_is(task, self._gangs[task.gang].namespace)
        neighbours.count(who, task.shape.constraints, slot, by)
