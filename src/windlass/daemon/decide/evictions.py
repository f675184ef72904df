"""The evictions of a plan: pod by pod, or a whole gang through its owner.

The places of the victims are promised to the preemptor before the first victim is evicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from windlass.daemon.decide.nominations import Nominations
from windlass.daemon.decide.pod_refs import PodRefs
from windlass.engine.explain import eviction_decisions as losing
from windlass.engine.plan import Plan
from windlass.kube.ingest import Translator
from windlass.kube.refs import PodRef
from windlass.kube.writers import GangMessages, displaced_event
from windlass.kube.writes import GangEvictions, OwnerChange, OwnerWrite, Victim
from windlass.model.actions import Evict, EvictionRule
from windlass.model.jobs import Gang, GangId, Overrun, TaskId
from windlass.state.cluster import Cluster
from windlass.workloads.kinds import SuspensionMark
from windlass.workloads.pods import GRACE_S, grace_of

Promises = Mapping[GangId, tuple[PodRef, str]]
"""By preemptor: the pod that carries the promise, and its text."""


class EvictionPlanner:
    """Works out the victims, their promise, and how each gang is stopped."""

    def __init__(
        self, cluster: Cluster, translator: Translator, nominations: Nominations, pods: PodRefs
    ) -> None:
        self._cluster, self._translator = cluster, translator
        self._nominations, self._pods = nominations, pods

    def promises(self, decided: Plan) -> Promises:
        """Return the promises to the preemptors of a plan, also of pending checkpoints."""
        promises: dict[GangId, tuple[PodRef, str]] = {}
        holds = {hold.gang: hold for hold in decided.holds}
        for preemptor in dict.fromkeys(evict.gainer for evict in decided.going):
            hold, pod = holds.get(preemptor), self._pods.lead(preemptor)
            if hold is not None and pod is not None:
                text = self._nominations.compose(hold, decided)
                self._nominations.write(preemptor, pod.task, text)
                promises[preemptor] = (pod, text)
        return promises

    def evictions_of(self, decided: Plan, promises: Promises) -> list[GangEvictions]:
        """Return the victims of each preemptor, with its promise and the reason for each victim."""
        reasons = {each.gang: each for each in losing(self._cluster, decided.evictions)}
        by_preemptor: dict[GangId, list[Victim]] = {}
        turns = self._turns(decided.evictions)
        failing = self._failing(decided.evictions, turns)
        for evict in decided.evictions:
            gang = self._cluster.tasks[evict.task].gang
            decision = reasons.get(gang)
            why = "; ".join(str(each) for each in decision.reasons) if decision else ""
            victim = self._victim(evict, why, turns, failing)
            by_preemptor.setdefault(evict.gainer, []).append(victim)
        return [
            GangEvictions(tuple(victims), *promises.get(preemptor, (None, "")))
            for preemptor, victims in by_preemptor.items()
        ]

    def pages(self, decided: Plan) -> list[GangMessages]:
        """Return the Events about the victims of a plan, evicted now or after a checkpoint."""
        asked = {each.gang: each for each in decided.asks}
        return [
            GangMessages(note=displaced_event(decision, pod, asked.get(decision.gang)))
            for decision in losing(self._cluster, decided.going)
            if (pod := self._pods.first(decision.gang))
        ]

    def unfinished(self) -> list[GangEvictions]:
        """Return the evictions that a previous leader promised and did not finish."""
        unfinished: list[GangEvictions] = []
        for promised in self._nominations.evictions():
            evictions = [
                Evict(e, EvictionRule.GUARANTEE) for e in promised if e in self._cluster.tasks
            ]
            turns = self._turns(evictions)
            failing = self._failing(evictions, turns)
            why = "it was promised to another gang"
            victims = [self._victim(each, why, turns, failing) for each in evictions]
            if victims:
                unfinished.append(GangEvictions(tuple(victims)))
        return unfinished

    def _failing(
        self, evictions: Sequence[Evict], turns: Mapping[GangId, OwnerWrite]
    ) -> set[GangId]:
        """Return the gangs whose owners would fail for good if they were evicted pod by pod."""
        counts = {gang: len(some) for gang, some in self._cluster.by_gang(evictions).items()}
        one_by_one = {gang: count for gang, count in counts.items() if gang not in turns}
        failing = self._translator.failing(one_by_one)
        for gang in turns:  # each alone, in case that its owner cannot be suspended after all
            failing |= self._translator.failing({gang: counts[gang]})
        return failing

    def _turns(self, evictions: Sequence[Evict]) -> dict[GangId, OwnerWrite]:
        """Return how gangs are stopped whole, where their owners can be suspended."""
        turns: dict[GangId, OwnerWrite] = {}
        leaving = {each.task for each in evictions}
        for gang, some in self._cluster.by_gang(evictions).items():
            switch = self._translator.switch(gang, leaving)
            if switch is not None:
                pod = self._translator.pod(some[0].task)
                scheduler = pod.spec.scheduler_name if pod else ""
                mark = self._mark(self._cluster.gangs[gang], some[0], scheduler)
                # an unsigned mark would not be trusted later: the pods are evicted instead
                if mark is None or self._translator.scope.seal.can_sign:
                    turns[gang] = OwnerWrite(gang, switch, OwnerChange.SUSPENDED, mark)
        return turns

    def _mark(self, gang: Gang, evict: Evict, scheduler: str) -> SuspensionMark | None:
        """Return the mark by which an owner is resumed later; None if it is not to be resumed."""
        now, since = self._cluster.now, gang.created_at
        if evict.rule is EvictionRule.OVERRUN:
            if gang.overrun is Overrun.END:
                return None
            since = now  # it is queued again as if it had been created just now
        return SuspensionMark(now, evict.rule, evict.gainer, since, by=scheduler)

    def _victim(
        self, evict: Evict, why: str, turns: Mapping[GangId, OwnerWrite], failing: Set[GangId]
    ) -> Victim:
        gang = self._cluster.gangs[self._cluster.tasks[evict.task].gang]
        pod, turn = self._pods.surely(evict.task), turns.get(gang.id)
        grace_s = self._grace_s(evict.task)
        is_fatal = gang.id in failing
        return Victim(pod, gang.id, gang.queue, evict.rule, why, grace_s, turn, is_fatal)

    def _grace_s(self, task: TaskId) -> int:
        """Return the termination grace of a victim, in seconds: its own, bounded by the Policy."""
        pod = self._translator.pod(task)
        own_s = grace_of(pod) if pod else GRACE_S
        return min(own_s, self._cluster.settings.longest_grace_s)
