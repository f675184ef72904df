"""What the API server's objects mean to the engine: objects in, events out.

Nothing here waits or writes: it is told what was seen and what we set going, and answers with
events, those about gangs through `gangs.py`. Pods placed by others count as they are and are left
alone. Pods on nodes that have not been seen, or are gone, do not count until the node is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from windlass.kube.ingest.assumed import Assumed
from windlass.kube.ingest.away import Away
from windlass.kube.ingest.believed import Believed
from windlass.kube.ingest.device_assignment import Allotments
from windlass.kube.ingest.filling import PlaceholderTasks
from windlass.kube.ingest.gang_builder import facts_of
from windlass.kube.ingest.gang_objects import GANGS
from windlass.kube.ingest.gangs import GangRegistry, Tell
from windlass.kube.ingest.leaders import Leaders
from windlass.kube.ingest.members import MembershipCache
from windlass.kube.ingest.owners import Owners
from windlass.kube.ingest.pod_record import PRESENT, PodRecord
from windlass.kube.ingest.queue_assignment import Queues
from windlass.kube.ingest.scope import Scope
from windlass.kube.ingest.shape_cache import Shapes
from windlass.kube.ingest.suspended_gangs import SuspendedGangs
from windlass.kube.ingest.volume_state import Storage
from windlass.kube.writers.suspend import Switch
from windlass.model import events
from windlass.model.actions import Action, Bind, Evict, RequestCheckpoint, WithdrawCheckpoint
from windlass.model.gpu_resources import asks_gpu
from windlass.model.jobs import ACTIVE, OCCUPYING, GangId, Task, TaskId, TaskState
from windlass.model.nodes import NodeTrouble
from windlass.model.reasons import ReasonCode
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.kinds.table import Key, Membership
from windlass.workloads.nodes.health import trusted_since, worse
from windlass.workloads.nodes.offers import node_of
from windlass.workloads.objects import wire
from windlass.workloads.objects.storage_wire import CsiNode, Stored
from windlass.workloads.pods.task import end_of, refusal_of, task_id


class Translator:
    """All that was seen of a cluster, and the assumptions about it."""

    def __init__(self, scope: Scope, tell: Tell) -> None:
        self.scope, self._tell = scope, tell
        self.assumed, self.away, self.believed = Assumed(), Away(), Believed(scope)
        self.gangs = GangRegistry(tell, Queues(scope.default_queue), self.assumed, self._asks_gpu)
        self._allotments = Allotments()
        self._nodes: dict[str, wire.NodeObject] = {}
        self._ill: dict[str, NodeTrouble | None] = {}
        self._pods: dict[TaskId, PodRecord] = {}
        self._on: dict[str, set[TaskId]] = {}
        self._storage = Storage()
        self._shapes = Shapes(self._storage)
        self._owners = Owners()
        self._members = MembershipCache(self._owners, scope.kinds)
        self.absent = SuspendedGangs(scope, self._owners, self.gangs.priorities)
        self.filling = PlaceholderTasks(self._shapes.request)
        self.leaders = Leaders(self._owners, scope.kinds)
        self.gangs.away = self._count_away
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

    def node(self, name: str) -> wire.NodeObject | None:
        """A node, as it was seen last."""
        return self._nodes.get(name)

    def switch(self, gang: GangId, leaving: Set[TaskId]) -> Switch | None:
        """Return how a gang can be stopped whole and come back; None if it cannot.

        All that runs of its owner must be among the tasks that leave: they stop with it.
        """
        live = [
            task
            for task in self.gangs.members(gang)
            if task in leaving or self._state(task) in PRESENT
        ]
        if not live or (self.absent.of(gang) and self.filling.of(gang)):
            return None
        found = self.absent.switch(gang, [self._pods[task].pod for task in live], self._now)
        if found is None or self.gangs.needed(gang) > found.pods:
            return None
        stays = (task for task in found.used_by if task not in leaving)
        return None if any(self._state(task) in ACTIVE for task in stays) else found.switch

    def is_led(self, gang: GangId) -> bool:
        """Are all leaders of the gang there, whose followers are made once they have nodes?"""
        if gang not in self.leaders:
            return False
        pods = [each.pod for each in self._present(gang).values()]
        followers = self.leaders.followers(gang, pods, self._now)
        return len(pods) + len(followers) >= self.gangs.needed(gang)

    def failing(self, leaving: Mapping[GangId, int]) -> set[GangId]:
        """Return the gangs whose owners would fail for good if so many of their pods were evicted.

        An owner counts the failures of all its gangs, also of pods that are leaving already and of
        pods on nodes that are gone.
        """
        spent: dict[str, int] = {}
        found: set[GangId] = set()
        for gang, count in leaving.items():
            left, owner = self.gangs.forgiven(gang)
            if owner not in spent:
                tasks = self.absent.tasks_of(owner)
                going = sum(self._state(task) == TaskState.RELEASING for task in tasks)
                spent[owner] = going + self._count_away(owner)
            if spent[owner] + count > left:
                found.add(gang)
            else:
                spent[owner] += count
        return found

    def _count_away(self, owner: str) -> int:
        """Return how many pods of an owner are on nodes that are gone."""
        return sum(owner in self._member(pod).owners for pod, _ in self.away) if owner else 0

    def has_left(self, uid: str) -> bool:
        """Are the former pods of a suspended owner gone, or stuck past the end of their grace?

        Its controller might take them for the new ones if it were resumed before.
        """
        for task in self.absent.tasks_of(uid):
            ends_at = parse_timestamp_or_none(self._pods[task].pod.metadata.deletion_timestamp)
            is_stuck = ends_at is not None and ends_at < self._now
            if self._state(task) in OCCUPYING and not is_stuck:
                return False
        lingering = (pod for pod, _ in self.away if not pod.metadata.deletion_timestamp)
        return not any(uid in self._member(pod).owners for pod in lingering)

    def _state(self, task: TaskId) -> TaskState:
        return self._pods[task].state(self.assumed.leaving_since(task))

    def _asks_gpu(self, task: TaskId) -> bool:
        return asks_gpu(self._pods[task].shape.request)

    # -- told about our own doing

    def assume(self, actions: Iterable[Action]) -> None:
        """The plan is being carried out; the cluster has been told already."""
        for action in actions:
            match action:
                case Bind(task, node, devices):
                    self.assumed.bind(action, self._now)
                    self._allotments.keep(task, node, devices)
                    self._move(self._pods[task], task, node)
                case Evict(task):
                    self.assumed.evict(task, self._now)
                case RequestCheckpoint(parting):
                    for each in parting.evictions:
                        self.assumed.evict(each.task, self._now)
                case WithdrawCheckpoint(gang):
                    for task in self.gangs.members(gang):
                        self.evict_failed(task)

    def evict_again(self, task: TaskId) -> None:
        """An eviction that was promised before us is under way."""
        if known := self._pods.get(task):
            self.assumed.evict(task, self._now)
            self._tell_task(task, known)
            self._fill(known.gang)

    def bind_failed(self, task: TaskId, why: str) -> None:
        """A bind certainly did not happen: the pod waits again, and its gang for a moment."""
        if self.assumed.settle(task) is None:
            return
        pod = self.pod(task) or self.away.take(task)
        if pod is None:
            return
        self.pod_seen(pod)
        if known := self._pods.get(task):
            self.leave_alone(known.gang, why)

    def evict_failed(self, task: TaskId) -> None:
        """An eviction was refused for good: the pod runs on."""
        if self.assumed.stay(task) and (known := self._pods.get(task)):
            self._tell_task(task, known)
            self._fill(known.gang)

    def keep(self, task: TaskId) -> None:
        """Let the gang of a pod stay where it is for a while: its owner would fail otherwise."""
        if known := self._pods.get(task):
            self.assumed.keep(known.gang, self._now)
            self.gangs.retell(known.gang)

    def leave_alone(
        self, gang: GangId, what: str, why: ReasonCode = ReasonCode.FAILED_BEFORE
    ) -> None:
        """Something went wrong with a gang: it is tried again in a moment."""
        self.assumed.failed(gang, what, self._now, why)
        self.gangs.retell(gang)

    def advance(self, now: int) -> list[GangId]:
        """Move the clock: gangs that were left alone may be tried again.

        Return the gangs whose followers did not come, and are not waited for any more.
        """
        before, self._now = self._now, max(self._now, now)
        self.gangs.advance(now)
        led = [gang for gang in self.leaders.over(before, self._now) if self.filling.of(gang)]
        for gang in led:
            self._fill(gang)
        return led

    # -- told about pods

    def pod_seen(self, pod: wire.Pod) -> None:
        """A pod is new or has changed."""
        task = task_id(pod)
        before = self.pod(task) or self.away.take(task)
        if before is not None and before.spec.node_name and not pod.spec.node_name:
            pod = before  # nobody loses its node again: this is an older object, come late
        self._confirm(task, pod)
        if _has_ended(pod) and self.scope.has_pod(pod):
            self._tell_end(pod)
        node = self._node_of(task, pod)
        if node and node not in self._nodes:
            self._drop(task)
            self.away.put(task, pod, node)
        elif self._matters(pod, node):
            self._keep(task, pod, node)
        else:
            self._drop(task)

    def pod_gone(self, pod: wire.Pod) -> None:
        """A pod was deleted."""
        task = task_id(pod)
        self.away.take(task)
        self.assumed.forget(task)
        self._drop(task)

    def _confirm(self, task: TaskId, pod: wire.Pod) -> None:
        if not pod.spec.node_name and not _has_ended(pod):
            return
        if self.assumed.settle(task) is not None and (known := self._pods.get(task)):
            self.assumed.went_well(known.gang)
            self.gangs.retell(known.gang)  # it may rest because another of its binds has failed

    def _node_of(self, task: TaskId, pod: wire.Pod) -> str:
        """Where it runs or is about to; what has ended runs nowhere, though it keeps its name."""
        if _has_ended(pod):
            return ""
        # a place that another scheduler has cleared for a pod of its own is not ours to take
        kept = "" if self.scope.has_pod(pod) else pod.status.nominated_node_name
        return self.assumed.node_of(task) or pod.spec.node_name or kept

    def _tell_end(self, pod: wire.Pod) -> None:
        if (ended := end_of(pod, GangId(self._member(pod).gang), self._now)) is not None:
            self._tell(ended)

    def _matters(self, pod: wire.Pod, node: str) -> bool:
        ended = _has_ended(pod)
        if not self.scope.has_pod(pod):
            return bool(node) and not ended
        if ended:
            # successes count towards the minimum of a gang that has others
            member = self._member(pod)
            counts = member.minimum > 1 and not member.without_done
            return pod.status.phase == "Succeeded" and counts
        leaves = pod.metadata.deletion_timestamp or pod.spec.scheduling_gates
        return bool(node) or not leaves

    def _member(self, pod: wire.Pod) -> Membership:
        return self._members.of(pod)

    def _keep(self, task: TaskId, pod: wire.Pod, node: str) -> None:
        known, ours = self._pods.get(task), self.scope.has_pod(pod)
        member = self._member(pod)
        if known is not None and known.gang != member.gang:
            self._drop(task)
            known = None
        shape, lacking, rivals = self._shapes.ask(task, pod, bool(node))
        if known is None:
            known = self._pods[task] = PodRecord(pod, GangId(member.gang), shape, "")
        if known.owners != member.owners:
            self._owners.forget(task, known.owners)
            self._owners.ask(task, member.owners)
            known.owners = member.owners
        known.group = member.group if member.explicit else ""
        left, known.pod, known.shape = known.node, pod, shape
        self._move(known, task, node)
        refusal = lacking or refusal_of(pod, shape) if ours and not node else None
        self.gangs.join(known.gang, task, facts_of(pod, member, refusal, not ours), pod)
        self._tell_task(task, known)
        if left != node:
            self._mend(left)
        if task not in self.filling:
            self.leaders.see(known.gang, task, pod)
            self._fill(known.gang)
        self._look_again(rivals)

    def _look_again(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            known = self._pods.get(task)  # looking at another may have made it go
            if known and task in self.filling:
                self._keep(task, known.pod, "")
            elif known:
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
        if task not in self.filling:
            self.leaders.lose(known.gang, task)
            self._fill(known.gang)
        self.gangs.leave(known.gang, task)
        self._look_again(rivals)

    def _move(self, known: PodRecord, task: TaskId, node: str) -> None:
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

    def _tell_task(self, task: TaskId, known: PodRecord) -> None:
        self._tell(events.TaskSeen(self._task(task, known)))

    def _task(self, task: TaskId, known: PodRecord) -> Task:
        found = known.task(task, self.assumed.leaving_since(task))
        if found.state not in OCCUPYING:
            return found
        gpu = known.shape.request.gpu
        return replace(found, devices=self._allotments.give(task, known.node, gpu))

    def _fill(self, gang: GangId) -> None:
        """Let stand-ins have the places of a gang that no pod of it has, and only those."""
        absent = self.absent.of(gang)
        if absent is None and gang not in self.leaders and not self.filling.knows(gang):
            return
        present = self._present(gang)
        if absent is None or self.is_led(gang):
            pods = (each.pod for each in present.values())
            places = self.leaders.followers(gang, pods, self._now) or None
            change = self.filling.change(gang, places, {})
        else:
            requests = {task: each.shape.request for task, each in present.items()}
            change = self.filling.change(gang, absent.pods, requests)
        for task, pod in change.come.items():
            self._keep(task, pod, "")
        for task in change.go:
            self._drop(task)
            self.filling.forget(task)

    def _present(self, gang: GangId) -> dict[TaskId, PodRecord]:
        """Return the pods of a gang that have a place in it."""
        return {
            task: known
            for task in self.gangs.members(gang)
            if task not in self.filling
            and (known := self._pods.get(task))
            and self._state(task) in PRESENT
        }

    # -- told about owners and namespaces

    def owner_seen(self, kind: Key, owner: wire.Owner) -> None:
        """An owner of pods, or a Gang that they name, is new or has changed."""
        owner = self.believed.of(kind, owner)
        concerned = self._owners.see(kind, owner)
        if kind == GANGS:
            self.gangs.object_seen(owner)
        changed = self.absent.see(kind, owner, self._now)
        anew = {task for gang in changed for task in self.filling.of(gang)}
        self._look_again(task for task in concerned if task not in anew)
        for gang in changed:
            self._fill(gang)

    def owner_gone(self, kind: Key, owner: wire.Owner) -> None:
        """An owner was deleted; its pods are about to follow. Those of a Gang need not."""
        self._owners.lose(kind, owner)
        for gang in self.absent.lose(owner):
            self._fill(gang)
        if kind == GANGS:
            self.gangs.object_gone(owner)
            self._look_again(self._owners.asked(kind, owner))

    def namespace_seen(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace is new or has other labels."""
        self.gangs.namespace_seen(name, labels)
        self._look_again(self._shapes.see_namespace(name, labels))

    def namespace_gone(self, name: str) -> None:
        """A namespace was deleted; its pods went before it."""
        self.gangs.namespace_gone(name)
        self._look_again(self._shapes.see_namespace(name, None))

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

    def node_seen(self, node: wire.NodeObject) -> None:
        """A node is new or has changed."""
        name, labels = node.metadata.name, node.metadata.labels or {}
        if not self.scope.has_node(labels):
            self.node_gone(name)
            return
        found = node_of(node)
        if limits := self._storage.limits(name):
            found = replace(found, extra={**found.extra, **limits})
        if ill := self._ill.get(name):
            found = replace(found, trouble=worse(found.trouble, ill))
        before, trusted = self._nodes.get(name), trusted_since(node)
        if trusted is not None and (before is None or trusted_since(before) != trusted):
            self._tell(events.NodeTrusted(name, trusted))
        self._nodes[name] = node
        self._tell(events.NodeSeen(found))
        for task in self._allotments.see_node(name, len(found.gpus)):
            self._tell_task(task, self._pods[task])
        for pod in self.away.on(name):
            self.pod_seen(pod)

    def node_ill(self, name: str, trouble: NodeTrouble | None) -> None:
        """Something is wrong with a node, as others than its own object tell, or no more."""
        before, self._ill[name] = self._ill.get(name), trouble
        if trouble != before and name in self._nodes:
            self.node_seen(self._nodes[name])

    def node_gone(self, name: str) -> None:
        """A node was deleted, or left the scope; what ran on it is lost."""
        if name not in self._nodes:
            return
        del self._nodes[name]
        self._allotments.forget_node(name)
        # first the node: the engine then knows why the gangs on it lost their members
        self._tell(events.NodeGone(name))
        for task in sorted(self._on.get(name, ())):
            pod = self._pods[task].pod
            self._drop(task)
            self.away.put(task, pod, name)
            self.gangs.retell(GangId(self._member(pod).gang))  # what is left of it may be less free


def _has_ended(pod: wire.Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _discard(sets: dict[str, set[TaskId]], key: str, task: TaskId) -> None:
    there = sets.get(key, set[TaskId]())
    there.discard(task)
    if not there:
        sets.pop(key, None)
