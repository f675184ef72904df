"""Evict victims: write the promise to the preemptor, announce, dry-run, and then evict.

    promise on the preemptor -> dry run of all pods (if the namespace has budgets)
                                  |            \\-- denied: refused, or retried until a deadline
                                  v
           condition DisruptionTarget on each pod -> Eviction API, or suspension of the owner

The promise comes first, so that the places that become free belong to the preemptor also after a
crash. The Eviction API respects disruption budgets. A victim has its own termination grace, but not
more than the Policy allows. Where budgets exist, every pod of a gang is evicted as a dry run, and
the budgets are checked for all of them together, before the first pod is evicted: a gang that lost
only some of its pods would be stopped for nothing.

An eviction always comes to an end. The Eviction API evicts the pod or denies it (`eviction_api.py`
says by which answers). After a denial, a move or a reclaim towards a share is refused and reported;
an eviction for a guarantee or a priority is retried for a while (`insist_after_s`), and then the
pod is deleted.

A gang that is evicted whole, and whose owner can be suspended, is not evicted pod by pod: after the
same dry run and the same conditions its owner is suspended, and its controller deletes the pods.

Evictions are limited per queue and minute. While evictions are paused none begins, and planned ones
are refused.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.kube.client import Api, ApiError, Conflict, NotFound, Patch, Urgency, WriteQueue
from windlass.kube.refs import PodRef
from windlass.kube.writers import suspend
from windlass.kube.writers.binder import Binder
from windlass.kube.writers.eviction_api import Denied, EvictionApi
from windlass.kube.writes import EvictRefused, GangEvictions, OwnerWrite, Victim
from windlass.model import units
from windlass.model.actions import WITHOUT_PREEMPTOR, EvictionRule
from windlass.workloads.objects import NO_SEAL

INSISTING = frozenset({EvictionRule.GUARANTEE, EvictionRule.PRIORITY}) | WITHOUT_PREEMPTOR
"""Rules whose evictions a denial, such as by a disruption budget, delays but does not stop."""
ASK_AGAIN_S = 5.0
"""The pause between two dry runs after a denial."""
MINUTE_S = 60.0


Report: TypeAlias = Callable[[EvictRefused], None]


@dataclass(slots=True)
class EvictionRates:
    """The rate limit of evictions: a sliding window of one minute per queue."""

    per_minute: int
    """The limit per queue; 0: none."""
    _begun: dict[str, deque[float]] = field(default_factory=dict[str, "deque[float]"])
    """The times of the evictions of the last minute by queue, the oldest first."""

    def wait_s(self, queue: str, now: float, count: int = 1) -> float:
        """Return the seconds that `count` evictions of this queue have to wait.

        If it is 0, they are counted as begun. A gang with more pods than the limit would never fit:
        it may begin once there was no eviction for a minute.
        """
        begun = self._begun.setdefault(queue, deque())
        while begun and begun[0] <= now - MINUTE_S:
            begun.popleft()
        if self.per_minute and begun and len(begun) + count > self.per_minute:
            return begun[0] + MINUTE_S - now
        begun.extend([now] * count)
        return 0.0


@dataclass(frozen=True, slots=True)
class EvictionLimits:
    """The limits of evictions."""

    per_minute: int = 600
    """Evictions per queue and minute; 0: no limit."""
    insist_after_s: float = 300.0
    """After so many seconds a denial no longer stops an eviction for a guarantee or a priority."""


class Evictor:
    """Evicts victims; refusals are reported."""

    def __init__(
        self, api: Api, workers: WriteQueue, binder: Binder, report: Report, limits: EvictionLimits
    ) -> None:
        self._api, self._workers, self._binder = api, workers, binder
        self._report, self._limits = report, limits
        self._rates, self._evictions = EvictionRates(limits.per_minute), EvictionApi(api)
        self.clock: Callable[[], float] = lambda: 0.0
        """Returns monotonic seconds."""
        self.paused = False
        """Refuses every eviction that has not begun."""
        self.has_budget: Callable[[str], bool] = lambda _namespace: True
        """Returns whether there are disruption budgets in a namespace."""
        self.budgets_allow: Callable[[Sequence[PodRef]], bool] = lambda _pods: True
        """Returns whether the budgets of their namespace allow that all these pods go at once."""
        self.seal = NO_SEAL
        """Signs the marks of owners that are suspended."""
        self.evicted: Callable[[Victim], None] = lambda _victim: None
        """Called for every victim that the API server has evicted."""

    def evict(self, evictions: GangEvictions) -> None:
        """Evict the victims, once the promise to the preemptor is written."""
        if evictions.gainer is None or not evictions.promise:
            self._evict_all(evictions.victims)
            return

        def go_on() -> None:
            self._evict_all(evictions.victims)

        def give_up(error: ApiError) -> None:
            why = f"the promise could not be written: {error.message}"
            self._refuse(evictions.victims, why)

        self._binder.promise(evictions.gainer, evictions.promise, go_on, give_up)

    def _evict_all(self, victims: Sequence[Victim]) -> None:
        if self.paused:
            self._refuse(victims, "evictions are paused")
            return
        gangs: dict[str, list[Victim]] = {}
        for victim in victims:
            gangs.setdefault(victim.gang, []).append(victim)
        for gang in gangs.values():
            until = self.clock() + self._limits.insist_after_s
            if self.has_budget(gang[0].pod.namespace):
                self._evict_on_trial(gang, until)
            else:
                self._evict_each(gang, until)

    def _evict_on_trial(self, gang: list[Victim], until: float) -> None:
        """Dry-run the eviction of all pods; evict them only if every one may go.

        `until` is the deadline, by `clock`, up to which a denial is retried.
        """

        async def try_all() -> None:
            for victim in gang:
                await self._evictions.ask(victim.pod, victim.grace_s, dry_run=True)
            if self.budgets_allow([victim.pod for victim in gang]):
                self._evict_each(gang, until)
            else:
                self._delay(gang, until, "a disruption budget does not let all of it go at once")

        async def trial() -> None:
            try:
                await try_all()
            except Denied as denied:
                self._delay(gang, until, denied.why)

        def give_up(error: ApiError) -> None:
            self._refuse(gang, error.message)

        self._workers.put(Urgency.EVICT, self._binder.repeated(Urgency.EVICT, trial, give_up))

    def _delay(self, gang: list[Victim], until: float, why: str) -> None:
        """Handle a denial: refuse, try again later, or after the deadline evict regardless."""
        if gang[0].rule not in INSISTING or self.paused:
            self._refuse(gang, why)
        elif self.clock() < until:

            async def again() -> None:
                self._evict_on_trial(gang, until)

            self._workers.put(Urgency.EVICT, again, min(ASK_AGAIN_S, until - self.clock()))
        else:
            self._evict_each(gang, until)

    def _evict_each(self, gang: Sequence[Victim], until: float) -> None:
        if (turn := gang[0].turn) is not None:
            self._suspend(gang, turn, until)
        else:
            self._evict_one_by_one(gang, until, "it cannot be suspended")

    def _evict_one_by_one(self, gang: Sequence[Victim], until: float, why: str) -> None:
        """Evict each pod by itself; refuse if their owner would count too many failures."""
        if gang[0].fails_owner:
            why = f"its owner would fail for good by so many evictions, and {why}"
            for victim in gang:
                self._report(EvictRefused(victim.pod.task, why, fails_owner=True))
            return
        for victim in gang:
            self._evict(victim, until)

    def _suspend(self, gang: Sequence[Victim], turn: OwnerWrite, until: float) -> None:
        """Announce the eviction on every pod and suspend their owner; if that fails, evict them."""

        async def write() -> None:
            if self.paused:
                self._refuse(gang, "evictions are paused")
                return
            wait_s = self._rates.wait_s(gang[0].queue, self.clock(), len(gang))
            if wait_s > 0:
                self._workers.put(Urgency.EVICT, attempt, wait_s)
                return
            for victim in gang:
                with contextlib.suppress(NotFound, Conflict):  # the pod is gone already
                    await self._announce(victim)
            await suspend.write(self._api, turn, self.seal)
            for victim in gang:
                self.evicted(victim)

        def give_up(error: ApiError) -> None:
            self._evict_one_by_one(gang, until, f"it cannot be suspended: {error.message}")

        attempt = self._binder.repeated(Urgency.EVICT, write, give_up)
        self._workers.put(Urgency.EVICT, attempt)

    def _evict(self, victim: Victim, until: float) -> None:
        async def write() -> None:
            if self.paused:
                self._refuse([victim], "evictions are paused")
                return
            wait_s = self._rates.wait_s(victim.queue, self.clock())
            if wait_s > 0:
                self._workers.put(Urgency.EVICT, attempt, wait_s)
                return
            await self._announce(victim)
            await self._request_eviction(victim, until)

        def give_up(error: ApiError) -> None:
            if not isinstance(error, NotFound | Conflict):  # those mean that the pod is gone
                self._refuse([victim], error.message)

        attempt = self._binder.repeated(Urgency.EVICT, write, give_up)
        self._workers.put(Urgency.EVICT, attempt)

    async def _request_eviction(self, victim: Victim, until: float) -> None:
        try:
            await self._evictions.ask(victim.pod, victim.grace_s)
            self.evicted(victim)
        except Denied as denied:
            if victim.rule in INSISTING and self.clock() >= until:
                await self._delete(victim)
            elif denied.by_budget:
                # The budget may have allowed other pods of the gang before: the refusal makes the
                # engine plan again for what is left.
                self._refuse([victim], denied.why)
            else:
                self._delay([victim], until, denied.why)

    async def _delete(self, victim: Victim) -> None:
        try:
            await self._evictions.delete(victim.pod, victim.grace_s)
            self.evicted(victim)
        except Denied as denied:
            self._refuse([victim], denied.why)

    async def _announce(self, victim: Victim) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": victim.message,
            "lastTransitionTime": units.format_timestamp(time.time()),
        }
        body = {"metadata": {"uid": victim.pod.uid}, "status": {"conditions": [condition]}}
        await self._api.patch(f"{victim.pod.path}/status", body, kind=Patch.STRATEGIC)

    def _refuse(self, victims: Sequence[Victim], why: str) -> None:
        for victim in victims:
            self._report(EvictRefused(victim.pod.task, why))
