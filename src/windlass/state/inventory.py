"""Nodes, queues, gangs and tasks, and the indexes that follow from them.

Every change updates all indexes at once, so that none has to be rebuilt:

    task_index       the tasks by gang, queue, node and state
    node_layout      the free amounts of each node, and pod-affinity counts
    queue_accounts   the amounts that each queue holds now
    ledger           the GPU time that each user has had, decayed

The rule for all of them: a task is removed as it was counted, with the same gang and node, and then
added as it is. So each change of a gang or node first removes the tasks that depend on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from windlass.model.actions import Bind, Evict
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, GangId, Task, TaskId, TaskState
from windlass.model.nodes import Node, Topology
from windlass.model.queues import ROOT, Queue
from windlass.model.settings import Settings
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
    """The objects of a cluster as they are now, and the indexes over them.

    Only the methods `_see_*`, `_lose_*` and `_set`, which `Cluster` calls for events, change it.
    """

    def __init__(self, settings: Settings, now: int) -> None:
        self.settings = settings
        self.now = now
        self.running_version = 0
        """Rises with every change of an occupying task, a gang or a queue. Caches compare it."""
        self.tree_version = 0
        """Rises with every change of a queue."""
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, Topology] = {}
        self.gangs: dict[GangId, Gang] = {}
        self.tasks: dict[TaskId, Task] = {}
        """The gang of every task is in `gangs`; its node may be missing from `nodes`."""
        self._index = TaskIndex()
        self.waiting, self.wanted = self._index.waiting, self._index.wanted
        self.active, self.stamps = self._index.active, self._index.stamps
        """Views of the index: see `TaskIndex` for these four. Read only."""
        self.broken: dict[GangId, int] = {}
        """The gangs with working tasks but less than their minimum, and the time since which."""
        self.orphaned: dict[GangId, str] = {}
        """Those gangs of `broken` that lost members with a deleted node, and its name."""
        self._stopped_by: dict[str, set[GangId]] = {}
        """The gangs of each owner that is suspended to stop them; see `Gang.stops_with`."""
        self.timed: set[GangId] = set()
        """The gangs with a maximum run time."""
        self.searched: tuple[FailedSearch, ...] = ()
        """The waiting gangs for which preemption found nothing, by name. Emptied by every change of
        nodes, queues or settings, because that may help them."""
        self.accounts, self.ledger = QueueAccounts(self.queues), Ledger(settings.half_life_s)
        self.mix = ArrivalCounts()
        self._parents: set[str] = set()
        """The queues that have queues below them."""
        self._layout = NodeLayout(self.nodes, self.tasks, self.gangs)

    def members(self, gang: GangId) -> Collection[Task]:
        """Return the tasks of a gang, in any state."""
        tasks = self._index.members.get(gang)
        return tasks.values() if tasks else ()

    def has_minimum(self, gang: GangId) -> bool:
        """Return whether the working and succeeded members of a gang make up its minimum."""
        return self._index.has_minimum(self.gangs[gang])

    def siblings(self, gang: Gang) -> list[GangId]:
        """Return the other gangs that have running tasks and stop through the same owner."""
        if not gang.stops_with:
            return []
        gangs = self._stopped_by.get(gang.stops_with, ())
        return sorted(other for other in gangs if other != gang.id and other in self.active)

    def by_gang(self, actions: Iterable[Placing]) -> dict[GangId, list[Placing]]:
        """Return binds or evictions by the gangs of their tasks."""
        by_gang: dict[GangId, list[Placing]] = {}
        for action in actions:
            by_gang.setdefault(self.tasks[action.task].gang, []).append(action)
        return by_gang

    def on(self, node: str) -> Iterable[Task]:
        """Return the tasks that occupy a node: bound, running or releasing."""
        return (self.tasks[task] for task in self._index.on_node.get(node, ()))

    def running(self) -> Iterable[Task]:
        """Return the bound and running tasks, in order of their ids."""
        return (task for _, task in sorted(self.tasks.items()) if task.state in ACTIVE)

    def leaving(self) -> Iterable[Task]:
        """Return the releasing tasks, in order of their ids."""
        return (self.tasks[task] for task in sorted(self._index.leaving))

    def allocated(self, queue: str, dimension: str) -> int:
        """Return the amount of a dimension that the tasks of a queue and those below it hold."""
        return self.accounts.held.get(queue, {}).get(dimension, 0)

    def is_leaf(self, queue: str) -> bool:
        """Return whether the queue exists and has no queues below it, so that gangs may use it."""
        return queue in self.queues and queue not in self._parents

    def usage_of(self, queue: str) -> int:
        """Return the decayed usage of a queue and those below it, in thousandth GPU-seconds."""
        usage, path = self._usage_at(self.now), self.accounts.path
        return sum(
            used.milli_seconds for used in usage if queue == ROOT or queue in path(used.queue)
        )

    @property
    def columns(self) -> NodeTable:
        """The arrays over all nodes. May build them."""
        return self._layout.columns

    @property
    def pod_affinity(self) -> PodAffinityIndex:
        """The counts of pod affinity and topology spread. May build them."""
        return self._layout.neighbours

    # -- nodes, queues and topologies

    def _see_node(self, node: Node) -> None:
        if self.nodes.get(node.name) == node:
            return
        # The charge for a task depends on its node: take it back with the old one.
        tasks = list(self.on(node.name))
        for task in tasks:
            self._charge(task, -1)
        self.nodes[node.name] = node
        self._layout.drop()
        self.searched = ()
        for task in tasks:
            self._charge(task, 1)

    def _lose_node(self, name: str) -> None:
        tasks = list(self.on(name))
        for task in tasks:
            self._lose_task(task.id)
        torn = {task.gang for task in tasks if task.state in ACTIVE} & self.broken.keys()
        self.orphaned |= dict.fromkeys(torn, name)
        self._index.on_node.pop(name, None)
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
        """Charge all tasks along the paths of a changed queue tree."""
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
        self._index.remove_gang(gang)
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
        self._index.members.setdefault(task.gang, {})[task.id] = task
        self._count(task, 1, stays)
        self._watch(self.gangs[task.gang])

    def _lose_task(self, task_id: TaskId) -> None:
        task = self.tasks.pop(task_id, None)
        if task is not None:
            self._count(task, -1)
            self._index.members[task.gang].pop(task_id, None)
            self._watch(self.gangs[task.gang])

    def _watch(self, gang: Gang) -> None:
        """Note the time at which a gang falls below its minimum; forget it once that is met."""
        if gang.id not in self.active or self._index.has_minimum(gang):
            self.broken.pop(gang.id, None)
            self.orphaned.pop(gang.id, None)
        else:
            self.broken.setdefault(gang.id, self.now)

    def _count(self, task: Task, sign: int, stays: bool = False) -> None:
        """Add (sign 1) or remove (-1) a task in all indexes.

        With `stays`, its resources were and remain occupied: only its state has changed.
        """
        self._index.count(task, self.gangs[task.gang].queue, sign)
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
        """Adopt the recent request mix if it is time, and clear caches that used the old one."""
        if self.mix.take_over():
            self._layout.forget()
            self._layout.shorten()


def _occupies_alike(before: Task, task: Task) -> bool:
    """Return whether a task occupies the same resources as before and is releasing as before.

    True when a bound task starts to run, the most frequent change of all.
    """
    return (
        before.state in OCCUPYING
        and task.state in OCCUPYING
        and (before.state == TaskState.RELEASING) == (task.state == TaskState.RELEASING)
        and (before.node, before.devices) == (task.node, task.devices)
        and (before.gang, before.labels, before.shape) == (task.gang, task.labels, task.shape)
    )
