"""What the API server's objects mean to the engine: objects in, events out.

Nothing here waits or writes: it is told what was seen and what we set going, and answers with
events. Pods placed by others count as they are and are left alone. Pods on nodes that have not been
seen, or are gone, do not count until the node is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from windlass.crds.read import OwnedQueue
from windlass.kube.allot import Allotments
from windlass.kube.assumed import Assumed
from windlass.kube.crews import Crew, facts_of, gang_of
from windlass.kube.explicit import GANGS, Explicit
from windlass.kube.owners import Owners
from windlass.kube.queues import Queues
from windlass.kube.shapes import Shapes
from windlass.kube.storage import Storage
from windlass.model import events
from windlass.model.actions import Action, Bind
from windlass.model.events import Event
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, GangId, Shape, Task, TaskId, TaskState
from windlass.model.reasons import Reason, Why
from windlass.workloads import wire
from windlass.workloads.kinds import KINDS, Key, Kinds, Membership, membership
from windlass.workloads.machines import node_of
from windlass.workloads.pods import refusal_of, task_id, task_of
from windlass.workloads.volumes_wire import CsiNode, Stored

Tell = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Scope:
    """What Windlass is responsible for."""

    schedulers: frozenset[str] = frozenset({"windlass"})
    namespaces: frozenset[str] = frozenset()
    """Whose pods it places; none: all."""
    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Which nodes it uses, by label."""
    default_queue: str = ""
    kinds: Kinds = field(default_factory=lambda: KINDS)
    """Of owners, with the rows that users added."""


@dataclass(slots=True)
class _Known:
    """A pod that counts, and what was made of it."""

    pod: wire.Pod
    gang: GangId
    shape: Shape
    node: str
    owners: tuple[str, ...] = ()
    group: str = ""


class Translator:
    """All that was seen of a cluster, and the assumptions about it."""

    def __init__(self, scope: Scope, tell: Tell) -> None:
        self._scope, self._tell = scope, tell
        self._queues = Queues(scope.default_queue)
        self._allotments = Allotments()
        self.assumed = Assumed()
        self._nodes: dict[str, wire.Node] = {}
        self._away: dict[str, dict[TaskId, wire.Pod]] = {}
        """Pods on nodes that have not been seen."""
        self._away_on: dict[TaskId, str] = {}
        self._pods: dict[TaskId, _Known] = {}
        self._on: dict[str, set[TaskId]] = {}
        self._crews: dict[GangId, Crew] = {}
        self._storage = Storage()
        self._shapes = Shapes(self._storage)
        self._owners, self._explicit = Owners(), Explicit()
        self._priorities: dict[str, int] = {}
        """Of PriorityClasses, by name."""
        self._now = 0

    # -- asked

    def pod(self, task: TaskId) -> wire.Pod | None:
        """The pod behind a task, as it was seen last."""
        known = self._pods.get(task)
        return known.pod if known else None

    def gang(self, task: TaskId) -> GangId | None:
        """The gang of a task."""
        known = self._pods.get(task)
        return known.gang if known else None

    def members(self, gang: GangId) -> list[TaskId]:
        """The tasks of a gang, in the order in which the engine takes them: 2 before 10."""
        crew = self._crews.get(gang)
        return sorted(crew.members, key=lambda task: (len(task), task)) if crew else []

    def gangs(self) -> Iterable[GangId]:
        """All gangs that have pods."""
        return self._crews.keys()

    # -- told about our own doing

    def assume(self, actions: Iterable[Action]) -> None:
        """The plan is being carried out; the cluster has been told already."""
        for action in actions:
            if isinstance(action, Bind):
                self.assumed.bind(action, self._now)
                self._allotments.keep(action.task, action.node, action.devices)
                self._move(self._pods[action.task], action.task, action.node)
            else:
                self.assumed.evict(action.task, self._now)

    def evict_again(self, task: TaskId) -> None:
        """An eviction that was promised before us is under way."""
        if known := self._pods.get(task):
            self.assumed.evict(task, self._now)
            self._tell_task(task, known)

    def bind_failed(self, task: TaskId, why: str) -> None:
        """A bind certainly did not happen: the pod waits again, and its gang for a moment."""
        if self.assumed.settle(task) is None:
            return
        pod = self.pod(task) or self._come_back(task)
        if pod is None:
            return
        self.pod_seen(pod)
        if known := self._pods.get(task):
            self.assumed.failed(known.gang, why, self._now)
            self._retell(known.gang)

    def evict_failed(self, task: TaskId) -> None:
        """An eviction was refused for good: the pod runs on."""
        if self.assumed.stay(task) and (known := self._pods.get(task)):
            self._tell_task(task, known)

    def advance(self, now: int) -> None:
        """Move the clock: gangs that were left alone may be tried again."""
        before, self._now = self._now, max(self._now, now)
        for gang in self.assumed.over(before, self._now):
            self._retell(gang)

    # -- told about pods

    def pod_seen(self, pod: wire.Pod) -> None:
        """A pod is new or has changed."""
        task = task_id(pod)
        before = self.pod(task) or self._come_back(task)
        if before is not None and before.spec.node_name and not pod.spec.node_name:
            pod = before  # nobody loses its node again: this is an older object, come late
        self._confirm(task, pod)
        node = self._node_of(task, pod)
        if node and node not in self._nodes:
            self._drop(task)
            self._stay_away(task, pod, node)
        elif self._matters(pod, node):
            self._keep(task, pod, node)
        else:
            self._drop(task)

    def pod_gone(self, pod: wire.Pod) -> None:
        """A pod was deleted."""
        task = task_id(pod)
        self._come_back(task)
        self.assumed.forget(task)
        self._drop(task)

    def _confirm(self, task: TaskId, pod: wire.Pod) -> None:
        if not pod.spec.node_name and not _has_ended(pod):
            return
        if self.assumed.settle(task) is not None and (known := self._pods.get(task)):
            self.assumed.went_well(known.gang)
            self._retell(known.gang)  # it may rest because another of its binds has failed

    def _node_of(self, task: TaskId, pod: wire.Pod) -> str:
        """Where it runs or is about to; what has ended runs nowhere, though it keeps its name."""
        if _has_ended(pod):
            return ""
        # a place that another scheduler has cleared for a pod of its own is not ours to take
        kept = "" if self._is_ours(pod) else pod.status.nominated_node_name
        return self.assumed.node_of(task) or pod.spec.node_name or kept

    def _stay_away(self, task: TaskId, pod: wire.Pod, node: str) -> None:
        self._away.setdefault(node, {})[task] = pod
        self._away_on[task] = node

    def _come_back(self, task: TaskId) -> wire.Pod | None:
        node = self._away_on.pop(task, None)
        return _take_out(self._away, node, task) if node is not None else None

    def _matters(self, pod: wire.Pod, node: str) -> bool:
        ended = _has_ended(pod)
        if not self._is_ours(pod):
            return bool(node) and not ended
        if ended:
            # successes count towards the minimum of a gang that has others
            member = self._member(pod)
            counts = member.minimum > 1 and not member.without_done
            return pod.status.phase == "Succeeded" and counts
        leaves = pod.metadata.deletion_timestamp or pod.spec.scheduling_gates
        return bool(node) or not leaves

    def _is_ours(self, pod: wire.Pod) -> bool:
        scope = self._scope
        return pod.spec.scheduler_name in scope.schedulers and (
            not scope.namespaces or pod.metadata.namespace in scope.namespaces
        )

    def _member(self, pod: wire.Pod) -> Membership:
        return membership(pod, self._owners.find, self._scope.kinds)

    def _keep(self, task: TaskId, pod: wire.Pod, node: str) -> None:
        known, ours = self._pods.get(task), self._is_ours(pod)
        member = self._member(pod)
        if known is not None and known.gang != member.gang:
            self._drop(task)
            known = None
        shape, lacking, rivals = self._shapes.ask(task, pod, bool(node))
        if known is None:
            known = self._pods[task] = _Known(pod, GangId(member.gang), shape, "")
        if known.owners != member.owners:
            self._owners.forget(task, known.owners)
            self._owners.ask(task, member.owners)
            known.owners = member.owners
        known.group = member.group if member.explicit else ""
        left, known.pod, known.shape = known.node, pod, shape
        self._move(known, task, node)
        crew = self._crews.setdefault(known.gang, Crew(known.gang))
        refusal = lacking or refusal_of(pod, shape) if ours and not node else None
        if crew.join(task, facts_of(pod, member, refusal, not ours), pod):
            self._retell(known.gang)
        self._tell_task(task, known)
        if left != node:
            self._mend(left)
        self._look_again(rivals)

    def _look_again(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            if known := self._pods.get(task):
                self.pod_seen(known.pod)

    def _drop(self, task: TaskId) -> None:
        known = self._pods.pop(task, None)
        if known is None:
            return
        node = known.node
        self._move(known, task, "")
        self._owners.forget(task, known.owners)
        rivals = self._shapes.forget(task)
        self._tell(events.TaskGone(task))
        self._mend(node)
        crew = self._crews[known.gang]
        changed = crew.leave(task)
        if not crew.members:
            del self._crews[known.gang]
            self.assumed.went_well(known.gang)
            self._tell(events.GangGone(known.gang))
        elif changed:
            self._retell(known.gang)
        self._look_again(rivals)

    def _move(self, known: _Known, task: TaskId, node: str) -> None:
        if known.node and known.node != node:
            _discard(self._on, known.node, task)
            self._allotments.take_back(task, known.node)
        if node:
            self._on.setdefault(node, set()).add(task)
        known.node = node

    def _mend(self, node: str) -> None:
        """A place came free: those who had more than the node offers may have it."""
        for task in self._allotments.mend(node):
            self._tell_task(task, self._pods[task])

    def _tell_task(self, task: TaskId, known: _Known) -> None:
        self._tell(events.TaskSeen(self._task(task, known)))

    def _task(self, task: TaskId, known: _Known) -> Task:
        found = task_of(known.pod, known.gang, known.shape, (), known.group)
        if found.state == TaskState.WAITING and known.node:
            found = replace(found, state=TaskState.BOUND, node=known.node)
        since = self.assumed.leaving_since(task)
        if since is not None and found.state in ACTIVE:
            found = replace(found, state=TaskState.RELEASING, releasing_since=since)
        if found.state not in OCCUPYING:
            return found
        gpu = known.shape.request.gpu
        return replace(found, devices=self._allotments.give(task, known.node, gpu))

    # -- told about gangs, owners and queues

    def _retell(self, gang: GangId) -> None:
        crew = self._crews.get(gang)
        if crew is None or not crew.members:
            return
        queue, refusal = self._queue_of(crew)
        refusal = refusal or self.assumed.trouble(gang, self._now)
        found = gang_of(crew, queue, refusal, self._queues.is_managed(crew.namespace))
        found = self._as_asked(found, crew)
        if found != crew.gang:
            crew.gang = found
            self._tell(events.GangSeen(found))

    def _as_asked(self, gang: Gang, crew: Crew) -> Gang:
        """With the priority that its owner names, and as its Gang object wants it."""
        chosen = next((each.member.priority_class for each in crew.said), "")
        if chosen in self._priorities:
            gang = replace(gang, priority=self._priorities[chosen])
        elif chosen and self._priorities and gang.refusal is None:  # who looks may not see any
            what = f"its PriorityClass {chosen} does not exist; create it, or name another"
            gang = replace(gang, refusal=Reason(Why.UNREADABLE, {"what": what}))
        queues = {each.queue for each in crew.said}
        return self._explicit.shape(gang, queues, {each.member.group for each in crew.said})

    def _queue_of(self, crew: Crew) -> tuple[str, Reason | None]:
        facts, *others = crew.said
        if others:
            facts = min(crew.said, key=lambda each: (each.foreign, repr(each)))
        if not facts.foreign:
            asked = facts.queue or self._explicit.queue_of(crew.id)
            return self._queues.choose(asked, facts.namespace)
        # others' GPUs are charged to their namespace's queue; there is nothing to refuse
        asks = any(self._pods[task].shape.request.gpu for task in crew.members)
        return self._queues.charged(facts.namespace) if asks else "", None

    def owner_seen(self, kind: Key, owner: wire.Owner) -> None:
        """An owner of pods, or a Gang that they name, is new or has changed."""
        concerned = self._owners.see(kind, owner)
        if kind == GANGS:
            self._retell(self._explicit.see(owner))
        for task in concerned:
            self.pod_seen(self._pods[task].pod)

    def owner_gone(self, kind: Key, owner: wire.Owner) -> None:
        """An owner was deleted; its pods are about to follow. Those of a Gang need not."""
        self._owners.lose(kind, owner)
        if kind == GANGS:
            self._retell(self._explicit.lose(owner))
            for task in self._owners.asked(kind, owner):
                self.pod_seen(self._pods[task].pod)

    def topology_seen(self, name: str) -> None:
        """A topology is there; gangs that name none may mean it."""
        for gang in self._explicit.see_topology(name):
            self._retell(gang)

    def topology_gone(self, name: str) -> None:
        """A topology was deleted."""
        for gang in self._explicit.lose_topology(name):
            self._retell(gang)

    def priority_seen(self, name: str, value: int | None) -> None:
        """A PriorityClass is new; without a value it was deleted."""
        if self._priorities.get(name) == value:
            return
        if value is None:
            del self._priorities[name]
        else:
            self._priorities[name] = value
        self._tell_all(())

    def queue_seen(self, owned: OwnedQueue) -> None:
        """A queue is new or has changed."""
        if not self._queues.knows(owned):  # most changes are of its status
            self._tell_all(self._queues.see(owned))

    def queue_gone(self, name: str) -> None:
        """A queue was deleted."""
        self._tell_all(self._queues.lose(name))

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace is new or has other labels."""
        if self._queues.see_namespace(name, labels):
            self._tell_all(())
        self._look_again(self._shapes.see_namespace(name, labels))

    def namespace_gone(self, name: str) -> None:
        """A namespace was deleted; its pods went before it."""
        self._queues.lose_namespace(name)
        self._look_again(self._shapes.see_namespace(name, None))

    def _tell_all(self, changes: Iterable[Event]) -> None:
        for event in changes:
            self._tell(event)
        for gang in sorted(self._crews):
            self._retell(gang)

    # -- told about storage

    def storage_seen(self, thing: Stored, *, gone: bool = False) -> None:
        """A claim, a volume, a class or a driver is new, has changed or is gone."""
        before = self._storage.limited()
        self._look_again(self._storage.see(thing, gone=gone))
        self._limit_nodes(thing, before)

    def selecting(self, task: TaskId) -> tuple[str, ...]:
        """The claims of a pod that wait to be told its node."""
        pod = self.pod(task)
        return tuple(self._storage.needs(pod).selecting) if pod else ()

    def _limit_nodes(self, thing: Stored, before: Set[str]) -> None:
        """A driver that has a limit on one node is told to have none on the others."""
        if isinstance(thing, CsiNode):
            same = self._storage.limited() == before
            for name in [thing.metadata.name] if same else list(self._nodes):
                if name in self._nodes:
                    self.node_seen(self._nodes[name])

    # -- told about nodes

    def node_seen(self, node: wire.Node) -> None:
        """A node is new or has changed."""
        name, labels = node.metadata.name, node.metadata.labels or {}
        if any(labels.get(key) != value for key, value in self._scope.nodes.items()):
            self.node_gone(name)
            return
        found = node_of(node)
        if limits := self._storage.limits(name):
            found = replace(found, extra={**found.extra, **limits})
        self._nodes[name] = node
        self._tell(events.NodeSeen(found))
        for task in self._allotments.see_node(name, len(found.gpus)):
            self._tell_task(task, self._pods[task])
        for pod in list(self._away.get(name, {}).values()):
            self.pod_seen(pod)

    def node_gone(self, name: str) -> None:
        """A node was deleted, or left the scope; what ran on it is lost."""
        if name not in self._nodes:
            return
        del self._nodes[name]
        for task in sorted(self._on.get(name, ())):
            pod = self._pods[task].pod
            self._drop(task)
            self._stay_away(task, pod, name)
        self._allotments.forget_node(name)
        self._tell(events.NodeGone(name))


def _has_ended(pod: wire.Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _discard(sets: dict[str, set[TaskId]], key: str, task: TaskId) -> None:
    there = sets.get(key, set[TaskId]())
    there.discard(task)
    if not there:
        sets.pop(key, None)


def _take_out(pods: dict[str, dict[TaskId, wire.Pod]], node: str, task: TaskId) -> wire.Pod | None:
    there = pods.get(node, {})
    found = there.pop(task, None)
    if not there:
        pods.pop(node, None)
    return found
