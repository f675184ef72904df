"""The state of a cluster: told what happened, asked what is.

Events are applied one by one; nothing is rebuilt per cycle. Columns follow every task; they are
laid out anew only after a node has changed. What the engine remembers between cycles hangs here
too (`recall`), so that it lives exactly as long as the columns it describes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from windlass.model import events
from windlass.model.actions import Action, Bind, Hold
from windlass.model.events import Event
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, GangId, Shape, Task, TaskId, TaskState
from windlass.model.nodes import Node
from windlass.model.queues import ROOT, Queue
from windlass.model.settings import Settings
from windlass.model.topology import Topology
from windlass.state.accounts import Accounts, charges_of, models_of
from windlass.state.columns import Columns
from windlass.state.neighbours import Neighbours, Subject, subjects_of, who_is
from windlass.state.ports import Ports
from windlass.state.snapshot import Broken, Searched, Snapshot, Usage
from windlass.usage.ledger import Holder, Ledger

Key = TypeVar("Key")
Memory = TypeVar("Memory")


class Promises(Protocol):
    """What `assume` needs of a plan."""

    @property
    def actions(self) -> Iterable[Action]: ...
    @property
    def holds(self) -> Iterable[Hold]: ...
    @property
    def searched(self) -> tuple[Searched, ...]: ...


class Cluster:
    """Everything known about a cluster."""

    def __init__(self, settings: Settings | None = None, now: int = 0) -> None:
        self.settings = settings or Settings()
        self.now = now
        self.version = 0
        """Moves with every change that could matter to a decision."""
        self.running_version = 0
        """Moves with every change of what runs, of a gang or of a queue."""
        self.tree_version = 0
        """Moves with every change of a queue."""
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, Topology] = {}
        self.gangs: dict[GangId, Gang] = {}
        self.tasks: dict[TaskId, Task] = {}
        self.holds: dict[GangId, Hold] = {}
        self.waiting: dict[str, dict[GangId, int]] = {}
        """Per queue, the gangs with waiting tasks, and how many."""
        self.stamps: dict[GangId, int] = {}
        """Moves for a gang whenever it or one of its tasks changes; never the same twice."""
        self._changes = 0
        self.broken: dict[GangId, int] = {}
        """The gangs that run with less than their minimum, and since when."""
        self.searched: tuple[Searched, ...] = ()
        """The waiting gangs for which others could not be displaced, by name."""
        self.wanted: dict[str, dict[Shape, int]] = {}
        """Per queue, how many tasks of each shape wait."""
        self.epoch_usage: tuple[Usage, ...] = ()
        self.accounts = Accounts(self.queues)
        self.ledger = Ledger(self.settings.half_life_s)
        self._parents: set[str] = set()
        self._members: dict[GangId, dict[TaskId, Task]] = {}
        self._there: dict[GangId, dict[str, int]] = {}
        """Per gang and group, the members that work or have succeeded."""
        self._leaving: set[TaskId] = set()
        self.active: dict[GangId, int] = {}
        """The gangs with bound or running tasks, and how many."""
        self._on_node: dict[str, dict[TaskId, None]] = {}
        self._columns: Columns | None = None
        self._neighbours: Neighbours | None = None
        self._subjects, self._ports = dict[Subject, int](), Ports()
        self._memory: dict[Callable[..., object], object] = {}

    @classmethod
    def of(cls, snapshot: Snapshot) -> Cluster:
        """The cluster that a snapshot describes."""
        cluster = cls(snapshot.settings, snapshot.now)
        for node in snapshot.nodes:
            cluster._see_node(node)
        for queue in snapshot.queues:
            cluster._see_queue(queue)
        for topology in snapshot.topologies:
            cluster.topologies[topology.name] = topology
        for gang in snapshot.gangs:
            cluster._see_gang(gang)
        for task in snapshot.tasks:
            cluster._see_task(task)
        known = {each.gang: each.since for each in snapshot.broken}
        cluster.broken = {gang: known.get(gang, now) for gang, now in cluster.broken.items()}
        cluster.searched = snapshot.searched
        for each in snapshot.usage:
            holder = Holder(each.queue, each.user, each.model)
            cluster.ledger.restore(holder, each.milli_seconds, snapshot.now)
        cluster.holds = {hold.gang: hold for hold in snapshot.holds}
        cluster.epoch_usage = snapshot.epoch_usage
        return cluster

    def snapshot(self) -> Snapshot:
        """The whole state as one value, in an order that does not depend on history."""
        return Snapshot(
            now=self.now,
            nodes=tuple(self.nodes[name] for name in sorted(self.nodes)),
            topologies=tuple(self.topologies[name] for name in sorted(self.topologies)),
            queues=tuple(self.queues[name] for name in sorted(self.queues)),
            gangs=tuple(self.gangs[gang] for gang in sorted(self.gangs)),
            tasks=tuple(self.tasks[task] for task in sorted(self.tasks)),
            holds=tuple(self.holds[gang] for gang in sorted(self.holds)),
            usage=self._usage_now(),
            epoch_usage=self.epoch_usage,
            broken=tuple(Broken(gang, self.broken[gang]) for gang in sorted(self.broken)),
            searched=self.searched,
            settings=self.settings,
        )

    # -- what happens

    def advance(self, now: int) -> None:
        """Move the clock; usage reaches the shares only when an epoch begins."""
        epoch_s = self.settings.epoch_s
        if now // epoch_s != self.now // epoch_s:
            usage = tuple(Usage(*holder, value) for holder, value in self.ledger.at(now))
            if usage != self.epoch_usage:
                self.epoch_usage = usage
                self.version += 1
        self.now = max(self.now, now)

    def apply(self, event: Event) -> None:
        """Take note of one event."""
        self.version += 1
        match event:
            case events.NodeSeen(node):
                self._see_node(node)
            case events.NodeGone(name):
                self._lose_node(name)
            case events.QueueSeen(queue):
                self._see_queue(queue)
            case events.QueueGone(name):
                self.queues.pop(name, None)
                self.tree_version += 1
                self._recharge()
            case events.TopologySeen(topology):
                self.topologies[topology.name] = topology
                self._memory.clear()
            case events.TopologyGone(name):
                self.topologies.pop(name, None)
                self._memory.clear()
            case events.SettingsSeen(settings):
                self._set(settings)
            case events.GangSeen(gang):
                self._see_gang(gang)
            case events.GangGone(gang):
                self._lose_gang(gang)
            case _:
                self._apply_to_task(event)

    def assume(self, plan: Promises) -> None:
        """Act as if the plan were already carried out; failures come back as events."""
        for action in plan.actions:
            task = self.tasks[action.task]
            if isinstance(action, Bind):
                node, devices = action.node, action.devices
                self._see_task(replace(task, state=TaskState.BOUND, node=node, devices=devices))
            else:
                state, since = TaskState.RELEASING, self.now
                self._see_task(replace(task, state=state, releasing_since=since))
            self.version += 1
        holds = {hold.gang: hold for hold in plan.holds}
        if holds != self.holds or plan.searched != self.searched:
            self.holds, self.searched = holds, plan.searched
            self.version += 1

    # -- what is

    def members(self, gang: GangId) -> Collection[Task]:
        """The tasks of a gang, whatever their state."""
        found = self._members.get(gang)
        return found.values() if found else ()

    def running(self) -> Iterable[Task]:
        """All tasks that are bound or running, in order of their ids."""
        return (task for _, task in sorted(self.tasks.items()) if task.state in ACTIVE)

    def leaving(self) -> Iterable[Task]:
        """All tasks that are on their way out, in order of their ids."""
        return (self.tasks[task] for task in sorted(self._leaving))

    def allocated(self, queue: str, dimension: str) -> int:
        """What a queue and all below it have."""
        return self.accounts.held.get(queue, {}).get(dimension, 0)

    def is_leaf(self, queue: str) -> bool:
        """Is it a queue in which gangs may stand?"""
        return queue in self.queues and queue not in self._parents

    def usage_of(self, queue: str) -> int:
        """Decayed GPU time of a queue and all below it, in thousandth GPU-seconds."""
        return sum(
            value for holder, value in self.ledger.at(self.now) if self._is_below(holder, queue)
        )

    @property
    def columns(self) -> Columns:
        """The arrays, laid out anew if nodes have changed."""
        if self._columns is None:
            self._lay_out()
        return cast(Columns, self._columns)

    @property
    def neighbours(self) -> Neighbours:
        """The tallies of pod affinity and spread."""
        if self._neighbours is None:
            self._lay_out()
        return cast(Neighbours, self._neighbours)

    def recall(self, make: Callable[[Cluster], Memory]) -> Memory:
        """What the engine remembered about these columns; made afresh after a node changed."""
        self.columns  # noqa: B018 - lays out, and so forgets, if need be
        if make not in self._memory:
            self._memory[make] = make(self)
        return cast(Memory, self._memory[make])

    def _set(self, settings: Settings) -> None:
        if settings != self.settings:
            self.settings, self.searched = settings, ()
            self.ledger.keep_for(settings.half_life_s, self.now)
            self._memory.clear()

    # -- nodes and queues

    def _see_node(self, node: Node) -> None:
        if self.nodes.get(node.name) == node:
            return
        tasks = [self.tasks[task] for task in self._on_node.get(node.name, ())]
        for task in tasks:
            self._charge(task, -1)
        self.nodes[node.name] = node
        self._columns, self.searched = None, ()
        for task in tasks:
            self._charge(task, 1)

    def _lose_node(self, name: str) -> None:
        for task in list(self._on_node.get(name, ())):
            self._lose_task(task)
        self._on_node.pop(name, None)
        if self.nodes.pop(name, None) is not None:
            self._columns = None

    def _see_queue(self, queue: Queue) -> None:
        before = self.queues.get(queue.name)
        self.queues[queue.name] = queue
        self.tree_version += 1
        self.running_version += 1
        self.searched = ()
        if before is None or before.parent != queue.parent:
            self._recharge()

    def _recharge(self) -> None:
        """The tree has changed: charge every task along its new path."""
        self._parents = {queue.parent for queue in self.queues.values()}
        self.accounts = Accounts(self.queues)
        for task in self.tasks.values():
            if task.state in OCCUPYING:
                self._charge_queue(task, 1)

    def _lay_out(self) -> None:
        self._columns = columns = Columns(self.nodes.values(), self._ports.shared())
        self._neighbours = Neighbours(columns, self._subjects)
        self._memory.clear()
        for task in self.tasks.values():
            if task.state in OCCUPYING:
                self._occupy(task, 1)

    # -- gangs and tasks

    def _see_gang(self, gang: Gang) -> None:
        before = self.gangs.get(gang.id)
        tasks = list(self.members(gang.id))
        if before is not None and before != gang:
            for task in tasks:
                self._forget(task)
        self.gangs[gang.id] = gang
        if before is not None and before != gang:
            self.running_version += 1
            for task in tasks:
                self._note(task)
            self._watch(gang)

    def _lose_gang(self, gang: GangId) -> None:
        for task in list(self.members(gang)):
            self._lose_task(task.id)
        self.gangs.pop(gang, None)
        self._members.pop(gang, None)
        self._there.pop(gang, None)
        self.broken.pop(gang, None)
        self.stamps.pop(gang, None)
        self.holds.pop(gang, None)

    def _apply_to_task(self, event: Event) -> None:
        if isinstance(event, events.TaskSeen):
            self._see_task(event.task)
            return
        task = self.tasks.get(cast(Any, event).task)
        if task is None:
            return
        match event:
            case events.TaskStarted():
                self._see_task(replace(task, state=TaskState.RUNNING, started_at=self.now))
            case events.TaskEnded(_, succeeded):
                state = TaskState.SUCCEEDED if succeeded else TaskState.FAILED
                self._see_task(replace(task, state=state))
            case events.BindFailed():
                state = TaskState.WAITING
                self._see_task(replace(task, state=state, node="", devices=(), started_at=None))
            case events.EvictFailed():
                was = TaskState.BOUND if task.started_at is None else TaskState.RUNNING
                self._see_task(replace(task, state=was, releasing_since=None))
            case _:
                self._lose_task(task.id)

    def _see_task(self, task: Task) -> None:
        before = self.tasks.get(task.id)
        if before == task:
            return
        if before is not None:
            self._forget(before)
        self.tasks[task.id] = task
        self._members.setdefault(task.gang, {})[task.id] = task
        self._note(task)
        self._watch(self.gangs[task.gang])

    def _lose_task(self, task_id: TaskId) -> None:
        task = self.tasks.pop(task_id, None)
        if task is not None:
            self._forget(task)
            self._members[task.gang].pop(task_id, None)
            self._watch(self.gangs[task.gang])

    def _watch(self, gang: Gang) -> None:
        """Take note of when a gang falls below its minimum, and when it is whole again."""
        there = self._there.get(gang.id, {})
        whole = sum(there.values()) >= gang.needed() and all(
            there.get(group.name, 0) >= group.minimum for group in gang.groups
        )
        if whole or gang.id not in self.active:
            self.broken.pop(gang.id, None)
        else:
            self.broken.setdefault(gang.id, self.now)

    def _count_member(self, task: Task, by: int) -> None:
        if task.state in ACTIVE:
            _count(self.active, task.gang, by)
        if task.state in ACTIVE or task.state == TaskState.SUCCEEDED:
            _count(self._there.setdefault(task.gang, {}), task.group, by)

    def _note(self, task: Task) -> None:
        gang = self.gangs[task.gang]
        self._stamp(gang.id)
        self._count_member(task, 1)
        for subject in subjects_of(task.shape.constraints, gang.namespace):
            if subject not in self._subjects:
                self._columns = self._neighbours = None
            _count(self._subjects, subject, 1)
        for port in task.shape.request.ports:
            is_shared, columns = self._ports.count(port, 1) > 1, self._columns
            if is_shared and columns is not None and not columns.knows(port):
                self._columns = self._neighbours = None
        if task.state == TaskState.WAITING:
            _count(self.waiting.setdefault(gang.queue, {}), gang.id, 1)
            _count(self.wanted.setdefault(gang.queue, {}), task.shape, 1)
        elif task.state in OCCUPYING:
            self.running_version += 1
            if task.state == TaskState.RELEASING:
                self._leaving.add(task.id)
            self._on_node.setdefault(task.node, {})[task.id] = None
            self._charge(task, 1)
            if self._columns is not None:
                self._occupy(task, 1)

    def _forget(self, task: Task) -> None:
        gang = self.gangs[task.gang]
        self._stamp(gang.id)
        self._count_member(task, -1)
        for subject in subjects_of(task.shape.constraints, gang.namespace):
            # an unused tally stays until columns are laid out again; counting on is harmless
            _count(self._subjects, subject, -1)
        for port in task.shape.request.ports:
            self._ports.count(port, -1)
        if task.state == TaskState.WAITING:
            _count(self.waiting[gang.queue], gang.id, -1)
            _count(self.wanted[gang.queue], task.shape, -1)
        elif task.state in OCCUPYING:
            self.running_version += 1
            self._leaving.discard(task.id)
            self._on_node[task.node].pop(task.id, None)
            self._charge(task, -1)
            if self._columns is not None:
                self._occupy(task, -1)

    def _stamp(self, gang: GangId) -> None:
        self._changes += 1
        self.stamps[gang] = self._changes

    def _occupy(self, task: Task, sign: int) -> None:
        columns, gang = self.columns, self.gangs[task.gang]
        slot = columns.slot.get(task.node)
        if slot is None:
            return
        amounts, slices = columns.taken(task.shape.request), columns.present(slot, task.devices)
        (columns.take if sign > 0 else columns.give)(slot, amounts, slices)
        who = who_is(task, gang.namespace)
        self.neighbours.count(who, task.shape.constraints, slot, sign)

    def _charge(self, task: Task, sign: int) -> None:
        self._charge_queue(task, sign)
        self._charge_ledger(task, sign)

    def _charge_queue(self, task: Task, sign: int) -> None:
        gang, node = self.gangs[task.gang], self.nodes.get(task.node)
        charges = charges_of(task.shape.request, task.devices, node)
        self.accounts.charge(gang, charges, sign)

    def _charge_ledger(self, task: Task, sign: int) -> None:
        gang = self.gangs[task.gang]
        for model, milli in models_of(task.devices, self.nodes.get(task.node)):
            self.ledger.change(Holder(gang.queue, gang.user, model), sign * milli, self.now)

    def _usage_now(self) -> tuple[Usage, ...]:
        return tuple(Usage(*holder, value) for holder, value in self.ledger.at(self.now))

    def _is_below(self, holder: Holder, queue: str) -> bool:
        return queue == ROOT or queue in self.accounts.path(holder.queue)


def _count(counts: dict[Key, int], key: Key, by: int) -> None:
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        del counts[key]
