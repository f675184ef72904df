"""Checkpoint requests as they should be on the pods, compared with those that are there.

A pod of a gang with a pending checkpoint carries its request; any other running pod carries none.
Each difference is written. So a new leader goes on by itself after a crash: pods that do not carry
the request yet get it with the same id, and requests that are not pending any more are withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.checkpoint.protocol import CheckpointRequest
from windlass.daemon.decide.checkpoint_answers import CheckpointAnswers
from windlass.engine.draft import harm, is_torn
from windlass.engine.explain import eviction_decisions
from windlass.engine.plan import Plan
from windlass.kube.refs import PodRef
from windlass.kube.writes import CheckpointTarget, CheckpointWithdrawal, GangCheckpoint
from windlass.model.actions import Evict, PendingCheckpoint
from windlass.model.jobs import ACTIVE, GangId, TaskId
from windlass.state.cluster import Cluster
from windlass.workloads.objects import Pod
from windlass.workloads.pods import checkpoint_settings_of, endpoint_of

AGAIN_S = 10
"""Seconds after which a withdrawn request that is still there was written late."""
LONGEST_REASON = 500
"""The most characters of the reason in a request."""


class RequestOutcome(StrEnum):
    """The ways in which a checkpoint request ends."""

    SAVED = "saved"
    REFUSED = "refused"
    LATE = "late"
    """The deadline passed before all work was saved."""
    WITHDRAWN = "withdrawn"
    GONE = "gone"
    """The work ended by itself, without an answer that it was saved."""


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A checkpoint request that has ended."""

    parting: PendingCheckpoint
    outcome: RequestOutcome
    waited_s: int


class OpenRequests:
    """The checkpoint requests that were sent, and those that are pending."""

    def __init__(
        self, cluster: Cluster, answers: CheckpointAnswers, pod_of: Callable[[TaskId], Pod | None]
    ) -> None:
        self._cluster, self._answers, self._pod_of = cluster, answers, pod_of
        self._sent: set[tuple[TaskId, str]] = set()
        """Requests, by task and id, that this leader has sent."""
        self._void: dict[tuple[TaskId, str], int] = {}
        """The second at which a request was withdrawn last."""
        self._open: dict[GangId, PendingCheckpoint] = {}
        """The pending checkpoints after the last plan was assumed."""

    def ended(self, plan: Plan) -> list[EndedRequest]:
        """Return the requests that end with this plan; call it before the plan is assumed."""
        now, ended = self._cluster.now, list[EndedRequest]()
        withdrawn = {each.id for each in plan.withdrawals}
        evicted = {self._cluster.tasks[each.task].gang for each in plan.evictions}
        for gang, pending in self._open.items():
            last = self._cluster.partings.standing.get(gang)
            is_there = last is not None and last.id == pending.id
            outcome = None
            if not is_there or (pending.id in withdrawn and not self._is_left(pending)):
                outcome = self._by_itself(pending)
            elif pending.id in withdrawn:
                outcome = RequestOutcome.WITHDRAWN
            elif gang in evicted and last is not None:
                outcome = self._evicted(last)
            if outcome is not None:
                ended.append(EndedRequest(last or pending, outcome, now - pending.asked_at))
        return ended

    def asks(self, promises: Mapping[GangId, tuple[PodRef, str]]) -> Iterator[GangCheckpoint]:
        """Yield the requests to write, each with the promise to write before it.

        Call it after the plan is assumed.
        """
        checkpoints = self._cluster.partings.now()
        self._open = {each.gang: each for each in checkpoints}
        for pending in checkpoints:
            pods = [
                target
                for each in pending.evictions
                if (each.task, pending.id) not in self._sent
                and (target := self._target(each.task))
                # an endpoint that a previous leader has asked is still polled for its progress
                and (target.url or self._answers.carries.get(each.task) != pending.id)
            ]
            if pods:
                self._sent |= {(each.pod.task, pending.id) for each in pods}
                gainers = (promises.get(each.gainer) for each in pending.evictions)
                gainer, promise = next((each for each in gainers if each), (None, ""))
                request = CheckpointRequest(pending.id, pending.deadline, self._reason(pending))
                yield GangCheckpoint(request, tuple(pods), gainer, promise)

    def withdrawals(self) -> Iterator[CheckpointWithdrawal]:
        """Yield the requests on running pods that are not pending any more."""
        tasks, now = self._cluster.tasks, self._cluster.now
        self._sent = {each for each in self._sent if each[0] in tasks}
        self._void = {key: at for key, at in self._void.items() if key[0] in tasks}
        withdrawn: dict[str, list[CheckpointTarget]] = {}
        for task, name in sorted(self._sent | set(self._answers.carries.items())):
            known = tasks.get(task)
            if known is None or known.state not in ACTIVE:
                continue
            pending = self._cluster.partings.standing.get(known.gang)
            if pending is not None and pending.id == name:
                continue
            self._sent.discard((task, name))
            if now - self._void.get((task, name), -AGAIN_S) >= AGAIN_S:
                self._void[task, name] = now
                if pod := self._pod_of(task):
                    withdrawn.setdefault(name, []).append(_target_of(pod))
        for name, pods in withdrawn.items():
            yield CheckpointWithdrawal(name, tuple(pods))

    def _target(self, task: TaskId) -> CheckpointTarget | None:
        pod = self._pod_of(task)
        if pod is None or checkpoint_settings_of(pod).within_s is None:
            return None
        return _target_of(pod)

    def _reason(self, pending: PendingCheckpoint) -> str:
        there = [each for each in pending.evictions if each.task in self._cluster.tasks]
        reasons = [
            str(why) for each in eviction_decisions(self._cluster, there) for why in each.reasons
        ]
        return "; ".join(reasons)[:LONGEST_REASON]

    def _is_left(self, pending: PendingCheckpoint) -> bool:
        return any(each.task in self._cluster.tasks for each in pending.evictions)

    def _by_itself(self, pending: PendingCheckpoint) -> RequestOutcome:
        return RequestOutcome.SAVED if self._answers.have_saved(pending) else RequestOutcome.GONE

    def _evicted(self, pending: PendingCheckpoint) -> RequestOutcome:
        left = [each.task for each in pending.evictions if each.task in self._cluster.tasks]
        if all(each in pending.saved for each in left):
            return RequestOutcome.SAVED
        return RequestOutcome.REFUSED if pending.refused else RequestOutcome.LATE


def lost_by_rule(cluster: Cluster, evictions: tuple[Evict, ...]) -> dict[str, int]:
    """Return the thousandths of GPU-seconds that are lost by evictions now, by rule."""
    gangs: dict[tuple[GangId, str], list[TaskId]] = {}
    for each in evictions:
        key = (cluster.tasks[each.task].gang, each.rule.value)
        gangs.setdefault(key, []).append(each.task)
    lost_by: dict[str, int] = {}
    for (name, rule), tasks in gangs.items():
        # as if it had no checkpoints: it is stopped now
        gang = replace(cluster.gangs[name], saves_within_s=None)
        rest = [each for each in cluster.members(name) if each.id not in tasks]
        lost = harm(gang, [cluster.tasks[e] for e in tasks], cluster.now, is_torn(gang, rest))
        lost_by[rule] = lost_by.get(rule, 0) + lost
    return lost_by


def _target_of(pod: Pod) -> CheckpointTarget:
    return CheckpointTarget(PodRef.of(pod), endpoint_of(pod))
