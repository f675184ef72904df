"""All pods that count, and what each change of one means for tasks, gangs and devices.

`PodTable` keeps a record of every pod and placeholder. Its methods change the records and append
the events that follow to `events`, in the order in which the engine has to apply them; the
translator hands them on.

    see(pod) --> _keep: record, owners, shape, gang, node, devices --> TaskSeen, GangSeen
             --> _drop: the same backwards                         --> TaskGone, GangGone
             --> orphans: its node is not there; it counts once the node is observed

One change may lead to others: pods that compete for a volume are evaluated again, and placeholders
come and go with the pods of their gang.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from windlass.kube.ingest.assumed import Assumed
from windlass.kube.ingest.device_assignment import Allotments
from windlass.kube.ingest.gang_builder import gang_claims_of
from windlass.kube.ingest.gangs import GangRegistry
from windlass.kube.ingest.leaders import Leaders
from windlass.kube.ingest.owners import MembershipCache, OwnerIndex
from windlass.kube.ingest.pod_record import PRESENT, OrphanPods, PodRecord
from windlass.kube.ingest.queue_assignment import Queues
from windlass.kube.ingest.scope import Scope
from windlass.kube.ingest.shape_cache import Shapes
from windlass.kube.ingest.suspended_gangs import PlaceholderTasks, SuspendedGangs
from windlass.kube.ingest.volume_state import Storage
from windlass.model import events
from windlass.model.events import Event
from windlass.model.gpu.resources import asks_gpu
from windlass.model.jobs import OCCUPYING, GangId, Task, TaskId, TaskState
from windlass.workloads.kinds import Membership
from windlass.workloads.objects import wire
from windlass.workloads.pods import end_of, refusal_of, task_id


class PodTable:
    """The records of all pods and placeholders in the scope of this scheduler, and the registries
    that are updated with them (gangs, owners, devices, suspended gangs)."""

    def __init__(self, scope: Scope, nodes: Collection[str], storage: Storage) -> None:
        self._scope, self._nodes = scope, nodes
        self.events: list[Event] = []
        """The events since the translator took them last."""
        self.now = 0
        self.assumed, self.orphans = Assumed(), OrphanPods()
        self.gangs = GangRegistry(Queues(scope.default_queue), self.assumed, self._asks_gpu)
        self.gangs.count_orphans = self.count_orphans
        self.devices = Allotments()
        self.owners = OwnerIndex()
        self.shapes = Shapes(storage)
        self.suspended = SuspendedGangs(scope, self.owners, self.gangs.priorities)
        self.placeholders = PlaceholderTasks(self.shapes.request)
        self.leaders = Leaders(self.owners, scope.kinds)
        self._members = MembershipCache(self.owners, scope.kinds)
        self._records: dict[TaskId, PodRecord] = {}
        self._on: dict[str, set[TaskId]] = {}
        """The tasks on each node, by `PodRecord.node`; no empty entries. Changed by `move` only."""

    def get(self, task: TaskId) -> PodRecord | None:
        """Return the record of a task; None if its pod does not count."""
        return self._records.get(task)

    def on(self, node: str) -> list[TaskId]:
        """Return the tasks on a node, sorted."""
        return sorted(self._on.get(node, ()))

    def state(self, task: TaskId) -> TaskState:
        """Return the state of a task, with assumed binds and evictions."""
        return self._records[task].state(self.assumed.leaving_since(task))

    def membership(self, pod: wire.Pod) -> Membership:
        """Return the gang that a pod belongs to."""
        return self._members.of(pod)

    def present(self, gang: GangId) -> dict[TaskId, PodRecord]:
        """Return the pods of a gang that have a place in it, without placeholders."""
        return {
            task: record
            for task in self.gangs.members(gang)
            if task not in self.placeholders
            and (record := self._records.get(task))
            and self.state(task) in PRESENT
        }

    def count_orphans(self, owner: str) -> int:
        """Return how many pods of an owner are on nodes that are gone."""
        return sum(owner in self.membership(pod).owners for pod, _ in self.orphans) if owner else 0

    def is_led(self, gang: GangId) -> bool:
        """Return whether all leaders of a gang exist whose followers are created after them."""
        if gang not in self.leaders:
            return False
        pods = [record.pod for record in self.present(gang).values()]
        followers = self.leaders.followers(gang, pods, self.now)
        return len(pods) + len(followers) >= self.gangs.needed(gang)

    # -- changes of pods

    def see(self, pod: wire.Pod) -> None:
        """Take note of a pod that is new or has changed."""
        task = task_id(pod)
        known = self._records.get(task)
        before = known.pod if known else self.orphans.take(task)
        if before is not None and before.spec.node_name and not pod.spec.node_name:
            pod = before  # a pod never loses its node: this is an older object that comes late
        self._confirm_bind(task, pod)
        if _has_ended(pod) and self._scope.has_pod(pod):
            ended = end_of(pod, GangId(self.membership(pod).gang), self.now)
            if ended is not None:
                self.events.append(ended)
        node = self._node_of(task, pod)
        if node and node not in self._nodes:
            self.drop(task)
            self.orphans.put(task, pod, node)
        elif self._counts(pod, node):
            self._keep(task, pod, node)
        else:
            self.drop(task)

    def lose(self, pod: wire.Pod) -> None:
        """Take note that a pod was deleted."""
        task = task_id(pod)
        self.orphans.take(task)
        self.assumed.forget(task)
        self.drop(task)

    def lose_node(self, node: str) -> None:
        """Make orphans of the pods on a node that is gone."""
        for task in self.on(node):
            pod = self._records[task].pod
            self.drop(task)
            self.orphans.put(task, pod, node)
            # the orphan counts as a failure of its owner, which may forgive fewer evictions now
            self.events += self.gangs.refresh(GangId(self.membership(pod).gang))

    def look_again(self, tasks: Iterable[TaskId]) -> None:
        """Evaluate pods again: something that they depend on has changed."""
        for task in tasks:
            record = self._records.get(task)  # the evaluation of another may have removed it
            if record and task in self.placeholders:
                self._keep(task, record.pod, "")
            elif record:
                self.see(record.pod)

    def _confirm_bind(self, task: TaskId, pod: wire.Pod) -> None:
        if not pod.spec.node_name and not _has_ended(pod):
            return
        if self.assumed.settle(task) is not None and (record := self._records.get(task)):
            self.assumed.succeed(record.gang)
            # the gang may be in backoff because another of its binds has failed
            self.events += self.gangs.refresh(record.gang)

    def _node_of(self, task: TaskId, pod: wire.Pod) -> str:
        """Return the node of a pod, bound or being bound; empty if it waits or has ended."""
        if _has_ended(pod):
            return ""
        # a place that another scheduler has cleared for a pod of its own is not ours to take
        nominated = "" if self._scope.has_pod(pod) else pod.status.nominated_node_name
        return self.assumed.node_of(task) or pod.spec.node_name or nominated

    def _counts(self, pod: wire.Pod, node: str) -> bool:
        """Return whether a pod is a task for the engine."""
        ended = _has_ended(pod)
        if not self._scope.has_pod(pod):
            return bool(node) and not ended
        if ended:
            # successes count towards the minimum of a gang that has others
            member = self.membership(pod)
            counts = member.minimum > 1 and not member.without_done
            return pod.status.phase == "Succeeded" and counts
        leaves = pod.metadata.deletion_timestamp or pod.spec.scheduling_gates
        return bool(node) or not leaves

    def _keep(self, task: TaskId, pod: wire.Pod, node: str) -> None:
        """Make or change the record of a pod or placeholder, and append the events."""
        record, is_ours = self._records.get(task), self._scope.has_pod(pod)
        member = self.membership(pod)
        if record is not None and record.gang != member.gang:
            self.drop(task)
            record = None
        shape, lacking, rivals = self.shapes.ask(task, pod, bool(node))
        if record is None:
            record = self._records[task] = PodRecord(pod, GangId(member.gang), shape, "")
        if record.owners != member.owners:
            self.owners.remove_dependent(task, record.owners)
            self.owners.add_dependent(task, member.owners)
            record.owners = member.owners
        record.group = member.group if member.explicit else ""
        left, record.pod, record.shape = record.node, pod, shape
        self.move(task, record, node)
        refusal = lacking or refusal_of(pod, shape) if is_ours and not node else None
        claims = gang_claims_of(pod, member, refusal, not is_ours)
        # the gang before its task: the engine knows no task without a gang
        self.events += self.gangs.join(record.gang, task, claims, pod)
        self.tell_task(task, record)
        if left != node:
            self._mend_devices(left)
        if task not in self.placeholders:
            self.leaders.see(record.gang, task, pod)
            self.fill(record.gang)
        self.look_again(rivals)

    def drop(self, task: TaskId) -> None:
        """Remove the record of a task, if there is one, and append the events."""
        record = self._records.pop(task, None)
        if record is None:
            return
        node = record.node
        self.move(task, record, "")
        self.owners.remove_dependent(task, record.owners)
        rivals = self.shapes.forget(task)
        self.events.append(events.TaskGone(task))
        self._mend_devices(node)
        if task not in self.placeholders:
            self.leaders.lose(record.gang, task)
            self.fill(record.gang)
        self.events += self.gangs.leave(record.gang, task)
        self.look_again(rivals)

    def move(self, task: TaskId, record: PodRecord, node: str) -> None:
        """Set the node of a record; free its devices on the node that it leaves."""
        if record.node and record.node != node:
            tasks = self._on.get(record.node, set[TaskId]())
            tasks.discard(task)
            if not tasks:
                self._on.pop(record.node, None)
            self.devices.take_back(task, record.node)
        if node:
            self._on.setdefault(node, set()).add(task)
        record.node = node

    def tell_task(self, task: TaskId, record: PodRecord | None = None) -> None:
        """Append the event of a task as it is now."""
        self.events.append(events.TaskSeen(self._task(task, record or self._records[task])))

    def _task(self, task: TaskId, record: PodRecord) -> Task:
        made = record.task(task, self.assumed.leaving_since(task))
        if made.state not in OCCUPYING:
            return made
        gpu = record.shape.request.gpu
        return replace(made, devices=self.devices.give(task, record.node, gpu))

    def _mend_devices(self, node: str) -> None:
        """Assign freed devices of a node to tasks that had more than the node has."""
        for task in self.devices.mend(node):
            self.tell_task(task)

    def _asks_gpu(self, task: TaskId) -> bool:
        return asks_gpu(self._records[task].shape.request)

    # -- placeholders

    def fill(self, gang: GangId) -> None:
        """Give a gang a placeholder for each of its places that no pod has, and no others."""
        suspended = self.suspended.of(gang)
        if suspended is None and gang not in self.leaders and not self.placeholders.knows(gang):
            return
        present = self.present(gang)
        if suspended is None or self.is_led(gang):
            pods = (record.pod for record in present.values())
            places = self.leaders.followers(gang, pods, self.now) or None
            change = self.placeholders.change(gang, places, {})
        else:
            requests = {task: record.shape.request for task, record in present.items()}
            change = self.placeholders.change(gang, suspended.pods, requests)
        for task, pod in change.come.items():
            self._keep(task, pod, "")
        for task in change.go:
            self.drop(task)
            self.placeholders.forget(task)


def _has_ended(pod: wire.Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")
