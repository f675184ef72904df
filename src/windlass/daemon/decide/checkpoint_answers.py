"""The answers of pods to checkpoint requests, and which of them are accepted.

An answer is accepted if it names the pending request of its gang, and a training step that is not
before one already saved. Any other answer is refused and logged. An accepted answer is noted on the
pod, in a condition that users cannot write: so the next leader finds it, as long as the pod lives.

`CheckpointComplaints` reports annotations about checkpoints that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from windlass.kube.refs import PodRef
from windlass.kube.writers import EventMessage, GangMessages
from windlass.kube.writes import Heard, RequestUnwritable
from windlass.model import events
from windlass.model.actions import PendingCheckpoint
from windlass.model.jobs import Gang, GangId, TaskId
from windlass.state.cluster import Cluster
from windlass.workloads.objects import SAVED, Pod, condition
from windlass.workloads.pods import answers, checkpoint_settings_of, complaints, task_id

MOST = 10_000
"""The number of gangs that are remembered; of more, the first ones are forgotten."""


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """An answer that is refused, because it is stale or forged."""

    task: TaskId
    named: str
    """The id of the request that the answer names."""
    asked: str
    """The id of the pending request."""


class CheckpointAnswers:
    """The request on each pod, and the answers to it."""

    def __init__(self, cluster: Cluster, pod_of: Callable[[TaskId], Pod | None]) -> None:
        self._cluster, self._pod_of = cluster, pod_of
        self.carries: dict[TaskId, str] = {}
        """The id of the request on each pod, as it was observed last."""
        self._disbelieved: list[RefusedAnswer] = []
        self._unnoted: list[tuple[TaskId, Ack]] = []
        """Accepted answers that are not yet noted on their pods."""
        self._accepted: dict[TaskId, Ack] = {}
        """The last accepted answer of each task; later ones may not go back behind its step."""
        self._judged: dict[TaskId, set[Ack]] = {}
        """All answers that were judged: pods are observed again and again with the same answer."""
        self._outcomes: dict[TaskId, tuple[str, bool]] = {}
        """The id of the request that a task has answered, and whether its work is saved."""
        self._cannot: set[tuple[TaskId, str]] = set()
        """Requests that can never be written on a pod."""
        self._saved_at: dict[GangId, int] = {}

    # -- observations

    def see(self, pod: Pod) -> None:
        """Take note of the request and the answers on a pod; call it before the cluster changes."""
        notes = pod.metadata.annotations
        if not notes or (REQUEST not in notes and not checkpoint_settings_of(pod).saves):
            return
        task = task_id(pod)
        request = read_request(notes.get(REQUEST, ""))
        if request is None:
            self.carries.pop(task, None)
        else:
            self.carries[task] = request.id
        noted = condition(pod, SAVED)
        if noted is not None and (ack := read_ack(noted.message)):
            self._accepted.setdefault(task, ack)
        pending = self._pending(task)
        for ack in answers(pod):
            self._judge(task, pending, ack)

    def hear(self, heard: Heard) -> None:
        """Take note of the answer of a pod's endpoint."""
        self._judge(heard.task, self._pending(heard.task), heard.ack)

    def cannot(self, unasked: RequestUnwritable) -> None:
        """Take note that a request can never be written on a pod: it is not waited for."""
        self._cannot.add((unasked.task, unasked.id))
        self._outcomes[unasked.task] = (unasked.id, False)

    def lose(self, pod: Pod) -> None:
        """Forget a pod that is gone."""
        task = task_id(pod)
        for by_task in (self.carries, self._accepted, self._judged, self._outcomes):
            by_task.pop(task, None)
        self._cannot = {(name, id) for name, id in self._cannot if name != task}

    def resume(self) -> None:
        """Take over the answers that a previous leader has received."""
        for pending in self._cluster.partings.now():
            for evict in pending.evictions:
                self._take_over(evict.task, pending)
        tasks = (self._cluster.tasks.get(name) for name in self._accepted)
        for name in sorted({task.gang for task in tasks if task is not None}):
            members = [task.id for task in self._cluster.members(name)]
            self._note_saved(self._cluster.gangs[name], members)

    # -- results

    def settle(self) -> None:
        """Apply the answers to the cluster, once all pods of a gang carry the request."""
        for pending in self._cluster.partings.now():
            tasks = [e.task for e in pending.evictions if e.task in self._cluster.tasks]
            if not all(self._is_asked(task, pending) for task in tasks):
                continue
            for task in tasks:
                name, saved = self._outcomes.get(task, ("", False))
                if not self._can_be_asked(task):
                    name, saved = pending.id, True
                if name == pending.id and task not in pending.saved:
                    self._cluster.apply(events.Answered(task, name, saved))

    def take_results(self) -> tuple[list[tuple[TaskId, Ack]], list[RefusedAnswer]]:
        """Return the accepted and the refused answers since the last call."""
        accepted, refused = self._unnoted, self._disbelieved
        self._unnoted, self._disbelieved = [], []
        return accepted, refused

    def standing(self, gang: Gang) -> Gang:
        """Return the gang with the second at which its work was saved, if it was."""
        at = self._saved_at.get(gang.id)
        return gang if at is None else replace(gang, saved_at=at)

    def have_saved(self, pending: PendingCheckpoint) -> bool:
        """Return whether every task has answered that it saved, also those that are gone."""
        tasks = [evict.task for evict in pending.evictions]
        return all(self._outcomes.get(task) == (pending.id, True) for task in tasks)

    # -- judging

    def _judge(self, task: TaskId, pending: PendingCheckpoint | None, ack: Ack) -> None:
        judged = self._judged.setdefault(task, set())
        if ack in judged:
            return
        judged.add(ack)
        if pending is None:
            return
        request = CheckpointRequest(pending.id, pending.deadline)
        if not accepts(request, ack, self._accepted.get(task)):
            self._disbelieved.append(RefusedAnswer(task, ack.id, pending.id))
        elif ack.state is SaveState.REFUSED:
            self._outcomes[task] = (pending.id, False)
        elif ack.state is SaveState.DONE:
            # a wrong clock is bounded by the time of the request and by now
            at = min(max(ack.at, pending.asked_at), self._cluster.now)
            self._accept(task, pending, replace(ack, at=at))

    def _accept(self, task: TaskId, pending: PendingCheckpoint, ack: Ack) -> None:
        self._outcomes[task] = (pending.id, True)
        self._accepted[task] = ack
        self._unnoted.append((task, ack))
        gang = self._cluster.gangs.get(pending.gang)
        if gang is not None:
            self._note_saved(gang, [evict.task for evict in pending.evictions])

    def _note_saved(self, gang: Gang, tasks: Iterable[TaskId]) -> None:
        """Note that the work of a gang is saved, if all its tasks have answered one request."""
        accepted = [self._accepted.get(task) for task in tasks if self._can_be_asked(task)]
        acks = [ack for ack in accepted if ack is not None]
        if not acks or len(acks) < len(accepted) or len({ack.id for ack in acks}) > 1:
            return
        self._saved_at.pop(gang.id, None)
        self._saved_at[gang.id] = min(ack.at for ack in acks)
        if len(self._saved_at) > MOST:
            self._saved_at.pop(next(iter(self._saved_at)))
        if (saved := self.standing(gang)) != gang:
            self._cluster.apply(events.GangSeen(saved))

    def _take_over(self, task: TaskId, pending: PendingCheckpoint) -> None:
        pod, noted = self._pod_of(task), self._accepted.get(task)
        if noted is not None and noted.id == pending.id:
            self._outcomes[task] = (pending.id, True)
        for ack in answers(pod) if pod else ():
            if ack.id == pending.id and ack.state is not SaveState.SAVING:
                # it was judged when the pod was read, before its request was known
                self._judged.get(task, set[Ack]()).discard(ack)
                self._judge(task, pending, ack)

    def _pending(self, name: TaskId) -> PendingCheckpoint | None:
        """Return the pending checkpoint of which a task is part; None if there is none."""
        task = self._cluster.tasks.get(name)
        pending = self._cluster.partings.standing.get(task.gang) if task else None
        if pending is None or all(evict.task != name for evict in pending.evictions):
            return None
        return pending

    def _is_asked(self, task: TaskId, pending: PendingCheckpoint) -> bool:
        """Return whether a pod carries the request, or never will."""
        settled = self.carries.get(task) == pending.id or (task, pending.id) in self._cannot
        return settled or not self._can_be_asked(task)

    def _can_be_asked(self, task: TaskId) -> bool:
        pod = self._pod_of(task)
        return task in self.carries or (
            pod is not None and checkpoint_settings_of(pod).within_s is not None
        )


class CheckpointComplaints:
    """Reports unreadable annotations about checkpoints, once per gang; nothing is refused."""

    def __init__(self, gang_of: Callable[[TaskId], GangId | None]) -> None:
        self._gang_of = gang_of
        self._reported: dict[tuple[GangId, str], None] = {}
        """The complaints that were reported, the oldest first; at most `MOST`."""
        self._due: list[GangMessages] = []

    def see(self, pod: Pod) -> None:
        """Take note of a pod; call it after the translator knows the pod's gang."""
        if not pod.metadata.annotations or not (wrong := "; ".join(complaints(pod))):
            return
        gang = self._gang_of(task_id(pod))
        if gang is None or (gang, wrong) in self._reported:
            return
        self._reported[gang, wrong] = None
        if len(self._reported) > MOST:
            self._reported.pop(next(iter(self._reported)))
        text = wrong[:1].upper() + wrong[1:]
        note = EventMessage(PodRef.of(pod), "CheckpointUnreadable", text, is_warning=True)
        self._due.append(GangMessages(note=note))

    def due(self) -> Iterator[GangMessages]:
        """Yield the Events to write now, each once."""
        yield from self._due
        self._due = []
