"""Whom a plan evicts for whom, and how: pod by pod, or a whole gang through its owner.

Before anybody goes, its places are promised to who gains by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from windlass.daemon.decide.nominations import Promised
from windlass.daemon.decide.pod_refs import Pods
from windlass.engine.explain.reasons import displaced as losing
from windlass.engine.plan import Plan
from windlass.kube.ingest.translator import Translator
from windlass.kube.writers.binder import PodRef
from windlass.kube.writers.conditions import GangMessages, displaced
from windlass.kube.writers.evictor import GangEvictions, Victim
from windlass.kube.writers.suspend import To, Turn
from windlass.model.actions import Evict, EvictionRule
from windlass.model.jobs import Gang, GangId, Overrun, TaskId
from windlass.state.cluster import Cluster
from windlass.workloads.kinds.suspension import Mark
from windlass.workloads.pods.checkpointing import GRACE_S, grace_of

Promises = Mapping[GangId, tuple[PodRef, str]]
"""To whom, and on which pod it is written."""


class Evicting:
    """Makes clearings of evictions."""

    def __init__(
        self, cluster: Cluster, translator: Translator, promised: Promised, pods: Pods
    ) -> None:
        self._cluster, self._translator = cluster, translator
        self._promised, self._pods = promised, pods

    def promises(self, decided: Plan) -> Promises:
        """What is promised to those who gain by a plan, also by what is only asked for yet."""
        found: dict[GangId, tuple[PodRef, str]] = {}
        holds = {hold.gang: hold for hold in decided.holds}
        for gainer in dict.fromkeys(each.gainer for each in decided.going):
            hold, pod = holds.get(gainer), self._pods.lead(gainer)
            if hold is not None and pod is not None:
                text = self._promised.compose(hold, decided)
                self._promised.write(gainer, pod.task, text)
                found[gainer] = (pod, text)
        return found

    def clearings(self, decided: Plan, promises: Promises) -> list[GangEvictions]:
        """Whom to evict for whom, after these promises, and what to tell them."""
        reasons = {each.gang: each for each in losing(self._cluster, decided.evictions)}
        found: dict[GangId, list[Victim]] = {}
        turns = self._turns(decided.evictions)
        failing = self._failing(decided.evictions, turns)
        for evict in decided.evictions:
            gang = self._cluster.tasks[evict.task].gang
            decision = reasons.get(gang)
            why = "; ".join(str(each) for each in decision.reasons) if decision else ""
            victim = self._victim(evict, why, turns, failing)
            found.setdefault(evict.gainer, []).append(victim)
        return [
            GangEvictions(tuple(victims), *promises.get(gainer, (None, "")))
            for gainer, victims in found.items()
        ]

    def pages(self, decided: Plan) -> list[GangMessages]:
        """What is said about those who lose their places by a plan, now or once they have saved."""
        asked = {each.gang: each for each in decided.asks}
        return [
            GangMessages(note=displaced(decision, pod, asked.get(decision.gang)))
            for decision in losing(self._cluster, decided.going)
            if (pod := self._pods.first(decision.gang))
        ]

    def unfinished(self) -> list[GangEvictions]:
        """The evictions that were promised before us and are not done."""
        found: list[GangEvictions] = []
        for promised in self._promised.evictions():
            evictions = [
                Evict(e, EvictionRule.GUARANTEE) for e in promised if e in self._cluster.tasks
            ]
            turns = self._turns(evictions)
            failing = self._failing(evictions, turns)
            why = "it was promised to another gang"
            victims = [self._victim(each, why, turns, failing) for each in evictions]
            if victims:
                found.append(GangEvictions(tuple(victims)))
        return found

    def _failing(self, evictions: Sequence[Evict], turns: Mapping[GangId, Turn]) -> set[GangId]:
        """Return the gangs whose owners would fail for good if they were evicted pod by pod."""
        counts = {gang: len(some) for gang, some in self._cluster.by_gang(evictions).items()}
        one_by_one = {gang: count for gang, count in counts.items() if gang not in turns}
        found = self._translator.failing(one_by_one)
        for gang in turns:  # in case that its owner cannot be suspended after all
            found |= self._translator.failing({gang: counts[gang]})
        return found

    def _turns(self, evictions: Sequence[Evict]) -> dict[GangId, Turn]:
        """How gangs are stopped that go whole, where their owners can be suspended."""
        found: dict[GangId, Turn] = {}
        leaving = {each.task for each in evictions}
        for gang, some in self._cluster.by_gang(evictions).items():
            switch = self._translator.switch(gang, leaving)
            if switch is not None:
                # what cannot be signed would not be believed later: its pods are evicted instead
                rule, gainer, since = some[0].rule, some[0].gainer, self._cluster.gangs[gang]
                pod = self._translator.pod(some[0].task)
                by = pod.spec.scheduler_name if pod else ""
                mark = self._mark(since, rule, gainer, by)
                if mark is None or self._translator.scope.seal.can_sign:
                    found[gang] = Turn(gang, switch, To.SUSPENDED, mark)
        return found

    def _mark(self, gang: Gang, rule: EvictionRule, gainer: GangId, by: str) -> Mark | None:
        """What is noted on an owner so that it comes back; nothing if it is not to."""
        now, since = self._cluster.now, gang.created_at
        if rule is EvictionRule.OVERRUN:
            if gang.overrun is Overrun.END:
                return None
            since = now  # it stands in line as if it had come just now
        return Mark(now, rule, gainer, since, by=by)

    def _victim(
        self, evict: Evict, why: str, turns: Mapping[GangId, Turn], failing: Set[GangId]
    ) -> Victim:
        gang = self._cluster.gangs[self._cluster.tasks[evict.task].gang]
        pod, turn, grace_s = (
            self._pods.surely(evict.task),
            turns.get(gang.id),
            self._grace_s(evict.task),
        )
        is_fatal = gang.id in failing
        return Victim(pod, gang.id, gang.queue, evict.rule, why, grace_s, turn, is_fatal)

    def _grace_s(self, task: TaskId) -> int:
        """Return the termination grace of a victim, in seconds: its own, bounded by the Policy."""
        pod = self._translator.pod(task)
        own_s = grace_of(pod) if pod else GRACE_S
        return min(own_s, self._cluster.settings.longest_grace_s)
