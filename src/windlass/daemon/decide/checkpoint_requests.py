"""Requests to save, as they should stand on the pods, against what is there.

A pod of a gang that is asked carries its request; one of a gang that is not, and works, carries
none. What differs is written. So whoever comes after a crash goes on without a word about it: pods
that were not asked yet are asked by the same id, and a request that nobody stands for is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.checkpoint.protocol import CheckpointRequest
from windlass.daemon.decide.checkpoint_answers import Answers
from windlass.engine.draft.eviction_units import is_torn
from windlass.engine.draft.restart_cost import harm
from windlass.engine.explain.reasons import displaced
from windlass.engine.plan import Plan
from windlass.kube.writers.binder import PodRef
from windlass.kube.writers.checkpoint import Asking, CheckpointTarget, Withdrawal
from windlass.model.actions import Evict, PendingCheckpoint
from windlass.model.jobs import ACTIVE, GangId, TaskId
from windlass.state.cluster import Cluster
from windlass.workloads.objects.wire import Pod
from windlass.workloads.pods.checkpointing import endpoint_of, saving_of

AGAIN_S = 10
"""A request that is still there so long after it was withdrawn was written late."""
LONGEST_REASON = 500


class RequestOutcome(StrEnum):
    """How a request to save ended."""

    SAVED = "saved"
    REFUSED = "refused"
    LATE = "late"
    """The deadline came first."""
    WITHDRAWN = "withdrawn"
    GONE = "gone"
    """The work ended by itself, and did not say that it had saved."""


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A request that is over."""

    parting: PendingCheckpoint
    outcome: RequestOutcome
    waited_s: int


class Requests:
    """What was asked of whom."""

    def __init__(
        self, cluster: Cluster, answers: Answers, pod_of: Callable[[TaskId], Pod | None]
    ) -> None:
        self._cluster, self._answers, self._pod_of = cluster, answers, pod_of
        self._sent: set[tuple[TaskId, str]] = set()
        self._void: dict[tuple[TaskId, str], int] = {}
        self._open: dict[GangId, PendingCheckpoint] = {}

    def ended(self, plan: Plan) -> list[EndedRequest]:
        """The requests that are over with this plan; to be asked before it is assumed."""
        now, found = self._cluster.now, list[EndedRequest]()
        withdrawn = {each.id for each in plan.withdrawals}
        evicted = {self._cluster.tasks[each.task].gang for each in plan.evictions}
        for gang, parting in self._open.items():
            last = self._cluster.partings.standing.get(gang)
            is_there = last is not None and last.id == parting.id
            outcome = None
            if not is_there or (parting.id in withdrawn and not self._is_left(parting)):
                outcome = self._by_itself(parting)
            elif parting.id in withdrawn:
                outcome = RequestOutcome.WITHDRAWN
            elif gang in evicted and last is not None:
                outcome = self._evicted(last)
            if outcome is not None:
                found.append(EndedRequest(last or parting, outcome, now - parting.asked_at))
        return found

    def asks(self, promises: Mapping[GangId, tuple[PodRef, str]]) -> Iterator[Asking]:
        """What is to be asked, after the plan is assumed; the promises that go before it."""
        standing = self._cluster.partings.now()
        self._open = {each.gang: each for each in standing}
        for parting in standing:
            pods = [
                asked
                for each in parting.evictions
                if (each.task, parting.id) not in self._sent
                and (asked := self._asked(each.task))
                # who was asked before us is still to be asked how far it is
                and (asked.url or self._answers.carries.get(each.task) != parting.id)
            ]
            if pods:
                self._sent |= {(each.pod.task, parting.id) for each in pods}
                gainers = (promises.get(each.gainer) for each in parting.evictions)
                gainer, promise = next((each for each in gainers if each), (None, ""))
                request = CheckpointRequest(parting.id, parting.deadline, self._reason(parting))
                yield Asking(request, tuple(pods), gainer, promise)

    def withdrawals(self) -> Iterator[Withdrawal]:
        """Requests on pods that work, and for which nothing stands any more."""
        tasks, now = self._cluster.tasks, self._cluster.now
        self._sent = {each for each in self._sent if each[0] in tasks}
        self._void = {key: at for key, at in self._void.items() if key[0] in tasks}
        void: dict[str, list[CheckpointTarget]] = {}
        for task, name in sorted(self._sent | set(self._answers.carries.items())):
            found = tasks.get(task)
            if found is None or found.state not in ACTIVE:
                continue
            parting = self._cluster.partings.standing.get(found.gang)
            if parting is not None and parting.id == name:
                continue
            self._sent.discard((task, name))
            if now - self._void.get((task, name), -AGAIN_S) >= AGAIN_S:
                self._void[task, name] = now
                if pod := self._pod_of(task):
                    void.setdefault(name, []).append(_asked_of(pod))
        for name, pods in void.items():
            yield Withdrawal(name, tuple(pods))

    def _asked(self, task: TaskId) -> CheckpointTarget | None:
        pod = self._pod_of(task)
        if pod is None or saving_of(pod).within_s is None:
            return None
        return _asked_of(pod)

    def _reason(self, parting: PendingCheckpoint) -> str:
        there = [each for each in parting.evictions if each.task in self._cluster.tasks]
        reasons = [str(why) for each in displaced(self._cluster, there) for why in each.reasons]
        return "; ".join(reasons)[:LONGEST_REASON]

    def _is_left(self, parting: PendingCheckpoint) -> bool:
        return any(each.task in self._cluster.tasks for each in parting.evictions)

    def _by_itself(self, parting: PendingCheckpoint) -> RequestOutcome:
        return RequestOutcome.SAVED if self._answers.have_saved(parting) else RequestOutcome.GONE

    def _evicted(self, parting: PendingCheckpoint) -> RequestOutcome:
        left = [each.task for each in parting.evictions if each.task in self._cluster.tasks]
        if all(each in parting.saved for each in left):
            return RequestOutcome.SAVED
        return RequestOutcome.REFUSED if parting.refused else RequestOutcome.LATE


def lost_by_rule(cluster: Cluster, evictions: tuple[Evict, ...]) -> dict[str, int]:
    """Thousandth GPU-seconds that are lost by evictions now, by rule."""
    gangs: dict[tuple[GangId, str], list[TaskId]] = {}
    for each in evictions:
        key = (cluster.tasks[each.task].gang, each.rule.value)
        gangs.setdefault(key, []).append(each.task)
    found: dict[str, int] = {}
    for (name, rule), tasks in gangs.items():
        # whatever it could have saved: it is stopped now
        gang = replace(cluster.gangs[name], saves_within_s=None)
        rest = [each for each in cluster.members(name) if each.id not in tasks]
        lost = harm(gang, [cluster.tasks[e] for e in tasks], cluster.now, is_torn(gang, rest))
        found[rule] = found.get(rule, 0) + lost
    return found


def _asked_of(pod: Pod) -> CheckpointTarget:
    return CheckpointTarget(PodRef.of(pod), endpoint_of(pod))
