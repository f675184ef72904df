"""Orders inside a queue: by what a gang is measured, and when it may stop another.

    fair, first-come    nothing but age; nobody is stopped
    shortest            time until its expected end; four times the GPUs count twice
    least-served        GPU time it has had

The measure is turned into a level, each so many times as much as the one before. A gang stops only
those of a level that is worse enough: so those who need about the same do not push each other out
by turns. With `shortest` a stop has a price: the least time for which work runs. Who would find
room within that time for each gang it stops waits for it (`Displacer` asks). Inside a level
`shortest` goes on by its measure, `least-served` takes small gangs first, since of those that ran
equally long the small ones hold up fewest others; then the oldest is first. Waiting lifts a gang by
a level now and then (`Settings.age_s`).
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
from windlass.model.gpu_resources import extra_milli
from windlass.model.gpus import WHOLE
from windlass.model.jobs import OCCUPYING, Gang, GangId, Task
from windlass.model.settings import Ordering
from windlass.state.cluster import Cluster

UNKNOWN_S = 3600
"""Work of which nothing is known is expected to run so long."""


_NEVER = 1 << 60


class OrderedGang(NamedTuple):
    """A gang as an order sees it."""

    gpu_milli: int
    served_s: int
    estimate_s: int | None


@dataclass(frozen=True, slots=True)
class OrderingPolicy:
    """One order: the measure in thousandth GPU-seconds, and how it becomes a level."""

    measure: Callable[[OrderedGang], int] | None = None
    """None: all are equal."""
    first: int = 0
    """Up to here all are of the best level, in GPU-seconds."""
    factor: Fraction = Fraction(2)
    """Each further level is so many times as much."""
    apart: int = 1
    """So many levels worse is who may be stopped."""
    inside: Callable[[OrderedGang], int] | None = None
    """What comes before age inside a level, the smallest first."""
    worst_first: bool = False
    """Of those that may be stopped, does the worst level go first, which comes last anyhow?"""
    weighs: bool = False
    """Does it wait for room that comes free soon, rather than stop others?"""
    grows: bool = False
    """Does the measure of running work grow?"""

    def level(self, work: OrderedGang) -> int:
        """0 is the best."""
        if self.measure is None:
            return 0
        return bisect_right(_bounds(self.first, self.factor), self.measure(work))

    def bound(self, level: int) -> int:
        """What is measured is less than this at a level, and not at the next."""
        return _bounds(self.first, self.factor)[level]


@cache
def _bounds(first: int, factor: Fraction) -> tuple[int, ...]:
    found = [first * WHOLE]
    while found[-1] < _NEVER:
        found.append(found[-1] * factor.numerator // factor.denominator)
    return tuple(found)


def _left(work: OrderedGang) -> int:
    """Time to the expected end; who is past it is expected to need half as much again.

    GPUs count by their root: counted in full they cost large gangs more than they gained all others
    (Muri traces 1 and 3), not counted at all they cost the small ones.
    """
    return math.isqrt(work.gpu_milli * WHOLE) * _left_s(work)


def _left_s(work: OrderedGang) -> int:
    """Seconds to the expected end."""
    expected = UNKNOWN_S if work.estimate_s is None else work.estimate_s
    left_s = expected - work.served_s
    return left_s if left_s > 0 else max(work.served_s // 2, 1)


def _had(work: OrderedGang) -> int:
    return work.gpu_milli * work.served_s


def _size(work: OrderedGang) -> int:
    return work.gpu_milli


POLICIES: Mapping[Ordering, OrderingPolicy] = {
    Ordering.FAIR: OrderingPolicy(),
    Ordering.FIRST_COME: OrderingPolicy(),
    Ordering.SHORTEST: OrderingPolicy(
        *(_left, 60, Fraction(6, 5)), apart=2, inside=_left, worst_first=True, weighs=True
    ),
    Ordering.LEAST_SERVED: OrderingPolicy(_had, 3600, Fraction(24), inside=_size, grows=True),
}


class Stood(NamedTuple):
    """Where a gang stood when it was last looked at."""

    stamp: int
    level: int
    inside: int
    until: int
    """Until then it stays there if nothing happens to it."""
    reach: int
    """From this level on it may stop others now."""
    gpu_milli: int
    queue: str
    started_at: int | None
    """Since when all of it runs, if it does."""
    ends_at: int
    """When it is expected to end, if it runs."""


class OrderLevels:
    """The levels of all gangs over the same columns; each is worked out again when it may differ.

    Recalled, not made anew: most gangs stand where they stood.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[GangId, Stood] = {}
        self._asked: tuple[object, int] = (None, 0)
        self._seen: tuple[tuple[int, int], list[Stood]] = ((-1, -1), [])
        self.policy = POLICIES[cluster.settings.order]
        self.by_user = cluster.settings.order is Ordering.FAIR
        """Do users take turns?"""
        self.stops = self.policy.measure is not None
        """May a gang stop another because of its level?"""

    def of(self, gang: Gang) -> int:
        """The level of a gang, the best first."""
        return 0 if self.policy.measure is None else self._stood(gang.id).level

    def goes_after(self, gang: Gang) -> int:
        """Whoever has less of this is stopped first, at equal priority."""
        return -self._stood(gang.id).level if self.policy.worst_first else 0

    def reach(self, gang: Gang) -> int:
        """From which level on a gang may stop others now."""
        return self._stood(gang.id).reach if self.stops else _NEVER

    def place(self, gang: Gang) -> tuple[int, int]:
        """The level of a gang and where it stands inside it."""
        if self.policy.measure is None:
            return 0, 0
        stood = self._stood(gang.id)
        return stood.level, stood.inside

    def changes_at(self, gang: Gang) -> int:
        """When a gang may be of another level by time alone."""
        return _NEVER if self.policy.measure is None else self._stood(gang.id).until

    def better_at(self, gang: Gang) -> int | None:
        """When a waiting gang counts as better, if ever."""
        at = self.changes_at(gang)
        return at if at < _NEVER else None

    def stoppable(self, gang: Gang, min_run_s: int) -> int:
        """How much its queue holds, in thousandths of GPUs, that it may stop for its level."""
        cluster, level = self._cluster, self.reach(gang)
        key = (gang.queue, level, min_run_s, cluster.now, cluster.running_version)
        if self._asked[0] != key:
            self._asked = (
                key,
                sum(
                    stood.gpu_milli
                    for stood in self._running()
                    if stood.level >= level
                    and stood.started_at is not None
                    and stood.started_at <= cluster.now - min_run_s
                    and stood.queue == gang.queue
                ),
            )
        return self._asked[1]

    def ends(self) -> list[tuple[int, GangId]]:
        """When all that runs is expected to end, the soonest first."""
        pairs = zip(self._running(), self._cluster.active, strict=True)
        return sorted((stood.ends_at, gang) for stood, gang in pairs if stood.ends_at < _NEVER)

    def next_change(self, min_run: Callable[[str], int]) -> int | None:
        """When running work may next be stopped that may not be now, by time alone."""
        now, least, soonest = self._cluster.now, dict[str, int](), _NEVER
        for stood in self._running():
            if stood.started_at is not None:
                if stood.queue not in least:
                    least[stood.queue] = min_run(stood.queue)
                at = stood.started_at + least[stood.queue]
                if at <= now:  # what shrinks only makes running work harder to stop
                    at = stood.until if self.policy.grows else _NEVER
                soonest = min(soonest, at)
        return soonest if soonest < _NEVER else None

    def _running(self) -> list[Stood]:
        """Where all gangs stand that run; looked at once per cycle in which anybody asks."""
        cluster = self._cluster
        asked = cluster.now, cluster.running_version
        if self._seen[0] != asked:
            known, stamps, now, found = self._known, cluster.stamps, cluster.now, list[Stood]()
            for gang in cluster.active:  # as `_stood`, without a call for each: they are hundreds
                stood = known.get(gang)
                if stood is None or stood.until <= now or stood.stamp != stamps[gang]:
                    stood = self._stood(gang)
                found.append(stood)
            self._seen = asked, found
        return self._seen[1]

    def forget_gone(self) -> None:
        """Forget gangs that are gone, once they are many."""
        if len(self._known) > 2 * len(self._cluster.gangs) + 64:
            here = self._cluster.gangs
            self._known = {gang: stood for gang, stood in self._known.items() if gang in here}

    def _stood(self, gang: GangId) -> Stood:
        found, stamp = self._known.get(gang), self._cluster.stamps.get(gang, 0)
        if found is None or found.stamp != stamp or found.until <= self._cluster.now:
            found = self._known[gang] = self._look(self._cluster.gangs[gang], stamp)
        return found

    def _look(self, gang: Gang, stamp: int) -> Stood:
        cluster, policy, now = self._cluster, self.policy, self._cluster.now
        members = cluster.members(gang.id)
        milli = sum(milli_of(task) for task in members)
        starts = [each.started_at for each in members if each.state in OCCUPYING]
        runs = bool(starts) and None not in starts
        ran = max((now - at for at in starts if at is not None), default=0)
        estimate_s = None if policy.grows else Estimates(cluster).of(gang)
        work = OrderedGang(milli, gang.served_s + ran, estimate_s)
        level, until = policy.level(work), _NEVER
        if runs and policy.grows and milli:
            until = now + max(1, -(-policy.bound(level) // milli) - work.served_s)
        elif runs:
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
        return Stood(stamp, level, inside, until, reach, milli, gang.queue, since, ends_at)


def milli_of(task: Task) -> int:
    """What a task asks for, in thousandths of GPUs; a part of one counts as asked or as whole."""
    request = task.shape.request
    milli = 0 if request.gpu is None else request.gpu.count * request.gpu.milli
    return milli + extra_milli(request) if request.extra else milli
