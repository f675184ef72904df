"""Evictions, politely: promised to the gang that gains, announced on the pod, then asked for.

The gang that gains has its promise written first. Each victim gets the condition `DisruptionTarget`
and then the Eviction API, which keeps disruption budgets. It has the pod's own grace, but not more
than the Policy allows. Where budgets exist, every pod of a gang is asked for on trial, and all of
them are counted, before the first one goes.

An eviction always ends. The Eviction API lets the pod go, or it denies that (`eviction.py` says by
which answers): then a move, or a reclaim towards a share, is refused and reported; a guarantee or a
priority goes on asking for a while (`insist_after_s`), and then deletes the pod.

A gang that goes whole, and whose owner can be suspended, is not evicted pod by pod: after the same
conditions and the same trial its owner is suspended, and its controller deletes the pods.

Evictions are capped per queue and minute. While paused none begins, and what was planned is undone.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.kube.client.client import Api, Patch
from windlass.kube.client.errors import ApiError, Conflict, NotFound
from windlass.kube.client.write_queue import Urgency, WriteQueue
from windlass.kube.refs import PodRef
from windlass.kube.writers import suspend
from windlass.kube.writers.binder import Binder
from windlass.kube.writers.eviction import Denied, Evictions
from windlass.kube.writes import Turn
from windlass.model import units
from windlass.model.actions import FOR_NOBODY, EvictionRule
from windlass.model.jobs import TaskId
from windlass.workloads.objects.signed_marks import NO_SEAL

INSISTING = frozenset({EvictionRule.GUARANTEE, EvictionRule.PRIORITY}) | FOR_NOBODY
"""Rules that a denial, by a disruption budget say, delays and does not stop."""
ASK_AGAIN_S = 5.0
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to be evicted: by which rule, from which queue, and what it is told."""

    pod: PodRef
    gang: str
    queue: str
    rule: EvictionRule
    message: str
    grace_s: int
    """Its termination grace, in seconds, from SIGTERM to SIGKILL."""
    turn: Turn | None = None
    """How its gang is stopped whole, if it is."""
    fails_owner: bool = False
    """Would its owner fail for good if its gang were evicted pod by pod?"""


@dataclass(frozen=True, slots=True)
class GangEvictions:
    """Victims for one gang, and the promise to write on it first."""

    victims: tuple[Victim, ...]
    gainer: PodRef | None = None
    promise: str = ""


@dataclass(frozen=True, slots=True)
class EvictRefused:
    """An eviction will not happen."""

    task: TaskId
    why: str
    fails_owner: bool = False
    """Was it refused because the owner of the pod would have failed for good?"""


Report: TypeAlias = Callable[[EvictRefused], None]


@dataclass(slots=True)
class Rates:
    """Evictions per queue in the last minute."""

    per_minute: int
    _begun: dict[str, deque[float]] = field(default_factory=dict[str, "deque[float]"])

    def wait_s(self, queue: str, now: float, count: int = 1) -> float:
        """How long evictions of this queue have to wait; begins them if they need not.

        More than the cap together wait until none was begun for a minute.
        """
        begun = self._begun.setdefault(queue, deque())
        while begun and begun[0] <= now - MINUTE_S:
            begun.popleft()
        if self.per_minute and begun and len(begun) + count > self.per_minute:
            return begun[0] + MINUTE_S - now
        begun.extend([now] * count)
        return 0.0


@dataclass(frozen=True, slots=True)
class Manners:
    """How politely to evict."""

    per_minute: int = 600
    """Per queue; 0: no cap."""
    insist_after_s: float = 300.0
    """After this time a denial no longer stops what a guarantee or a priority asks for."""


class Evictor:
    """Clears places."""

    def __init__(
        self, api: Api, workers: WriteQueue, binder: Binder, report: Report, manners: Manners
    ) -> None:
        self._api, self._workers, self._binder = api, workers, binder
        self._report, self._manners = report, manners
        self._rates, self._evictions = Rates(manners.per_minute), Evictions(api)
        self.clock: Callable[[], float] = lambda: 0.0
        self.paused = False
        self.has_budget: Callable[[str], bool] = lambda _namespace: True
        """Are there disruption budgets in a namespace?"""
        self.spares: Callable[[Sequence[PodRef]], bool] = lambda _pods: True
        """May all these pods go at once, by the budgets of their namespace?"""
        self.seal = NO_SEAL
        """Signs the marks of owners that are suspended."""
        self.evicted: Callable[[Victim], None] = lambda _victim: None
        """Is told of every victim that the API server has let go."""

    def clear(self, clearing: GangEvictions) -> None:
        """Evict the victims, once the promise to the gang that gains is written."""
        if clearing.gainer is None or not clearing.promise:
            self._evict_all(clearing.victims)
            return

        def go_on() -> None:
            self._evict_all(clearing.victims)

        def give_up(error: ApiError) -> None:
            why = f"the promise could not be written: {error.message}"
            self._refuse(clearing.victims, why)

        self._binder.promise(clearing.gainer, clearing.promise, go_on, give_up)

    def _evict_all(self, victims: Sequence[Victim]) -> None:
        if self.paused:
            self._refuse(victims, "evictions are paused")
            return
        gangs: dict[str, list[Victim]] = {}
        for each in victims:
            gangs.setdefault(each.gang, []).append(each)
        for gang in gangs.values():
            until = self.clock() + self._manners.insist_after_s
            if self.has_budget(gang[0].pod.namespace):
                self._evict_on_trial(gang, until)
            else:
                self._evict_each(gang, until)

    def _evict_on_trial(self, gang: list[Victim], until: float) -> None:
        """Ask for all pods without effect; only if every one may go, the first one does."""

        async def try_all() -> None:
            for each in gang:
                await self._evictions.ask(each.pod, each.grace_s, dry_run=True)
            if self.spares([each.pod for each in gang]):
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
        """Evict pods each by itself, unless their owner would count too many failures."""
        if gang[0].fails_owner:
            why = f"its owner would fail for good by so many evictions, and {why}"
            for each in gang:
                self._report(EvictRefused(each.pod.task, why, fails_owner=True))
            return
        for each in gang:
            self._evict(each, until)

    def _suspend(self, gang: Sequence[Victim], turn: Turn, until: float) -> None:
        """Announce it on every pod, and suspend their owner; if that cannot be, evict them."""

        async def write() -> None:
            if self.paused:
                self._refuse(gang, "evictions are paused")
                return
            wait_s = self._rates.wait_s(gang[0].queue, self.clock(), len(gang))
            if wait_s > 0:
                self._workers.put(Urgency.EVICT, attempt, wait_s)
                return
            for each in gang:
                with contextlib.suppress(NotFound, Conflict):  # it is gone already
                    await self._announce(each)
            await suspend.write(self._api, turn, self.seal)
            for each in gang:
                self.evicted(each)

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
            await self._let_go(victim, until)

        def give_up(error: ApiError) -> None:
            if not isinstance(error, NotFound | Conflict):  # those mean that it is gone already
                self._refuse([victim], error.message)

        attempt = self._binder.repeated(Urgency.EVICT, write, give_up)
        self._workers.put(Urgency.EVICT, attempt)

    async def _let_go(self, victim: Victim, until: float) -> None:
        try:
            await self._evictions.ask(victim.pod, victim.grace_s)
            self.evicted(victim)
        except Denied as denied:
            if victim.rule in INSISTING and self.clock() >= until:
                await self._delete(victim)
            elif denied.by_budget:  # it may have let others of the gang go: all is planned anew
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
        for each in victims:
            self._report(EvictRefused(each.pod.task, why))
