"""The state of a cluster, changed by events and by the actions of assumed plans.

Events are applied one by one; nothing is rebuilt per cycle. The objects and the indexes over them
are the inventory (`inventory.py`). This module applies events to it, and keeps holds, pending
checkpoints and failures. The caches of the engine are attached here too (`recall`), so that they
live exactly as long as the columns that they describe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from windlass.model import events
from windlass.model.actions import (
    Action,
    Bind,
    Evict,
    Hold,
    HoldYielded,
    PendingCheckpoint,
    RequestCheckpoint,
    WithdrawCheckpoint,
)
from windlass.model.events import Event
from windlass.model.jobs import ACTIVE, GangId, Task, TaskId, TaskState
from windlass.model.settings import Ordering, Settings
from windlass.state.checkpoint_requests import CheckpointRequests
from windlass.state.churn_guard import ChurnGuard
from windlass.state.failures import FailureLog
from windlass.state.inventory import Inventory
from windlass.state.request_mix import ArrivalCounts
from windlass.state.snapshot import BelowMinimum, FailedSearch, RunTimes, Snapshot, UserUsage
from windlass.usage.ledger import Holder
from windlass.usage.run_times import RunGroup, Runs, WorkGroup

Memory = TypeVar("Memory")


class Promises(Protocol):
    """The parts of a plan that `assume` needs."""

    @property
    def actions(self) -> Iterable[Action]: ...
    @property
    def holds(self) -> Iterable[Hold]: ...
    @property
    def searched(self) -> tuple[FailedSearch, ...]: ...
    @property
    def gave_way(self) -> Iterable[HoldYielded]: ...


class Cluster(Inventory):
    """Everything known about a cluster."""

    heard: list[Event | int] | None = None
    """The events and moves of the clock since a recorder emptied it; None without a recorder."""

    def __init__(self, settings: Settings | None = None, now: int = 0) -> None:
        super().__init__(settings or Settings(), now)
        self.version = 0
        """Grows with every change that could matter to a decision; the plan cache compares it."""
        self.holds: dict[GangId, Hold] = {}
        """Changed by `HoldSeen`, `HoldGone`, `GangGone` and `assume` only."""
        self.epoch_usage: tuple[UserUsage, ...] = ()
        """The usage that counts for shares; set at the begin of each epoch."""
        self.gains, self.partings = ChurnGuard(), CheckpointRequests()
        self.failures, self.runs = FailureLog(), Runs()

    @classmethod
    def of(cls, snapshot: Snapshot) -> Cluster:
        """Return the cluster that a snapshot describes."""
        cluster = cls(snapshot.settings, snapshot.now)
        for node in snapshot.nodes:
            cluster._see_node(node)
        for queue in snapshot.queues:
            cluster._see_queue(queue)
        for topology in snapshot.topologies:
            cluster._see_topology(topology)
        for gang in snapshot.gangs:
            cluster._see_gang(gang)
        for task in snapshot.tasks:
            cluster._see_task(task)
        if snapshot.arrived:
            cluster.mix = ArrivalCounts(snapshot.arrived, snapshot.arrived_since)
        else:
            cluster._take_over_mix()
        known = {each.gang: each.since for each in snapshot.broken}
        cluster.broken = {gang: known.get(gang, now) for gang, now in cluster.broken.items()}
        orphaned = {each.gang: each.node for each in snapshot.broken if each.node}
        cluster.orphaned = {gang: orphaned[gang] for gang in cluster.broken if gang in orphaned}
        cluster.searched = snapshot.searched
        cluster.gains = ChurnGuard(snapshot.gained)
        cluster.partings = CheckpointRequests(snapshot.partings)
        cluster.failures = FailureLog(snapshot.failures, snapshot.acquitted)
        for each in snapshot.usage:
            holder = Holder(each.queue, each.user, each.model)
            cluster.ledger.restore(holder, each.milli_seconds, snapshot.now)
        for run in snapshot.runs:
            who = WorkGroup(run.queue, run.user, run.name, run.gpu_milli)
            cluster.runs.restore(who, RunGroup(run.count, run.total, run.squares))
        cluster.holds = {hold.gang: hold for hold in snapshot.holds}
        cluster.epoch_usage = snapshot.epoch_usage
        return cluster

    def snapshot(self) -> Snapshot:
        """Return the whole state as one value, in an order that does not depend on history."""
        return Snapshot(
            now=self.now,
            nodes=tuple(self.nodes[name] for name in sorted(self.nodes)),
            topologies=tuple(self.topologies[name] for name in sorted(self.topologies)),
            queues=tuple(self.queues[name] for name in sorted(self.queues)),
            gangs=tuple(self.gangs[gang] for gang in sorted(self.gangs)),
            tasks=tuple(self.tasks[task] for task in sorted(self.tasks)),
            holds=tuple(self.holds[gang] for gang in sorted(self.holds)),
            partings=self.partings.now(),
            usage=self._usage_at(self.now),
            epoch_usage=self.epoch_usage,
            broken=tuple(
                BelowMinimum(gang, self.broken[gang], self.orphaned.get(gang, ""))
                for gang in sorted(self.broken)
            ),
            searched=self.searched,
            gained=self.gains.now(),
            runs=tuple(RunTimes(*who, *group) for who, group in self.runs),
            arrived=self.mix.arrived(),
            arrived_since=self.mix.since,
            failures=self.failures.now(),
            acquitted=self.failures.forgiven(),
            settings=self.settings,
        )

    # -- events

    def advance(self, now: int) -> None:
        """Move the clock; past usage counts for the shares only from the next epoch on."""
        epoch_s = self.settings.epoch_s
        if self.heard is not None and now > self.now:
            self.heard.append(now)
        if now // epoch_s != self.now // epoch_s:
            usage = self._usage_at(now)
            if usage != self.epoch_usage:
                self.epoch_usage = usage
                self.version += 1
                self.gains.forget()
        self.now = max(self.now, now)
        self.failures.forget_until(self.now - self.settings.failure_window_s)

    def apply(self, event: Event) -> None:
        """Apply one event."""
        self.version += 1
        if self.heard is not None:
            self.heard.append(event)
        self.gains.observe(event, self)
        if isinstance(event, events.WorkEnded | events.NodeTrusted):
            self.failures.take(event)
        elif isinstance(event, events.HoldSeen):
            self.holds[event.hold.gang] = event.hold
        elif isinstance(event, events.HoldGone):
            self.holds.pop(event.gang, None)
            if event.retry_searches:
                self.searched = ()
        else:
            self._apply(event)

    def _apply(self, event: Event) -> None:
        match event:
            case events.NodeSeen(node):
                self._see_node(node)
            case events.NodeGone(name):
                self._lose_node(name)
            case events.QueueSeen(queue):
                self._see_queue(queue)
            case events.QueueGone(name):
                self._lose_queue(name)
            case events.TopologySeen(topology):
                self._see_topology(topology)
            case events.TopologyGone(name):
                self._lose_topology(name)
            case events.SettingsSeen(settings):
                self._set(settings)
            case events.GangSeen(gang):
                self._see_gang(gang)
            case events.GangGone(gang):
                self._lose_gang(gang)
                self.holds.pop(gang, None)
                self.partings.standing.pop(gang, None)
            case _:
                self._apply_to_task(event)

    def _apply_to_task(self, event: Event) -> None:
        if isinstance(event, events.TaskSeen):
            self._see_task(event.task)
            return
        if isinstance(event, events.CheckpointRequestSeen):
            self._recall(event.parting)
            return
        task = self.tasks.get(cast(Any, event).task)
        if task is None:
            return
        match event:
            case events.TaskStarted():
                self._see_task(replace(task, state=TaskState.RUNNING, started_at=self.now))
            case events.TaskEnded(_, succeeded):
                if succeeded and self.settings.order is Ordering.SHORTEST:
                    gang, members = self.gangs[task.gang], self.members(task.gang)
                    self.runs.note_end(gang, members, task, self.now)
                since = self.now if task.started_at is None else task.started_at
                ended = events.WorkEnded(task.gang, task.node, since, self.now, succeeded)
                self.failures.take(ended)
                state = TaskState.SUCCEEDED if succeeded else TaskState.FAILED
                self._see_task(replace(task, state=state))
            case events.BindFailed():
                state = TaskState.WAITING
                self._see_task(replace(task, state=state, node="", devices=(), started_at=None))
            case events.EvictFailed():
                self._stay(task)
            case events.Answered():
                self.partings.answer(task.gang, event)
            case _:
                self._lose_task(task.id)

    def _recall(self, parting: PendingCheckpoint) -> None:
        """Restore a checkpoint request of a previous leader; its tasks leave since it was made."""
        self.partings.standing[parting.gang] = parting
        for each in parting.evictions:
            task = self.tasks.get(each.task)
            if task is not None and task.state in ACTIVE:
                since = parting.asked_at
                self._see_task(replace(task, state=TaskState.RELEASING, releasing_since=since))

    def _stay(self, task: Task) -> None:
        was = TaskState.BOUND if task.started_at is None else TaskState.RUNNING
        self._see_task(replace(task, state=was, releasing_since=None))

    # -- actions

    def assume(self, plan: Promises) -> None:
        """Act as if the plan were already carried out; failures come back as events.

        The holds of the plan replace all others.
        """
        self.gains.note(plan.actions, self.tasks)
        self.gains.note_holds(plan.gave_way)
        for action in plan.actions:
            self._assume(action)
            self.version += 1
        holds = {hold.gang: hold for hold in plan.holds}
        if holds != self.holds or plan.searched != self.searched:
            self.holds, self.searched = holds, plan.searched
            self.version += 1
        self._take_over_mix()

    def _assume(self, action: Action) -> None:
        match action:
            case Bind(name, node, devices):
                task = self.tasks[name]
                self._see_task(replace(task, state=TaskState.BOUND, node=node, devices=devices))
            case Evict(name):
                self.partings.standing.pop(self.tasks[name].gang, None)
                self._let_go(name)
            case RequestCheckpoint(parting):
                self.partings.standing[parting.gang] = parting
                for each in parting.evictions:
                    self._let_go(each.task)
            case WithdrawCheckpoint(gang):
                parting = self.partings.standing.pop(gang, None)
                for each in parting.evictions if parting else ():
                    task = self.tasks.get(each.task)
                    if task is not None and task.state == TaskState.RELEASING:
                        self._stay(task)

    def _let_go(self, name: TaskId) -> None:
        task = self.tasks[name]
        self._see_task(replace(task, state=TaskState.RELEASING, releasing_since=self.now))

    # -- questions

    def coming_free(self) -> list[Task]:
        """Return the releasing tasks that are not stuck; a pending checkpoint may take its time."""
        patience, asked = self.settings.stuck_after_s, self.partings.standing
        return [
            task
            for task in self.leaving()
            if task.releasing_since is None
            or self.now - task.releasing_since <= patience
            or task.gang in asked
        ]

    def recall(self, make: Callable[[Cluster], Memory]) -> Memory:
        """Return a cache of the engine about the columns; made again after a node has changed."""
        memory = self._layout.memory
        if make not in memory:
            memory[make] = make(self)
        return cast(Memory, memory[make])
