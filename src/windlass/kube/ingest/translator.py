"""Objects of the API server in, events for the engine out.

    events = translator.observe(observation)
    events = translator.assume(plan.actions)       and the other results of our own actions

Every method that can change something returns the events that follow, in the order in which the
cluster has to apply them; the caller applies them. The translator never reads the cluster, waits or
writes. It keeps the observed objects, and the actions that were decided and not yet observed
(`assumed.py`). Pods are kept in `pod_table.py`, gangs in `gangs.py`.

Pods that others have placed count as they are and are left alone. Pods on nodes that were not
observed yet, or are gone, do not count until the node is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from windlass.crds.read import OwnedQueue, read_queue, read_topology
from windlass.kube.ingest.gangs import GANGS
from windlass.kube.ingest.owners import SignedMarks
from windlass.kube.ingest.pod_record import PRESENT
from windlass.kube.ingest.pod_table import PodTable
from windlass.kube.ingest.scope import Scope
from windlass.kube.ingest.volume_state import Storage
from windlass.kube.refs import Kind, ObjectLost, Observation, OwnerSwitch
from windlass.model import events
from windlass.model.actions import Action, Bind, Evict, RequestCheckpoint, WithdrawCheckpoint
from windlass.model.events import Event
from windlass.model.jobs import ACTIVE, OCCUPYING, GangId, TaskId, TaskState
from windlass.model.nodes import NodeTrouble
from windlass.model.reasons import ReasonCode
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.kinds import Key
from windlass.workloads.nodes import node_of, trusted_since, worse
from windlass.workloads.objects import CsiNode, Stored, wire


class Translator:
    """The observed cluster, and the assumptions about it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._nodes: dict[str, wire.NodeObject] = {}
        """The nodes in scope."""
        self._node_trouble: dict[str, NodeTrouble | None] = {}
        """Trouble that others than the node object report; see `node_trouble_seen`."""
        self._storage = Storage()
        self._pods = PodTable(scope, self._nodes, self._storage)
        self.assumed, self.orphans = self._pods.assumed, self._pods.orphans
        self.gangs, self.suspended = self._pods.gangs, self._pods.suspended
        self.placeholders = self._pods.placeholders
        self.marks = SignedMarks(scope)

    # -- observations

    def observe(self, observation: Observation) -> list[Event]:
        """Return the events that follow from an object that is new, has changed or was deleted.

        Policies have no events here: the settings depend on whether evictions are paused.
        """
        gone = isinstance(observation, ObjectLost)
        match observation.kind, observation.object:
            case "pods", wire.Pod() as pod:
                return self.pod_gone(pod) if gone else self.pod_seen(pod)
            case "nodes", wire.NodeObject() as node:
                return self.node_gone(node.metadata.name) if gone else self.node_seen(node)
            case "priorities", wire.PriorityClass() as priority:
                return self.gangs.priority_seen(priority, gone=gone)
            case kind, wire.Owner() as owner:
                return self._observe_owner(kind, owner, gone)
            case _, Stored() as stored:
                return self.storage_seen(stored, gone=gone)
            case kind, other:
                raise TypeError(f"unhandled input type: {type(other).__name__} among {kind}")

    def _observe_owner(self, kind: Kind, owner: wire.Owner, gone: bool) -> list[Event]:
        name, labels = owner.metadata.name, owner.metadata.labels or {}
        match kind:
            case "queues":
                if gone:
                    return self.gangs.queue_gone(name)
                queue = read_queue(name, owner.spec).value
                return self.queue_seen(queue) if queue is not None else []
            case "topologies":
                return self._observe_topology(owner, gone)
            case "namespaces":
                return self.namespace_gone(name) if gone else self.namespace_seen(name, labels)
            case "policies":
                return []
            case _:
                key = Key.of(kind)
                return self.owner_gone(key, owner) if gone else self.owner_seen(key, owner)

    def _observe_topology(self, owner: wire.Owner, gone: bool) -> list[Event]:
        name = owner.metadata.name
        if gone:
            return [events.TopologyGone(name), *self.gangs.topology_gone(name)]
        topology = read_topology(name, owner.spec).value
        if topology is None:
            return []
        return [events.TopologySeen(topology), *self.gangs.topology_seen(name)]

    def pod_seen(self, pod: wire.Pod) -> list[Event]:
        """Return the events of a pod that is new or has changed."""
        self._pods.see(pod)
        return self._take_events()

    def pod_gone(self, pod: wire.Pod) -> list[Event]:
        """Return the events of a pod that was deleted."""
        self._pods.lose(pod)
        return self._take_events()

    def queue_seen(self, queue: OwnedQueue) -> list[Event]:
        """Return the events of a queue that is new or has changed."""
        return self.gangs.queue_seen(queue)

    def owner_seen(self, kind: Key, owner: wire.Owner) -> list[Event]:
        """Return the events of an owner of pods, or a Gang object, that is new or has changed."""
        pods = self._pods
        owner = self.marks.without_unsigned(kind, owner)
        dependents = pods.owners.see(kind, owner)
        if kind == GANGS:
            pods.events += self.gangs.object_seen(owner)
        changed = self.suspended.see(kind, owner, pods.now)
        # these placeholders are made again below: they need no evaluation before that
        made_again = {task for gang in changed for task in self.placeholders.of(gang)}
        pods.look_again(task for task in dependents if task not in made_again)
        for gang in changed:
            pods.fill(gang)
        return self._take_events()

    def owner_gone(self, kind: Key, owner: wire.Owner) -> list[Event]:
        """Return the events of an owner that was deleted.

        The deletion of its pods is observed separately. Pods of a Gang object outlive it.
        """
        pods = self._pods
        pods.owners.lose(kind, owner)
        for gang in self.suspended.lose(owner):
            pods.fill(gang)
        if kind == GANGS:
            pods.events += self.gangs.object_gone(owner)
            pods.look_again(pods.owners.dependents(kind, owner))
        return self._take_events()

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> list[Event]:
        """Return the events of a namespace that is new or has other labels."""
        self._pods.events += self.gangs.namespace_seen(name, labels)
        self._pods.look_again(self._pods.shapes.see_namespace(name, labels))
        return self._take_events()

    def namespace_gone(self, name: str) -> list[Event]:
        """Return the events of a namespace that was deleted; its pods were deleted before it."""
        self.gangs.namespace_gone(name)
        self._pods.look_again(self._pods.shapes.see_namespace(name, None))
        return self._take_events()

    def storage_seen(self, stored: Stored, *, gone: bool = False) -> list[Event]:
        """Return the events of a claim, a volume, a class or a driver that changed or is gone."""
        before = self._storage.limited()
        self._pods.look_again(self._storage.see(stored, gone=gone))
        if isinstance(stored, CsiNode):
            # a driver that has a limit on one node counts as unlimited on all others
            same = self._storage.limited() == before
            for name in [stored.metadata.name] if same else list(self._nodes):
                if name in self._nodes:
                    self._see_node(self._nodes[name])
        return self._take_events()

    def node_seen(self, node: wire.NodeObject) -> list[Event]:
        """Return the events of a node that is new or has changed."""
        self._see_node(node)
        return self._take_events()

    def node_trouble_seen(self, name: str, trouble: NodeTrouble | None) -> list[Event]:
        """Return the events of trouble with a node that its object does not show; None: no more."""
        before, self._node_trouble[name] = self._node_trouble.get(name), trouble
        if trouble != before and name in self._nodes:
            self._see_node(self._nodes[name])
        return self._take_events()

    def node_gone(self, name: str) -> list[Event]:
        """Return the events of a node that was deleted, or left the scope; its tasks are lost."""
        self._lose_node(name)
        return self._take_events()

    def _see_node(self, node: wire.NodeObject) -> None:
        pods, name = self._pods, node.metadata.name
        if not self.scope.has_node(node.metadata.labels or {}):
            self._lose_node(name)
            return
        made = node_of(node)
        if limits := self._storage.limits(name):
            made = replace(made, extra={**made.extra, **limits})
        if trouble := self._node_trouble.get(name):
            made = replace(made, trouble=worse(made.trouble, trouble))
        before, trusted = self._nodes.get(name), trusted_since(node)
        if trusted is not None and (before is None or trusted_since(before) != trusted):
            pods.events.append(events.NodeTrusted(name, trusted))
        self._nodes[name] = node
        pods.events.append(events.NodeSeen(made))
        for task in pods.devices.see_node(name, len(made.gpus)):
            pods.tell_task(task)
        for pod in self.orphans.on(name):
            pods.see(pod)

    def _lose_node(self, name: str) -> None:
        if name not in self._nodes:
            return
        del self._nodes[name]
        self._pods.devices.forget_node(name)
        # the node before its tasks: the engine then knows why the gangs on it lost members
        self._pods.events.append(events.NodeGone(name))
        self._pods.lose_node(name)

    # -- our own actions

    def assume(self, actions: Iterable[Action]) -> list[Event]:
        """Assume that actions are carried out, which the cluster has assumed already.

        Return the events of tasks that stay because a checkpoint request was withdrawn.
        """
        now = self._pods.now
        for action in actions:
            match action:
                case Bind(task, node, devices):
                    self.assumed.bind(action, now)
                    self._pods.devices.keep(task, node, devices)
                    record = self._pods.get(task)
                    assert record is not None, f"no pod behind {task}"
                    self._pods.move(task, record, node)
                case Evict(task):
                    self.assumed.evict(task, now)
                case RequestCheckpoint(pending):
                    for evict in pending.evictions:
                        self.assumed.evict(evict.task, now)
                case WithdrawCheckpoint(gang):
                    for task in self.gangs.members(gang):
                        self._stay(task)
        return self._take_events()

    def evict_again(self, task: TaskId) -> list[Event]:
        """Assume an eviction that a previous leader promised; return the events."""
        if record := self._pods.get(task):
            self.assumed.evict(task, self._pods.now)
            self._pods.tell_task(task, record)
            self._pods.fill(record.gang)
        return self._take_events()

    def bind_failed(self, task: TaskId, why: str) -> list[Event]:
        """Undo an assumed bind that did not happen: the pod waits, and its gang backs off."""
        if self.assumed.settle(task) is None:
            return []
        pod = self.pod(task) or self.orphans.take(task)
        if pod is None:
            return []
        self._pods.see(pod)
        if record := self._pods.get(task):
            self._back_off(record.gang, why, ReasonCode.FAILED_BEFORE)
        return self._take_events()

    def evict_failed(self, task: TaskId) -> list[Event]:
        """Undo an assumed eviction that was refused: the pod runs on."""
        self._stay(task)
        return self._take_events()

    def protect(self, task: TaskId) -> list[Event]:
        """Let the gang of a pod be no victim for a while: its eviction would fail its owner."""
        if record := self._pods.get(task):
            self.assumed.protect(record.gang, self._pods.now)
            self._pods.events += self.gangs.refresh(record.gang)
        return self._take_events()

    def back_off(
        self, gang: GangId, what: str, why: ReasonCode = ReasonCode.FAILED_BEFORE
    ) -> list[Event]:
        """Let a gang wait for a moment before its next try; `what` says what went wrong."""
        self._back_off(gang, what, why)
        return self._take_events()

    def advance(self, now: int) -> list[Event]:
        """Move the clock; return the events of waits that have ended.

        Gangs whose backoff has ended may be tried again. Gangs whose followers did not come in time
        lose the placeholders of these, and the places that were held for them.
        """
        pods = self._pods
        before, pods.now = pods.now, max(pods.now, now)
        pods.events += self.gangs.advance(now)
        expired = pods.leaders.expired(before, pods.now)
        waiting = [gang for gang in expired if self.placeholders.of(gang)]
        for gang in waiting:
            pods.fill(gang)
        pods.events += [events.HoldGone(gang) for gang in waiting]
        return self._take_events()

    def _stay(self, task: TaskId) -> None:
        if self.assumed.stay(task) and (record := self._pods.get(task)):
            self._pods.tell_task(task, record)
            self._pods.fill(record.gang)

    def _back_off(self, gang: GangId, what: str, why: ReasonCode) -> None:
        self.assumed.fail(gang, what, self._pods.now, why)
        self._pods.events += self.gangs.refresh(gang)

    def _take_events(self) -> list[Event]:
        taken, self._pods.events = self._pods.events, []
        return taken

    # -- questions

    def pod(self, task: TaskId) -> wire.Pod | None:
        """Return the pod behind a task as it was observed last; None if there is no such task."""
        record = self._pods.get(task)
        return record.pod if record else None

    def gang(self, task: TaskId) -> GangId | None:
        """Return the gang of a task; None if there is no such task."""
        record = self._pods.get(task)
        return record.gang if record else None

    def node(self, name: str) -> wire.NodeObject | None:
        """Return a node as it was observed last; None if it is not there or not in scope."""
        return self._nodes.get(name)

    def selecting(self, task: TaskId) -> tuple[str, ...]:
        """Return the claims of a pod that need its node before they get a volume."""
        pod = self.pod(task)
        return tuple(self._storage.needs(pod).selecting) if pod else ()

    def is_led(self, gang: GangId) -> bool:
        """Return whether all leaders of a gang exist whose followers are created after them."""
        return self._pods.is_led(gang)

    def switch(self, gang: GangId, leaving: Set[TaskId]) -> OwnerSwitch | None:
        """Return how a gang can be stopped whole and come back; None if it cannot.

        All tasks of its owner that run must be among those that leave, because they stop with it.
        """
        live = [
            task
            for task in self.gangs.members(gang)
            if task in leaving or self._pods.state(task) in PRESENT
        ]
        if not live or (self.suspended.of(gang) and self.placeholders.of(gang)):
            return None
        pods = [pod for task in live if (pod := self.pod(task))]
        stoppable = self.suspended.switch(gang, pods, self._pods.now)
        if stoppable is None or self.gangs.needed(gang) > stoppable.pods:
            return None
        stays = (task for task in stoppable.used_by if task not in leaving)
        return None if any(self._pods.state(task) in ACTIVE for task in stays) else stoppable.switch

    def failing(self, leaving: Mapping[GangId, int]) -> set[GangId]:
        """Return the gangs whose owners would fail for good if so many of their pods were evicted.

        An owner counts the failures of all its gangs, also of pods that are leaving already and of
        pods on nodes that are gone.
        """
        spent: dict[str, int] = {}
        failing: set[GangId] = set()
        for gang, count in leaving.items():
            left, owner = self.gangs.forgiven(gang)
            if owner not in spent:
                tasks = self.suspended.tasks_of(owner)
                going = sum(self._pods.state(task) == TaskState.RELEASING for task in tasks)
                spent[owner] = going + self._pods.count_orphans(owner)
            if spent[owner] + count > left:
                failing.add(gang)
            else:
                spent[owner] += count
        return failing

    def has_left(self, uid: str) -> bool:
        """Return whether the former pods of a suspended owner are gone, or stuck past their grace.

        The controller might take them for the new ones if the owner were resumed before.
        """
        for task in self.suspended.tasks_of(uid):
            record = self._pods.get(task)
            ends_at = (
                parse_timestamp_or_none(record.pod.metadata.deletion_timestamp) if record else None
            )
            is_stuck = ends_at is not None and ends_at < self._pods.now
            if self._pods.state(task) in OCCUPYING and not is_stuck:
                return False
        remaining = (pod for pod, _ in self.orphans if not pod.metadata.deletion_timestamp)
        return not any(uid in self._pods.membership(pod).owners for pod in remaining)
