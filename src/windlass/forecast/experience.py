"""The memory of past work: run times, stated run times, and submissions.

`look` is called with the cluster after every cycle and compares it with the last look. Memory is
bounded: the latest ends per queue, and the latest arrivals. It is not part of a snapshot, because
no decision depends on it.
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
"""The ends that are kept per queue, separately for stated and unstated run times."""
MOST_QUEUES = 1000
"""The keys of `Experience._ends` that are kept; of more, the first one is dropped."""
MOST_ARRIVALS = 2000
"""The latest arrivals that are kept."""


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """The run of a gang: to its end, or until now if it still runs."""

    queue: str
    job: JobId
    size: int
    """The size class, see `size_of`."""
    ran_s: int
    stated_s: int | None
    """The run time that its user stated; None: none."""

    @classmethod
    def of(cls, gang: Gang, size: int, ran_s: int) -> CompletedRun:
        """Return the run of a gang that has run for some seconds."""
        return cls(gang.queue, gang.job, size, ran_s, gang.duration_s)


@dataclass(frozen=True, slots=True)
class TaskTemplate:
    """A number of equal tasks of a gang."""

    shape: Shape
    group: str
    labels: Pairs
    count: int


@dataclass(frozen=True, slots=True)
class GangArrival:
    """A gang and its tasks as they were submitted."""

    gang: Gang
    tasks: tuple[TaskTemplate, ...]


@dataclass(slots=True)
class _ObservedRun:
    """A gang that runs now."""

    gang: Gang
    size: int
    since: int
    before_s: int = 0
    """The run time of earlier runs whose work it kept by checkpoints."""


class Experience:
    """The bounded memory of one cluster."""

    def __init__(self) -> None:
        self.arrived: deque[GangArrival] = deque(maxlen=MOST_ARRIVALS)
        self.since: int | None = None
        """The time of the first look; None before it."""
        self._ends: dict[tuple[str, bool], deque[CompletedRun]] = {}
        """The latest ends by queue and by whether a run time was stated."""
        self._known: set[GangId] = set()
        """The gangs that exist and were noted as arrivals, or arrived before `since`."""
        self._runs: dict[GangId, _ObservedRun] = {}
        """The gangs that ran at the last look."""
        self._saved: dict[GangId, int] = {}
        """The run time in seconds that evicted gangs kept by checkpoints."""

    def look(self, cluster: Cluster) -> None:
        """Note the gangs that arrived, started and ended since the last look."""
        if self.since is None:
            self.since = cluster.now
        stopped = self._runs.keys() - cluster.active.keys()
        for gang in sorted(stopped):
            self._note_stop(cluster, gang)
        for gang in cluster.active.keys() - self._runs.keys():
            self._note_start(cluster, gang)
        self._known &= cluster.gangs.keys()
        for gang in self._saved.keys() - cluster.gangs.keys():
            del self._saved[gang]
        for gang in sorted(cluster.gangs.keys() - self._known):
            self._note_arrival(cluster, gang)

    def copy(self) -> Experience:
        """Return a copy for a forecast, which reads it over many cycles."""
        other = Experience()
        other.since, other.arrived = self.since, self.arrived.copy()
        other._ends = {key: ends.copy() for key, ends in self._ends.items()}
        other._saved = self._saved.copy()
        return other

    @property
    def remembers_since(self) -> int | None:
        """The time since which all arrivals are known; None before the first look."""
        if self.since is None or len(self.arrived) < MOST_ARRIVALS:
            return self.since
        return max(self.since, self.arrived[0].gang.created_at)

    def ends(self, stated: bool) -> Iterator[CompletedRun]:
        """Yield the latest ends in all queues, of gangs with or without a stated run time."""
        for (_, is_stated), ends in self._ends.items():
            if is_stated == stated:
                yield from ends

    def saved_s(self, gang: GangId) -> int:
        """Return the run time in seconds of earlier runs whose work a gang kept."""
        return self._saved.get(gang, 0)

    def _note_arrival(self, cluster: Cluster, name: GangId) -> None:
        gang, tasks = cluster.gangs[name], cluster.members(name)
        if len(tasks) < gang.needed():
            return  # its tasks arrive one by one: look again later
        self._known.add(name)
        is_old = self.since is None or gang.created_at < self.since
        if not is_old:
            self.arrived.append(GangArrival(gang, tuple(_templates(tasks))))

    def _note_start(self, cluster: Cluster, name: GangId) -> None:
        gang, members = cluster.gangs[name], cluster.members(name)
        starts = [task.started_at for task in members if task.started_at is not None]
        if name in cluster.broken or not starts:
            return
        before_s = self._saved.get(name, 0)
        self._runs[name] = _ObservedRun(gang, size_of(members), min(starts), before_s)

    def _note_stop(self, cluster: Cluster, name: GangId) -> None:
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
    """Return the size class: 0 without GPUs, 1 up to half a GPU, then one more per doubling."""
    requests = (task.shape.request.gpu for task in tasks)
    milli = sum(gpu.count * gpu.milli for gpu in requests if gpu is not None)
    return (-(-milli * 2 // WHOLE)).bit_length()


def started_at(tasks: Iterable[Task]) -> int | None:
    """Return the earliest start of the working tasks; None if none has started."""
    starts = (task.started_at for task in tasks if task.state in ACTIVE)
    return min((start for start in starts if start is not None), default=None)


def _comes_back(tasks: Iterable[Task]) -> bool:
    """Return whether a stopped gang will run again, because it was only evicted."""
    return any(task.state in OCCUPYING or task.state is TaskState.WAITING for task in tasks)


def _templates(tasks: Iterable[Task]) -> Iterator[TaskTemplate]:
    counts = Counter((task.shape, task.group, task.labels) for task in tasks)
    for (shape, group, labels), count in counts.items():
        yield TaskTemplate(shape, group, labels, count)
