"""Ordering policies inside a queue: how a gang is measured, and when it may preempt by order.

    fair, first-come    no measure, only age; no preemption by order
    shortest            time until the expected end, times the square root of its GPUs
    least-served        GPU time that the gang has had

A measure is turned into a level. Each level covers a constant factor more than the one before:

    measure   0 ........ first .... first*f ...... first*f^2 ......... first*f^3
    level          0           1             2                 3

A gang preempts only gangs whose level is worse by `apart` or more, so gangs that need about the
same do not evict each other in turns. With `shortest` a preemption has a price, the least time for
which work runs: a gang that would find room within that time, for each gang that it would stop,
waits instead (`weighs`; decided in preemption). Inside a level `shortest` goes on by its measure
and `least-served` takes small gangs first, since of those that ran equally long the small ones
delay the fewest others; then the oldest is first. Waiting improves the level of a gang by one step
per `Settings.age_s`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from windlass.engine.queueing.runtime_estimate import Estimates
from windlass.model.gpu.resources import extra_milli
from windlass.model.gpus import WHOLE
from windlass.model.jobs import OCCUPYING, Gang, GangId, Task
from windlass.model.settings import Ordering
from windlass.state.cluster import Cluster

UNKNOWN_S = 3600
"""The expected run time, in seconds, of work of which nothing is known."""
_NEVER = 1 << 60


class OrderedGang(NamedTuple):
    """The properties of a gang that a policy measures."""

    gpu_milli: int
    served_s: int
    """The seconds it has run, earlier runs included."""
    estimate_s: int | None
    """The expected run time; None if unknown."""


@dataclass(frozen=True, slots=True)
class OrderingPolicy:
    """One policy: the measure in thousandth GPU-seconds, and how it becomes a level."""

    measure: Callable[[OrderedGang], int] | None = None
    """None if all gangs are equal."""
    first: int = 0
    """The upper bound of level 0, in GPU-seconds."""
    factor: Fraction = Fraction(2)
    """The ratio of the upper bounds of two successive levels."""
    apart: int = 1
    """The number of levels by which a victim must be worse than its preemptor."""
    inside: Callable[[OrderedGang], int] | None = None
    """The measure that comes before age inside a level, smallest first; None if only age counts."""
    worst_first: bool = False
    """True if the candidate of the worst level is evicted first; it is served last in any case."""
    weighs: bool = False
    """True if a gang waits for room that comes free soon rather than preempt."""
    grows: bool = False
    """True if the measure of running work grows with time."""

    def level(self, work: OrderedGang) -> int:
        """Return the level of a gang; 0 is the best."""
        if self.measure is None:
            return 0
        return bisect_right(_bounds(self.first, self.factor), self.measure(work))

    def bound(self, level: int) -> int:
        """Return the upper bound of a level, exclusive, in thousandth GPU-seconds."""
        return _bounds(self.first, self.factor)[level]


@cache
def _bounds(first: int, factor: Fraction) -> tuple[int, ...]:
    """Return the upper bounds of all levels, in thousandth GPU-seconds."""
    bounds = [first * WHOLE]
    while bounds[-1] < _NEVER:
        bounds.append(bounds[-1] * factor.numerator // factor.denominator)
    return tuple(bounds)


def _left(work: OrderedGang) -> int:
    """Return the seconds to the expected end, weighted by the square root of the GPUs.

    With GPUs counted in full, large gangs lost more than all others gained (Muri traces 1 and 3);
    without any weight the small gangs lost.
    """
    return math.isqrt(work.gpu_milli * WHOLE) * _left_s(work)


def _left_s(work: OrderedGang) -> int:
    """Return the seconds to the expected end.

    A gang past its expected end is expected to run half as long again as it has run.
    """
    expected = UNKNOWN_S if work.estimate_s is None else work.estimate_s
    left_s = expected - work.served_s
    return left_s if left_s > 0 else max(work.served_s // 2, 1)


def _served(work: OrderedGang) -> int:
    """Return the GPU time that a gang has had."""
    return work.gpu_milli * work.served_s


def _size(work: OrderedGang) -> int:
    return work.gpu_milli


POLICIES: Mapping[Ordering, OrderingPolicy] = {
    Ordering.FAIR: OrderingPolicy(),
    Ordering.FIRST_COME: OrderingPolicy(),
    Ordering.SHORTEST: OrderingPolicy(
        *(_left, 60, Fraction(6, 5)), apart=2, inside=_left, worst_first=True, weighs=True
    ),
    Ordering.LEAST_SERVED: OrderingPolicy(_served, 3600, Fraction(24), inside=_size, grows=True),
}


class GangLevel(NamedTuple):
    """The cached level of a gang."""

    stamp: int
    """The gang's stamp in `cluster.stamps` that this rests on; every event about it changes it."""
    level: int
    inside: int
    """The order inside the level, smallest first."""
    until: int
    """The instant until which this holds if no event comes."""
    reach: int
    """The best level of the gangs that it may preempt by order."""
    gpu_milli: int
    queue: str
    started_at: int | None
    """The time since which the whole gang runs; None if it does not."""
    ends_at: int
    """The expected end; `_NEVER` if it does not run."""


class OrderLevels:
    """The order levels of all gangs.

    Cached across cycles; recomputed per gang when its stamp changes or its `until` is reached.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._cached: dict[GangId, GangLevel] = {}
        self._last_stoppable: tuple[object, int] = (None, 0)
        """The key and the result of the last call of `preemptible_milli`: equal gangs ask in a
        row."""
        self._running_levels: tuple[tuple[int, int], list[GangLevel]] = ((-1, -1), [])
        """(now, running_version) and the levels of `cluster.active`, in its order."""
        self.policy = POLICIES[cluster.settings.order]
        self.by_user = cluster.settings.order is Ordering.FAIR
        """True if users take turns inside a queue."""
        self.preempts_by_order = self.policy.measure is not None
        """True if a gang may preempt another because of its level."""

    def of(self, gang: Gang) -> int:
        """Return the level of a gang; 0 is the best."""
        return 0 if self.policy.measure is None else self._level(gang.id).level

    def eviction_rank(self, gang: Gang) -> int:
        """Return the eviction rank of a gang at equal priority: lower is evicted first."""
        return -self._level(gang.id).level if self.policy.worst_first else 0

    def best_preemptible_level(self, gang: Gang) -> int:
        """Return the best level that a gang may preempt by order; `_NEVER` if it may not."""
        return self._level(gang.id).reach if self.preempts_by_order else _NEVER

    def rank(self, gang: Gang) -> tuple[int, int]:
        """Return the level of a gang and its order inside the level."""
        if self.policy.measure is None:
            return 0, 0
        cached = self._level(gang.id)
        return cached.level, cached.inside

    def changes_at(self, gang: Gang) -> int:
        """Return when the level of a gang may change by time alone; `_NEVER` if it does not."""
        return _NEVER if self.policy.measure is None else self._level(gang.id).until

    def improves_at(self, gang: Gang) -> int | None:
        """Return when the level of a waiting gang improves by time; None if it never does."""
        at = self.changes_at(gang)
        return at if at < _NEVER else None

    def preemptible_milli(self, gang: Gang, min_run_s: int) -> int:
        """Return the thousandths of GPUs in its queue that a gang may preempt by order.

        Work that has run for less than `min_run_s` does not count.
        """
        cluster, level = self._cluster, self.best_preemptible_level(gang)
        key = (gang.queue, level, min_run_s, cluster.now, cluster.running_version)
        if self._last_stoppable[0] != key:
            self._last_stoppable = (
                key,
                sum(
                    running.gpu_milli
                    for running in self._running()
                    if running.level >= level
                    and running.started_at is not None
                    and running.started_at <= cluster.now - min_run_s
                    and running.queue == gang.queue
                ),
            )
        return self._last_stoppable[1]

    def expected_ends(self) -> list[tuple[int, GangId]]:
        """Return the expected ends of all running gangs, soonest first."""
        pairs = zip(self._running(), self._cluster.active, strict=True)
        return sorted((level.ends_at, gang) for level, gang in pairs if level.ends_at < _NEVER)

    def next_change(self, min_run: Callable[[str], int]) -> int | None:
        """Return when more running work becomes preemptible by order; None if time changes nothing.

        `min_run` returns the least run time of a queue in seconds.
        """
        now, least, soonest = self._cluster.now, dict[str, int](), _NEVER
        for running in self._running():
            if running.started_at is not None:
                if running.queue not in least:
                    least[running.queue] = min_run(running.queue)
                at = running.started_at + least[running.queue]
                if at <= now:
                    # A measure that shrinks only makes running work harder to preempt.
                    at = running.until if self.policy.grows else _NEVER
                soonest = min(soonest, at)
        return soonest if soonest < _NEVER else None

    def _running(self) -> list[GangLevel]:
        """Return the levels of all running gangs; worked out at most once per cycle."""
        cluster = self._cluster
        rests_on = cluster.now, cluster.running_version
        if self._running_levels[0] != rests_on:
            cached, stamps, now, levels = (
                self._cached,
                cluster.stamps,
                cluster.now,
                list[GangLevel](),
            )
            for gang in cluster.active:  # as `_level`, without a call for each of hundreds of gangs
                level = cached.get(gang)
                if level is None or level.until <= now or level.stamp != stamps[gang]:
                    level = self._level(gang)
                levels.append(level)
            self._running_levels = rests_on, levels
        return self._running_levels[1]

    def forget_gone(self) -> None:
        """Drop cached levels of gangs that are gone, once there are many."""
        if len(self._cached) > 2 * len(self._cluster.gangs) + 64:
            present = self._cluster.gangs
            self._cached = {gang: level for gang, level in self._cached.items() if gang in present}

    def _level(self, gang: GangId) -> GangLevel:
        cached, stamp = self._cached.get(gang), self._cluster.stamps.get(gang, 0)
        if cached is None or cached.stamp != stamp or cached.until <= self._cluster.now:
            cached = self._cached[gang] = self._measure(self._cluster.gangs[gang], stamp)
        return cached

    def _measure(self, gang: Gang, stamp: int) -> GangLevel:
        cluster, policy, now = self._cluster, self.policy, self._cluster.now
        members = cluster.members(gang.id)
        milli = sum(milli_of(task) for task in members)
        starts = [task.started_at for task in members if task.state in OCCUPYING]
        runs = bool(starts) and None not in starts
        ran = max((now - at for at in starts if at is not None), default=0)
        estimate_s = None if policy.grows else Estimates(cluster).of(gang)
        work = OrderedGang(milli, gang.served_s + ran, estimate_s)
        level, until = policy.level(work), _NEVER
        if runs and policy.grows and milli:
            # The next level begins when milli * served reaches the bound: solved for the time.
            until = now + max(1, -(-policy.bound(level) // milli) - work.served_s)
        elif runs:
            # The remaining time shrinks all the time; a small part of it may be out of date.
            until = now + max(60, _left_s(work) // 32)
        elif cluster.settings.age_s and not starts:
            waited = now - gang.created_at - gang.served_s
            steps = waited // cluster.settings.age_s
            until = now - waited + (steps + 1) * cluster.settings.age_s
            level = max(0, level - steps * policy.apart)
        since = max((at for at in starts if at is not None), default=None) if runs else None
        inside = policy.inside(work) if policy.inside else 0
        ends_at = _NEVER if since is None else now + _left_s(work)
        reach = level + policy.apart
        return GangLevel(stamp, level, inside, until, reach, milli, gang.queue, since, ends_at)


def milli_of(task: Task) -> int:
    """Return the thousandths of GPUs that a task requests, extra GPU resources included."""
    request = task.shape.request
    milli = 0 if request.gpu is None else request.gpu.count * request.gpu.milli
    return milli + extra_milli(request) if request.extra else milli
