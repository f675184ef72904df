"""What pods answer to requests to save, and which of it is believed.

An answer counts if it names the request that stands for its gang and no step before one that was
safe already; whatever else comes is refused and told of. What is believed is noted on the pod, in a
condition that users cannot write: so it outlives this process, as long as the pod lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from windlass.checkpoint.protocol import (
    REQUEST,
    Ack,
    CheckpointRequest,
    SaveState,
    accepts,
    read_ack,
    read_request,
)
from windlass.kube.writers.checkpoint import Heard, Unasked
from windlass.model import events
from windlass.model.actions import PendingCheckpoint
from windlass.model.jobs import Gang, GangId, TaskId
from windlass.state.cluster import Cluster
from windlass.workloads.objects.annotations import SAVED
from windlass.workloads.objects.wire import Pod, condition
from windlass.workloads.pods.checkpointing import answers, saving_of
from windlass.workloads.pods.task import task_id

MOST = 10_000
"""So many gangs whose work is safe are remembered; of more, the first ones are forgotten."""


@dataclass(frozen=True, slots=True)
class Disbelieved:
    """An answer that is stale or forged."""

    task: TaskId
    named: str
    """The id it names."""
    asked: str
    """The id it was asked with."""


class Answers:
    """Who carries which request, and what was answered."""

    def __init__(self, cluster: Cluster, pod_of: Callable[[TaskId], Pod | None]) -> None:
        self._cluster, self._pod_of = cluster, pod_of
        self.carries: dict[TaskId, str] = {}
        """The request on each pod, as it was seen last."""
        self.disbelieved: list[Disbelieved] = []
        self.noted: list[tuple[TaskId, Ack]] = []
        """What was believed and is to be noted on its pod."""
        self._believed: dict[TaskId, Ack] = {}
        self._judged: dict[TaskId, set[Ack]] = {}
        self._said: dict[TaskId, tuple[str, bool]] = {}
        """To which request a task has answered what: is its work safe?"""
        self._cannot: set[tuple[TaskId, str]] = set()
        """Requests that can never be written."""
        self._saved_at: dict[GangId, int] = {}

    # -- what is seen

    def see(self, pod: Pod) -> None:
        """A pod is new or has changed; to be told before the cluster is, which may forget it."""
        notes = pod.metadata.annotations
        if not notes or (REQUEST not in notes and not saving_of(pod).saves):
            return
        task = task_id(pod)
        request = read_request(notes.get(REQUEST, ""))
        if request is None:
            self.carries.pop(task, None)
        else:
            self.carries[task] = request.id
        saved = condition(pod, SAVED)
        if saved is not None and (ack := read_ack(saved.message)):
            self._believed.setdefault(task, ack)
        parting = self._parting(task)
        for ack in answers(pod):
            self._judge(task, parting, ack)

    def hear(self, heard: Heard) -> None:
        """The endpoint of a pod has answered."""
        self._judge(heard.task, self._parting(heard.task), heard.ack)

    def cannot(self, unasked: Unasked) -> None:
        """A request can never be written on a pod: there is nothing to wait for."""
        self._cannot.add((unasked.task, unasked.id))
        self._said[unasked.task] = (unasked.id, False)

    def lose(self, pod: Pod) -> None:
        """A pod is gone."""
        task = task_id(pod)
        for each in (self.carries, self._believed, self._judged, self._said):
            each.pop(task, None)
        self._cannot = {each for each in self._cannot if each[0] != task}

    def resume(self) -> None:
        """Take over what was answered before us."""
        for parting in self._cluster.partings.now():
            for each in parting.evictions:
                self._take_over(each.task, parting)
        tasks = (self._cluster.tasks.get(each) for each in self._believed)
        for name in sorted({task.gang for task in tasks if task is not None}):
            members = [task.id for task in self._cluster.members(name)]
            self._note_saved(self._cluster.gangs[name], members)

    # -- what follows

    def settle(self) -> None:
        """Tell the cluster what was answered, once all pods of a gang have been asked."""
        for parting in self._cluster.partings.now():
            tasks = [e.task for e in parting.evictions if e.task in self._cluster.tasks]
            if not all(self._is_asked(task, parting) for task in tasks):
                continue
            for task in tasks:
                name, saved = self._said.get(task, ("", False))
                if not self._can_be_asked(task):
                    name, saved = parting.id, True
                if name == parting.id and task not in parting.saved:
                    self._cluster.apply(events.Answered(task, name, saved))

    def standing(self, gang: Gang) -> Gang:
        """The gang, with when its work was saved."""
        at = self._saved_at.get(gang.id)
        return gang if at is None else replace(gang, saved_at=at)

    def have_saved(self, parting: PendingCheckpoint) -> bool:
        """Has every task answered that its work is safe, whether it is still there or not?"""
        tasks = [each.task for each in parting.evictions]
        return all(self._said.get(each) == (parting.id, True) for each in tasks)

    # -- judging

    def _judge(self, task: TaskId, parting: PendingCheckpoint | None, ack: Ack) -> None:
        judged = self._judged.setdefault(task, set())
        if ack in judged:
            return
        judged.add(ack)
        if parting is None:
            return
        request = CheckpointRequest(parting.id, parting.deadline)
        if not accepts(request, ack, self._believed.get(task)):
            self.disbelieved.append(Disbelieved(task, ack.id, parting.id))
        elif ack.state is SaveState.REFUSED:
            self._said[task] = (parting.id, False)
        elif ack.state is SaveState.DONE:
            # a clock that is wrong is believed no further than the request and now
            at = min(max(ack.at, parting.asked_at), self._cluster.now)
            self._believe(task, parting, replace(ack, at=at))

    def _believe(self, task: TaskId, parting: PendingCheckpoint, ack: Ack) -> None:
        self._said[task] = (parting.id, True)
        self._believed[task] = ack
        self.noted.append((task, ack))
        gang = self._cluster.gangs.get(parting.gang)
        if gang is not None:
            self._note_saved(gang, [each.task for each in parting.evictions])

    def _note_saved(self, gang: Gang, tasks: Iterable[TaskId]) -> None:
        """The gang's work is safe once all its tasks have answered the same request."""
        asked = [self._believed.get(each) for each in tasks if self._can_be_asked(each)]
        acks = [each for each in asked if each is not None]
        if not acks or len(acks) < len(asked) or len({each.id for each in acks}) > 1:
            return
        self._saved_at.pop(gang.id, None)
        self._saved_at[gang.id] = min(each.at for each in acks)
        if len(self._saved_at) > MOST:
            self._saved_at.pop(next(iter(self._saved_at)))
        if (found := self.standing(gang)) != gang:
            self._cluster.apply(events.GangSeen(found))

    def _take_over(self, task: TaskId, parting: PendingCheckpoint) -> None:
        pod, noted = self._pod_of(task), self._believed.get(task)
        if noted is not None and noted.id == parting.id:
            self._said[task] = (parting.id, True)
        for ack in answers(pod) if pod else ():
            if ack.id == parting.id and ack.state is not SaveState.SAVING:
                self._judged.get(task, set[Ack]()).discard(ack)
                self._judge(task, parting, ack)

    def _parting(self, task: TaskId) -> PendingCheckpoint | None:
        found = self._cluster.tasks.get(task)
        parting = self._cluster.partings.standing.get(found.gang) if found else None
        if parting is None or all(each.task != task for each in parting.evictions):
            return None
        return parting

    def _is_asked(self, task: TaskId, parting: PendingCheckpoint) -> bool:
        there = self.carries.get(task) == parting.id or (task, parting.id) in self._cannot
        return there or not self._can_be_asked(task)

    def _can_be_asked(self, task: TaskId) -> bool:
        pod = self._pod_of(task)
        return task in self.carries or (pod is not None and saving_of(pod).within_s is not None)
