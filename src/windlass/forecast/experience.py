"""What the past teaches: how long work ran, beside what was said of it, and what was submitted.

`look` is shown the cluster after every cycle and compares it with what it saw before. Memory is
bounded: so many of the latest ends per queue, so many of the latest arrivals. It is no part of a
snapshot, because no decision depends on it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, OCCUPYING, Gang, GangId, JobId, Shape, Task, TaskState
from windlass.model.resources import Pairs
from windlass.state.cluster import Cluster

MOST_ENDS = 200
"""So many of the latest ends are remembered per queue, of stated and of unstated run times."""
MOST_QUEUES = 1000
MOST_ARRIVALS = 2000


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """A gang that ran to its end, or as far as it has come."""

    queue: str
    job: JobId
    size: int
    ran_s: int
    stated_s: int | None

    @classmethod
    def of(cls, gang: Gang, size: int, ran_s: int) -> CompletedRun:
        """A gang that has run so long."""
        return cls(gang.queue, gang.job, size, ran_s, gang.duration_s)


@dataclass(frozen=True, slots=True)
class Template:
    """Equal tasks of a gang."""

    shape: Shape
    group: str
    labels: Pairs
    count: int


@dataclass(frozen=True, slots=True)
class GangArrival:
    """A gang as it was submitted."""

    gang: Gang
    tasks: tuple[Template, ...]


@dataclass(slots=True)
class _Run:
    gang: Gang
    size: int
    since: int
    before_s: int = 0
    """What it ran in earlier stretches and saved."""


class Experience:
    """The bounded memory of one cluster."""

    def __init__(self) -> None:
        self.arrived: deque[GangArrival] = deque(maxlen=MOST_ARRIVALS)
        self.since: int | None = None
        """When it began to look."""
        self._ends: dict[tuple[str, bool], deque[CompletedRun]] = {}
        self._known: set[GangId] = set()
        self._runs: dict[GangId, _Run] = {}
        self._saved: dict[GangId, int] = {}

    def look(self, cluster: Cluster) -> None:
        """Take note of what came, started and ended since the last look."""
        if self.since is None:
            self.since = cluster.now
        gone = self._runs.keys() - cluster.active.keys()
        for gang in sorted(gone):
            self._stopped(cluster, gang)
        for gang in cluster.active.keys() - self._runs.keys():
            self._started(cluster, gang)
        self._known &= cluster.gangs.keys()
        for gang in self._saved.keys() - cluster.gangs.keys():
            del self._saved[gang]
        for gang in sorted(cluster.gangs.keys() - self._known):
            self._came(cluster, gang)

    def copy(self) -> Experience:
        """The same, for a forecast that takes its time."""
        other = Experience()
        other.since, other.arrived = self.since, self.arrived.copy()
        other._ends = {key: ends.copy() for key, ends in self._ends.items()}
        other._saved = self._saved.copy()
        return other

    @property
    def remembers_since(self) -> int | None:
        """Since when it knows of everybody who came; None if it has not looked yet."""
        if self.since is None or len(self.arrived) < MOST_ARRIVALS:
            return self.since
        return max(self.since, self.arrived[0].gang.created_at)

    def ends(self, stated: bool) -> Iterator[CompletedRun]:
        """The latest ends in all queues, of gangs of which a run time was stated or was not."""
        for (_, each), ends in self._ends.items():
            if each == stated:
                yield from ends

    def saved_s(self, gang: GangId) -> int:
        """How long it ran in earlier stretches, of which it kept the work."""
        return self._saved.get(gang, 0)

    def _came(self, cluster: Cluster, name: GangId) -> None:
        gang, tasks = cluster.gangs[name], cluster.members(name)
        if len(tasks) < gang.needed():
            return  # its tasks come one by one
        self._known.add(name)
        is_old = self.since is None or gang.created_at < self.since
        if not is_old:
            self.arrived.append(GangArrival(gang, tuple(_templates(tasks))))

    def _started(self, cluster: Cluster, name: GangId) -> None:
        gang, members = cluster.gangs[name], cluster.members(name)
        began = [each.started_at for each in members if each.started_at is not None]
        if name in cluster.broken or not began:
            return
        before_s = self._saved.get(name, 0)
        self._runs[name] = _Run(gang, size_of(members), min(began), before_s)

    def _stopped(self, cluster: Cluster, name: GangId) -> None:
        run = self._runs.pop(name)
        ran_s = run.before_s + cluster.now - run.since
        gang = cluster.gangs.get(name)
        if gang is not None and _comes_back(cluster.members(name)):
            if gang.saved_at is not None:
                self._saved[name] = ran_s
            return
        self._saved.pop(name, None)
        key = run.gang.queue, run.gang.duration_s is not None
        if key not in self._ends and len(self._ends) >= MOST_QUEUES:
            self._ends.pop(next(iter(self._ends)))
        ends = self._ends.setdefault(key, deque(maxlen=MOST_ENDS))
        ends.append(CompletedRun.of(run.gang, run.size, ran_s))


def size_of(tasks: Iterable[Task]) -> int:
    """A class of size: 0 up to half a GPU, 1 up to one, then one more with every doubling."""
    asked = (each.shape.request.gpu for each in tasks)
    milli = sum(each.count * each.milli for each in asked if each is not None)
    return (-(-milli * 2 // WHOLE)).bit_length()


def started_at(tasks: Iterable[Task]) -> int | None:
    """Since when a gang runs, by its tasks; None if none of them does."""
    began = (each.started_at for each in tasks if each.state in ACTIVE)
    return min((each for each in began if each is not None), default=None)


def _comes_back(tasks: Iterable[Task]) -> bool:
    """Has it only been displaced?"""
    return any(each.state in OCCUPYING or each.state is TaskState.WAITING for each in tasks)


def _templates(tasks: Iterable[Task]) -> Iterator[Template]:
    counts = Counter((each.shape, each.group, each.labels) for each in tasks)
    for (shape, group, labels), count in counts.items():
        yield Template(shape, group, labels, count)
