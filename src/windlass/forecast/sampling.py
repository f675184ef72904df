"""Draws from experience: how long a gang runs, and who comes when.

Where other gangs of the same job have ended, their run times are drawn from. Else what a user
stated is multiplied by a factor, drawn from how wrong statements of that queue were; and where
nothing was stated, run times of unstated work of about that size are drawn. What runs already is
drawn on condition that it has run so long: whoever outlived its estimate will not end at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from statistics import NormalDist

from windlass.forecast.experience import CompletedRun, Experience, GangArrival, size_of, started_at
from windlass.forecast.survival import Survival
from windlass.model.jobs import Gang, GangId, JobId, Task, TaskId
from windlass.state.cluster import Cluster

ENOUGH = 12
"""So many known runs make a class of their own."""
DOUBT = 0.7
"""How wrong statements are where none has been checked yet: the sigma of a log-normal factor."""
PRIOR = tuple(math.exp(NormalDist(0, DOUBT).inv_cdf((i + 0.5) / 20)) for i in range(20))
"""Factors that are believed in from the start; real ones soon outnumber them."""
DAY = 86400
RECENT_S = 2 * 3600
"""So long the future is taken to be like the latest past."""
LEAST_SEEN_S = 1800
"""After less than this nothing is said about who will come."""
ENOUGH_OF_JOB = 4
"""So many gangs of a job that have ended tell about its others."""
FOR_EVER = 1 << 40
"""Longer than any forecast."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How long gangs of a class run: in seconds, or in parts of what was stated."""

    survival: Survival
    in_parts: bool


@dataclass(frozen=True, slots=True)
class Luck:
    """What chance has in store in one of several runs.

    Each run has another part of what can happen to a gang, so that few runs tell as much as many
    that were drawn without regard to each other would (a Latin hypercube).
    """

    seed: str
    run: int
    runs: int
    chance: Random

    @classmethod
    def draw(cls, seed: str, run: int, runs: int) -> Luck:
        """That of one run."""
        return cls(seed, run, runs, Random(f"{seed} {run}"))

    def of(self, what: str) -> float:
        """Of a gang, or anything else that has a name: between 0 and 1; the less, the longer."""
        parts = list(range(self.runs))
        Random(f"{self.seed} {what}").shuffle(parts)
        return (parts[self.run] + self.chance.random()) / self.runs


@dataclass(frozen=True, slots=True)
class OtherTime:
    """A part of the past that the later future is taken to be like, in one of several runs.

    How much is submitted changes with the time of day. Where whole days are known it is the same
    time of one of them; before that any time may be, so that runs differ by what they expect.
    """

    now: int
    span: int
    """So much of the past is known, and comes again and again."""
    shift: int
    """How far into it the present is set."""

    @classmethod
    def draw(cls, since: int, now: int, luck: Luck) -> OtherTime:
        """One that is as likely as any."""
        days = (now - since) // DAY
        if days:
            return cls(now, days * DAY, luck.chance.randrange(days) * DAY)
        return cls(now, now - since, int(luck.of("another time") * (now - since)))

    def again(self, came: int, until: int, luck: Luck) -> Iterator[int]:
        """When something that came then comes again, later than soon."""
        if came < self.now - self.span:
            return
        at = self.now + (came - self.now - self.shift) % self.span
        while at < until:
            if at >= self.now + RECENT_S:
                yield from (at for _ in range(_poisson(luck.chance)))
            at += self.span


class Draws:
    """Everything uncertain about one cluster at one moment."""

    def __init__(self, cluster: Cluster, experience: Experience) -> None:
        self._experience = experience
        self._now = cluster.now
        self._going = list(_going(cluster, experience))
        self._of_jobs: dict[JobId, Scale | None] = {}
        self._of_classes: dict[tuple[str, bool, int], Scale] = {}

    def run_s(self, gang: Gang, size: int, so_far_s: int, luck: Luck) -> int:
        """How long a gang runs in all that has run so far."""
        scale = self._scale(gang, size)
        unit = max(1, gang.duration_s or 1) if scale.in_parts else 1
        drawn = scale.survival.draw(so_far_s / unit, luck.of(gang.id))
        if drawn is None:
            longest = scale.survival.longest
            if not longest:
                return FOR_EVER
            # what outlasts everything known lasts about as long again
            drawn = max(so_far_s / unit, longest) * (1 + luck.chance.expovariate(1))
        return max(so_far_s + 1, round(drawn * unit))

    def arrivals(self, until: int, luck: Luck) -> Iterator[tuple[int, Gang, list[Task]]]:
        """Who comes until then: soon whoever came lately, later whoever came in another time."""
        since = self._experience.remembers_since
        if since is None or self._now - since < LEAST_SEEN_S:
            return
        batches: dict[tuple[JobId, int], list[GangArrival]] = {}
        for each in self._experience.arrived:
            batches.setdefault((each.gang.job, each.gang.created_at), []).append(each)
        other = OtherTime.draw(since, self._now, luck)
        number = 0
        for (_, came), batch in batches.items():
            for at in (*_soon(came, since, self._now, luck), *other.again(came, until, luck)):
                if at < until:
                    number += 1
                    for each in batch:
                        yield at, *_again(each, number, at)

    def _scale(self, gang: Gang, size: int) -> Scale:
        """From the narrowest class of which enough is known."""
        if gang.job not in self._of_jobs:
            self._of_jobs[gang.job] = self._of_job(gang)
        if of_job := self._of_jobs[gang.job]:
            return of_job
        stated = gang.duration_s
        about = size if stated is None else stated.bit_length()
        key = gang.queue, stated is None, about
        if key not in self._of_classes:
            self._of_classes[key] = self._of_class(gang, size)
        return self._of_classes[key]

    def _of_class(self, gang: Gang, size: int) -> Scale:
        is_stated = gang.duration_s is not None
        ended = list(self._experience.ends(is_stated))
        going = [each for each in self._going if (each.stated_s is not None) == is_stated]
        for is_like in (_near_here, _here, _near):
            those = [each for each in ended if is_like(each, gang, size)]
            still = [each for each in going if is_like(each, gang, size)]
            if len(those) + len(still) >= ENOUGH:
                ended, going = those, still
                break
        if is_stated:
            return Scale(Survival([*PRIOR, *map(_part, ended)], map(_part, going)), in_parts=True)
        return Scale(Survival(map(_ran, ended), map(_ran, going)), in_parts=False)

    def _of_job(self, gang: Gang) -> Scale | None:
        """Gangs of one job run alike, whatever was said of them."""
        stated = gang.duration_s is not None
        ended = [each for each in self._experience.ends(stated) if each.job == gang.job]
        if len(ended) < ENOUGH_OF_JOB:
            return None
        going = [each for each in self._going if each.job == gang.job]
        return Scale(Survival(map(_ran, ended), map(_ran, going)), in_parts=False)


def _soon(came: int, since: int, now: int, luck: Luck) -> Iterator[int]:
    """When something that came lately comes again within about as long."""
    lately = max(since, now - RECENT_S)
    if came < lately:
        return
    at = float(now)
    while (at := at + luck.chance.expovariate(1 / (now - lately))) < now + RECENT_S:
        yield int(at)


def _poisson(chance: Random) -> int:
    """How often something comes that comes once on average."""
    times, at = 0, chance.expovariate(1)
    while at < 1:
        times, at = times + 1, at + chance.expovariate(1)
    return times


def _here(each: CompletedRun, gang: Gang, _size: int) -> bool:
    return each.queue == gang.queue


def _near(each: CompletedRun, gang: Gang, size: int) -> bool:
    """Is it about as large, or was about as much said of it?

    Large statements are mostly too large and small ones too small, so that factors differ.
    """
    if gang.duration_s is None or each.stated_s is None:
        return abs(each.size - size) <= 1
    return gang.duration_s <= 2 * each.stated_s <= 4 * gang.duration_s


def _near_here(each: CompletedRun, gang: Gang, size: int) -> bool:
    return _here(each, gang, size) and _near(each, gang, size)


def _ran(each: CompletedRun) -> float:
    return each.ran_s


def _part(each: CompletedRun) -> float:
    return each.ran_s / max(1, each.stated_s or 1)


def _going(cluster: Cluster, experience: Experience) -> Iterator[CompletedRun]:
    for name in cluster.active:
        gang, members = cluster.gangs[name], cluster.members(name)
        began = started_at(members)
        if began is not None:
            so_far_s = experience.saved_s(name) + cluster.now - began
            yield CompletedRun.of(gang, size_of(members), so_far_s)


def _again(each: GangArrival, number: int, at: int) -> tuple[Gang, list[Task]]:
    """The same submission under a new name."""
    name = GangId(f"{each.gang.id} again {number}")
    gang = replace(
        each.gang,
        id=name,
        job=JobId(f"{each.gang.job} again {number}"),
        created_at=at,
        saved_at=None,
        spared=False,
    )
    return gang, list(_tasks(each, name))


def _tasks(each: GangArrival, name: GangId) -> Iterable[Task]:
    for kind, template in enumerate(each.tasks):
        for index in range(template.count):
            task = TaskId(f"{name} {kind}-{index}")
            yield Task(task, name, template.shape, template.group, template.labels)
