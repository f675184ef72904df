"""What there is: nodes, queues, gangs and tasks, and all that follows from them.

Whoever is seen or lost is counted at once, so that nothing has to be rebuilt: who is there and what
they do on the roll (`roll.py`), where they lie in the columns (`layout.py`), what they cost in the
accounts of queues (`accounts.py`) and over time in the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from windlass.model.actions import Bind, Evict
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, GangId, Task, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.model.queues import ROOT, Queue
from windlass.model.settings import Settings
from windlass.model.topology import Topology
from windlass.state.node_columns import NodeTable
from windlass.state.node_layout import NodeLayout
from windlass.state.pod_affinity import PodAffinityIndex
from windlass.state.queue_accounts import QueueAccounts, charges_of, models_of
from windlass.state.request_mix import ArrivalCounts
from windlass.state.snapshot import FailedSearch, UserUsage
from windlass.state.task_index import TaskIndex
from windlass.usage.ledger import Holder, Ledger

Placing = TypeVar("Placing", Bind, Evict)


class Inventory:
    """All things of a cluster as they are now."""

    def __init__(self, settings: Settings, now: int) -> None:
        self.settings = settings
        self.now = now
        self.running_version = 0
        """Moves with every change of what runs, of a gang or of a queue."""
        self.tree_version = 0
        """Moves with every change of a queue."""
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, Topology] = {}
        self.gangs: dict[GangId, Gang] = {}
        self.tasks: dict[TaskId, Task] = {}
        self._roll = TaskIndex()
        self.waiting, self.wanted = self._roll.waiting, self._roll.wanted
        self.active, self.stamps = self._roll.active, self._roll.stamps
        self.broken: dict[GangId, int] = {}
        """The gangs that run with less than their minimum, and since when."""
        self.orphaned: dict[GangId, str] = {}
        """Those of them that lost members with a deleted node, and its name."""
        self._stopped_by: dict[str, set[GangId]] = {}
        """The gangs that stop through each owner; see `Gang.stops_with`."""
        self.timed: set[GangId] = set()
        """The gangs that may run only for so long."""
        self.searched: tuple[FailedSearch, ...] = ()
        """The waiting gangs for which others could not be displaced, by name."""
        self.accounts, self.ledger = QueueAccounts(self.queues), Ledger(settings.half_life_s)
        self.mix = ArrivalCounts()
        self._parents: set[str] = set()
        self._layout = NodeLayout(self.nodes, self.tasks, self.gangs)

    def members(self, gang: GangId) -> Collection[Task]:
        """The tasks of a gang, whatever their state."""
        found = self._roll.members.get(gang)
        return found.values() if found else ()

    def has_minimum(self, gang: GangId) -> bool:
        """Do as many of its members work, or have succeeded, as it needs, in every group?"""
        return self._roll.has_minimum(self.gangs[gang])

    def siblings(self, gang: Gang) -> list[GangId]:
        """Return the other gangs that have running tasks and stop through the same owner."""
        if not gang.stops_with:
            return []
        found = self._stopped_by.get(gang.stops_with, ())
        return sorted(each for each in found if each != gang.id and each in self.active)

    def by_gang(self, actions: Iterable[Placing]) -> dict[GangId, list[Placing]]:
        """Binds or evictions by the gangs of their tasks."""
        found: dict[GangId, list[Placing]] = {}
        for each in actions:
            found.setdefault(self.tasks[each.task].gang, []).append(each)
        return found

    def on(self, node: str) -> Iterable[Task]:
        """All tasks that occupy a node."""
        return (self.tasks[task] for task in self._roll.on_node.get(node, ()))

    def running(self) -> Iterable[Task]:
        """All tasks that are bound or running, in order of their ids."""
        return (task for _, task in sorted(self.tasks.items()) if task.state in ACTIVE)

    def leaving(self) -> Iterable[Task]:
        """All tasks that are on their way out, in order of their ids."""
        return (self.tasks[task] for task in sorted(self._roll.leaving))

    def allocated(self, queue: str, dimension: str) -> int:
        """What a queue and all below it have."""
        return self.accounts.held.get(queue, {}).get(dimension, 0)

    def is_leaf(self, queue: str) -> bool:
        """Is it a queue in which gangs may stand?"""
        return queue in self.queues and queue not in self._parents

    def usage_of(self, queue: str) -> int:
        """Decayed GPU time of a queue and all below it, in thousandth GPU-seconds."""
        usage, path = self._usage_at(self.now), self.accounts.path
        below = (each for each in usage if queue == ROOT or queue in path(each.queue))
        return sum(each.milli_seconds for each in below)

    @property
    def columns(self) -> NodeTable:
        """The arrays, laid out anew if nodes have changed."""
        return self._layout.columns

    @property
    def neighbours(self) -> PodAffinityIndex:
        """The tallies of pod affinity and spread."""
        return self._layout.neighbours

    # -- nodes, queues and topologies

    def _see_node(self, node: Node) -> None:
        if self.nodes.get(node.name) == node:
            return
        tasks = list(self.on(node.name))
        for task in tasks:
            self._charge(task, -1)
        self.nodes[node.name] = node
        self._layout.drop()
        self.searched = ()
        for task in tasks:
            self._charge(task, 1)

    def _lose_node(self, name: str) -> None:
        there = list(self.on(name))
        for task in there:
            self._lose_task(task.id)
        torn = {task.gang for task in there if task.state in ACTIVE} & self.broken.keys()
        self.orphaned |= dict.fromkeys(torn, name)
        self._roll.on_node.pop(name, None)
        if self.nodes.pop(name, None) is not None:
            self._layout.drop()
            self.searched = ()

    def _see_queue(self, queue: Queue) -> None:
        before = self.queues.get(queue.name)
        self.queues[queue.name] = queue
        self.tree_version += 1
        self.running_version += 1
        self.searched = ()
        if before is None or before.parent != queue.parent:
            self._recharge()

    def _lose_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self.tree_version += 1
        self.running_version += 1
        self.searched = ()
        self._recharge()

    def _see_topology(self, topology: Topology) -> None:
        self.topologies[topology.name] = topology
        self._layout.forget()

    def _lose_topology(self, name: str) -> None:
        self.topologies.pop(name, None)
        self._layout.forget()

    def _recharge(self) -> None:
        """The tree has changed: charge every task along its new path."""
        self._parents = {queue.parent for queue in self.queues.values()}
        self.accounts = QueueAccounts(self.queues)
        for task in self.tasks.values():
            if task.state in OCCUPYING:
                self._charge_queue(task, 1)

    # -- gangs and tasks

    def _see_gang(self, gang: Gang) -> None:
        before = self.gangs.get(gang.id)
        tasks = list(self.members(gang.id))
        if before is not None and before != gang:
            for task in tasks:
                self._count(task, -1)
        self.gangs[gang.id] = gang
        if before is not None and before.stops_with != gang.stops_with:
            self._stopped_by.get(before.stops_with, set()).discard(gang.id)
        if gang.stops_with:
            self._stopped_by.setdefault(gang.stops_with, set()).add(gang.id)
        (self.timed.discard if gang.max_run_s is None else self.timed.add)(gang.id)
        if before is not None and before != gang:
            self.running_version += 1
            for task in tasks:
                self._count(task, 1)
            self._watch(gang)

    def _lose_gang(self, gang: GangId) -> None:
        for task in list(self.members(gang)):
            self._lose_task(task.id)
        lost = self.gangs.pop(gang, None)
        if lost is not None and lost.stops_with:
            self._stopped_by[lost.stops_with].discard(gang)
            if not self._stopped_by[lost.stops_with]:
                del self._stopped_by[lost.stops_with]
        self._roll.strike(gang)
        self.broken.pop(gang, None)
        self.orphaned.pop(gang, None)
        self.timed.discard(gang)

    def _see_task(self, task: Task) -> None:
        before = self.tasks.get(task.id)
        if before == task:
            return
        stays = before is not None and _occupies_alike(before, task)
        if before is not None:
            self._count(before, -1, stays)
        else:
            self.mix.see(task.shape.request)
        self.tasks[task.id] = task
        self._roll.members.setdefault(task.gang, {})[task.id] = task
        self._count(task, 1, stays)
        self._watch(self.gangs[task.gang])

    def _lose_task(self, task_id: TaskId) -> None:
        task = self.tasks.pop(task_id, None)
        if task is not None:
            self._count(task, -1)
            self._roll.members[task.gang].pop(task_id, None)
            self._watch(self.gangs[task.gang])

    def _watch(self, gang: Gang) -> None:
        """Take note of when a gang falls below its minimum, and when it is whole again."""
        if gang.id not in self.active or self._roll.has_minimum(gang):
            self.broken.pop(gang.id, None)
            self.orphaned.pop(gang.id, None)
        else:
            self.broken.setdefault(gang.id, self.now)

    def _count(self, task: Task, sign: int, stays: bool = False) -> None:
        """A task is there as it is (1), or not (-1); if it stays, what it has is counted."""
        self._roll.count(task, self.gangs[task.gang].queue, sign)
        if task.state in OCCUPYING:
            self.running_version += 1
            if not stays:
                self._charge(task, sign)
        if not stays:
            self._layout.count(task, sign)

    def _charge(self, task: Task, sign: int) -> None:
        self._charge_queue(task, sign)
        self._charge_ledger(task, sign)

    def _charge_queue(self, task: Task, sign: int) -> None:
        gang, node = self.gangs[task.gang], self.nodes.get(task.node)
        charges = charges_of(task.shape.request, task.devices, node)
        self.accounts.charge(gang, charges, sign)

    def _charge_ledger(self, task: Task, sign: int) -> None:
        gang = self.gangs[task.gang]
        node = self.nodes.get(task.node)
        for model, milli in models_of(task.shape.request, task.devices, node):
            self.ledger.change(Holder(gang.queue, gang.user, model), sign * milli, self.now)

    # -- time and settings

    def _usage_at(self, now: int) -> tuple[UserUsage, ...]:
        return tuple(UserUsage(*holder, value) for holder, value in self.ledger.at(now))

    def _set(self, settings: Settings) -> None:
        if settings != self.settings:
            self.settings, self.searched = settings, ()
            self.ledger.keep_for(settings.half_life_s, self.now)
            self._layout.forget()

    def _take_over_mix(self) -> None:
        """Take over the mix of late, if it is time; whatever rested on the old one is forgotten."""
        if self.mix.take_over():
            self._layout.forget()
            self._layout.shorten()


def _occupies_alike(before: Task, task: Task) -> bool:
    """Has a task what it had, and is it on its way out as little, or as much, as it was?

    So it is when it starts: once for every task that is bound.
    """
    return (
        before.state in OCCUPYING
        and task.state in OCCUPYING
        and (before.state == TaskState.RELEASING) == (task.state == TaskState.RELEASING)
        and (before.node, before.devices) == (task.node, task.devices)
        and (before.gang, before.labels, before.shape) == (task.gang, task.labels, task.shape)
    )
