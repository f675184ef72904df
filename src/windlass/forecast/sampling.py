"""Random draws from experience: the run times of gangs, and arrivals.

If enough gangs of the same job have ended, a run time is drawn from theirs. Otherwise the stated
run time is multiplied by a factor, drawn from the errors of earlier statements; without a
statement, a run time is drawn from unstated work of similar size. The draw for a running gang is
conditional on the time it has run already: a gang that outlived its estimate does not end at once.
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
"""The number of runs that a class needs to be used."""
DOUBT = 0.7
"""The assumed error of stated run times before any is known: sigma of a log-normal factor."""
PRIOR = tuple(math.exp(NormalDist(0, DOUBT).inv_cdf((i + 0.5) / 20)) for i in range(20))
"""The factors that are assumed from the start; observed ones soon outnumber them."""
DAY = 86400
RECENT_S = 2 * 3600
"""The time for which the future is assumed to be like the latest past."""
LEAST_SEEN_S = 1800
"""The least observed time before arrivals are predicted."""
ENOUGH_OF_JOB = 4
"""The number of ended gangs of a job from which the run times of others are drawn."""
FOR_EVER = 1 << 40
"""A run time longer than any forecast."""


@dataclass(frozen=True, slots=True)
class RunTimeScale:
    """The distribution of run times of a class: in seconds, or in parts of the stated run time."""

    survival: Survival
    in_parts: bool


@dataclass(frozen=True, slots=True)
class RunRandomness:
    """The random numbers of one of several runs.

    They form a Latin hypercube: for each named thing, every run draws from another part of the
    interval from 0 to 1. So few runs cover as much as many independent ones.
    """

    seed: str
    run: int
    runs: int
    chance: Random
    """The generator for numbers that need no stratification."""

    @classmethod
    def draw(cls, seed: str, run: int, runs: int) -> RunRandomness:
        """Return the random numbers of one run."""
        return cls(seed, run, runs, Random(f"{seed} {run}"))

    def of(self, what: str) -> float:
        """Return the number of a gang or another named thing, between 0 and 1."""
        parts = list(range(self.runs))
        Random(f"{self.seed} {what}").shuffle(parts)
        return (parts[self.run] + self.chance.random()) / self.runs


@dataclass(frozen=True, slots=True)
class RepeatedPast:
    """A part of the past that repeats as the later future, in one of several runs.

    Arrivals depend on the time of day. If whole days are known, one of them is chosen at the same
    time of day; before that, any shift is chosen, so that runs differ in what they expect.
    """

    now: int
    span: int
    """The length of the past that repeats, in seconds."""
    shift: int
    """The shift of the past against the present, in seconds."""

    @classmethod
    def draw(cls, since: int, now: int, randomness: RunRandomness) -> RepeatedPast:
        """Return a random one."""
        days = (now - since) // DAY
        if days:
            return cls(now, days * DAY, randomness.chance.randrange(days) * DAY)
        return cls(now, now - since, int(randomness.of("another time") * (now - since)))

    def repetitions(self, came: int, until: int, randomness: RunRandomness) -> Iterator[int]:
        """Yield the times at which an arrival repeats, after the first RECENT_S seconds."""
        if came < self.now - self.span:
            return
        at = self.now + (came - self.now - self.shift) % self.span
        while at < until:
            if at >= self.now + RECENT_S:
                yield from (at for _ in range(_poisson(randomness.chance)))
            at += self.span


class Draws:
    """The random draws for one cluster at one time."""

    def __init__(self, cluster: Cluster, experience: Experience) -> None:
        self._experience = experience
        self._now = cluster.now
        self._going = list(_going(cluster, experience))
        """The unfinished runs."""
        self._of_jobs: dict[JobId, RunTimeScale | None] = {}
        """A cache of `_of_job`."""
        self._of_classes: dict[tuple[str, bool, int], RunTimeScale] = {}
        """A cache of `_of_class`, by queue, without a statement, and size or statement class."""

    def run_s(self, gang: Gang, size: int, so_far_s: int, randomness: RunRandomness) -> int:
        """Return a total run time in seconds for a gang that has run for `so_far_s`."""
        scale = self._scale(gang, size)
        unit = max(1, gang.duration_s or 1) if scale.in_parts else 1
        drawn = scale.survival.draw(so_far_s / unit, randomness.of(gang.id))
        if drawn is None:
            longest = scale.survival.longest
            if not longest:
                return FOR_EVER
            # A gang that outlasts everything known is expected to take about as long again.
            drawn = max(so_far_s / unit, longest) * (1 + randomness.chance.expovariate(1))
        return max(so_far_s + 1, round(drawn * unit))

    def arrivals(
        self, until: int, randomness: RunRandomness
    ) -> Iterator[tuple[int, Gang, list[Task]]]:
        """Yield simulated arrivals until a time: the near ones copy the most recent arrivals, the
        later ones repeat the remembered past."""
        since = self._experience.remembers_since
        if since is None or self._now - since < LEAST_SEEN_S:
            return
        batches: dict[tuple[JobId, int], list[GangArrival]] = {}
        for arrival in self._experience.arrived:
            key = arrival.gang.job, arrival.gang.created_at
            batches.setdefault(key, []).append(arrival)
        past = RepeatedPast.draw(since, self._now, randomness)
        number = 0
        for (_, came), batch in batches.items():
            soon = _soon(came, since, self._now, randomness)
            for at in (*soon, *past.repetitions(came, until, randomness)):
                if at < until:
                    number += 1
                    for arrival in batch:
                        yield at, *_resubmitted(arrival, number, at)

    def _scale(self, gang: Gang, size: int) -> RunTimeScale:
        """Return the distribution of the narrowest class with enough runs."""
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

    def _of_class(self, gang: Gang, size: int) -> RunTimeScale:
        """Return the distribution of gangs of the same queue and size, queue, size, or of all."""
        is_stated = gang.duration_s is not None
        ended = list(self._experience.ends(is_stated))
        going = [run for run in self._going if (run.stated_s is not None) == is_stated]
        for is_similar in (_is_of_queue_and_similar, _is_of_queue, _is_similar):
            similar = [run for run in ended if is_similar(run, gang, size)]
            unfinished = [run for run in going if is_similar(run, gang, size)]
            if len(similar) + len(unfinished) >= ENOUGH:
                ended, going = similar, unfinished
                break
        if is_stated:
            factors = [*PRIOR, *map(_part_of_stated, ended)]
            return RunTimeScale(Survival(factors, map(_part_of_stated, going)), in_parts=True)
        return RunTimeScale(Survival(map(_seconds, ended), map(_seconds, going)), in_parts=False)

    def _of_job(self, gang: Gang) -> RunTimeScale | None:
        """Return the distribution of a job's gangs, whatever was stated; None if too few ended."""
        stated = gang.duration_s is not None
        ended = [run for run in self._experience.ends(stated) if run.job == gang.job]
        if len(ended) < ENOUGH_OF_JOB:
            return None
        going = [run for run in self._going if run.job == gang.job]
        return RunTimeScale(Survival(map(_seconds, ended), map(_seconds, going)), in_parts=False)


def _soon(came: int, since: int, now: int, randomness: RunRandomness) -> Iterator[int]:
    """Yield the times within RECENT_S at which a recent arrival repeats, as a Poisson process."""
    lately = max(since, now - RECENT_S)
    if came < lately:
        return
    at = float(now)
    while (at := at + randomness.chance.expovariate(1 / (now - lately))) < now + RECENT_S:
        yield int(at)


def _poisson(chance: Random) -> int:
    """Return a Poisson number with a mean of 1."""
    times, at = 0, chance.expovariate(1)
    while at < 1:
        times, at = times + 1, at + chance.expovariate(1)
    return times


def _is_of_queue(run: CompletedRun, gang: Gang, _size: int) -> bool:
    return run.queue == gang.queue


def _is_similar(run: CompletedRun, gang: Gang, size: int) -> bool:
    """Return whether a run has a similar stated run time, or a similar size if none is stated.

    Long statements are mostly too long and short ones too short, so their errors differ.
    """
    if gang.duration_s is None or run.stated_s is None:
        return abs(run.size - size) <= 1
    return gang.duration_s <= 2 * run.stated_s <= 4 * gang.duration_s


def _is_of_queue_and_similar(run: CompletedRun, gang: Gang, size: int) -> bool:
    return _is_of_queue(run, gang, size) and _is_similar(run, gang, size)


def _seconds(run: CompletedRun) -> float:
    return run.ran_s


def _part_of_stated(run: CompletedRun) -> float:
    return run.ran_s / max(1, run.stated_s or 1)


def _going(cluster: Cluster, experience: Experience) -> Iterator[CompletedRun]:
    """Yield the unfinished runs of all working gangs, as far as they have come."""
    for name in cluster.active:
        gang, members = cluster.gangs[name], cluster.members(name)
        start = started_at(members)
        if start is not None:
            so_far_s = experience.saved_s(name) + cluster.now - start
            yield CompletedRun.of(gang, size_of(members), so_far_s)


def _resubmitted(arrival: GangArrival, number: int, at: int) -> tuple[Gang, list[Task]]:
    """Return the same submission under a new name."""
    name = GangId(f"{arrival.gang.id} again {number}")
    gang = replace(
        arrival.gang,
        id=name,
        job=JobId(f"{arrival.gang.job} again {number}"),
        created_at=at,
        saved_at=None,
        spared=False,
    )
    return gang, list(_tasks(arrival, name))


def _tasks(arrival: GangArrival, name: GangId) -> Iterable[Task]:
    for kind, template in enumerate(arrival.tasks):
        for index in range(template.count):
            task = TaskId(f"{name} {kind}-{index}")
            yield Task(task, name, template.shape, template.group, template.labels)
