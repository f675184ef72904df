"""A trace as a workload: gangs of up to a node's GPUs per task, saved when they are stopped.

A job with at most as many GPUs as the largest node is one task; a larger one takes whole nodes, the
largest first, and a part of one for the rest. The scheduler does not know the run time unless
`Replay.known` is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from windlass.model.constraints import HOSTNAME
from windlass.model.gpus import WHOLE, Gpu, GpuRequest
from windlass.model.jobs import Gang, GangId, Group, JobId, Shape, Task, TaskId
from windlass.model.nodes import Node
from windlass.model.queues import Queue
from windlass.model.resources import Request
from windlass.model.settings import Displacing, Ordering, Settings
from windlass.sim.traces.rows import TraceJob
from windlass.sim.workload import Arrival, Workload

CPU_PER_GPU, MIB_PER_GPU = 8000, 64 * 1024
"""The request for each GPU of a job, in proportion for a fraction: traces do not contain it."""
EVERYBODY = "everybody"
"""The queue of jobs without a team, and of all jobs where the order is not between teams."""
LEAST_EPOCH_S = 60
"""The shortest epoch in seconds: failed searches are repeated at epochs, which are longer where
nothing is stopped soon."""
NEVER_S = 1 << 40
SAVES_WHEN_STOPPED = 1 << 40
"""A checkpoint time in the far future, so that no work is ever lost."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The way in which a trace is played."""

    order: Ordering = Ordering.FAIR
    known: bool = False
    """True if the scheduler knows the run time of each job."""
    restart_s: int = 30
    min_run_s: int = 1800
    reserve_after_s: int | None = None
    """The wait in seconds after which the first job gets a reservation; None: never."""
    age_s: int = 0
    by_team: bool | None = None
    """True for one queue per team; None: only where the order is fair."""

    @property
    def has_teams(self) -> bool:
        """True if each team has a queue of its own."""
        return self.order is Ordering.FAIR if self.by_team is None else self.by_team


def cluster_of(nodes: int, gpus: int) -> tuple[Node, ...]:
    """Return this many equal nodes with this many GPUs, and CPU and memory in proportion."""
    width = len(str(nodes))
    cpu, memory = CPU_PER_GPU * gpus, MIB_PER_GPU * gpus
    cards = (Gpu("GPU", 80 * 1024),) * gpus
    names = [f"n{number:0{width}}" for number in range(1, nodes + 1)]
    return tuple(Node(name, cpu, memory, gpus=cards, labels={HOSTNAME: name}) for name in names)


def workload_of(jobs: Sequence[TraceJob], nodes: Sequence[Node], how: Replay) -> Workload:
    """Return the jobs on these nodes; a job larger than all nodes is cut down to their size."""
    sizes = sorted((len(node.gpus) for node in nodes if node.gpus), reverse=True)
    teams = sorted({_queue(job, how) for job in jobs})
    arrivals = tuple(
        _arrival(number, job, _split(job.gpus, sizes), how)
        for number, job in enumerate(jobs, start=1)
    )
    queues = tuple(Queue(name) for name in teams)
    return Workload(tuple(nodes), queues, arrivals, settings=_settings(how))


def larger_than(jobs: Iterable[TraceJob], nodes: Iterable[Node]) -> int:
    """Return the number of jobs that request more GPUs than all nodes have, and are cut down."""
    total = sum(len(node.gpus) for node in nodes)
    return sum(job.gpus > total for job in jobs)


def _split(gpus: int, sizes: Sequence[int]) -> list[int]:
    """Return the GPUs of each task: whole nodes, the largest first, and a part of one for
    the rest."""
    counts: list[int] = []
    for size in sizes:
        if not gpus:
            break
        counts.append(min(size, gpus))
        gpus -= counts[-1]
    return counts


def _settings(how: Replay) -> Settings:
    return Settings(
        order=how.order,
        age_s=how.age_s,
        min_run_s=how.min_run_s,
        dwell_s=how.min_run_s,
        reserve_after_s=NEVER_S if how.reserve_after_s is None else how.reserve_after_s,
        displacing=(Displacing.RECLAIM, Displacing.PREEMPT),
        search_again_s=LEAST_EPOCH_S,
        epoch_s=max(LEAST_EPOCH_S, how.min_run_s // 6),
    )


def _queue(job: TraceJob, how: Replay) -> str:
    return (job.team or EVERYBODY) if how.has_teams else EVERYBODY


def _arrival(number: int, job: TraceJob, counts: Sequence[int], how: Replay) -> Arrival:
    name = GangId(f"j{number:06}")
    gang = Gang(
        name,
        _queue(job, how),
        JobId(f"{job.name or 'job'}-{number}"),
        (Group(minimum=len(counts)),),
        user=job.user or job.team,
        created_at=job.at,
        duration_s=job.runs_s if how.known else job.said_s,
        saved_at=SAVES_WHEN_STOPPED,
    )
    tasks = tuple(
        Task(TaskId(f"{name}-{at}"), name, _shape(count, job.milli))
        for at, count in enumerate(counts)
    )
    return Arrival(
        job.at,
        gang,
        tasks,
        job.runs_s,
        saves_when_stopped=True,
        restart_s=how.restart_s,
        terminates_s=0,
    )


@cache  # equal shapes are one object: they are compared a great deal
def _shape(gpus: int, milli: int) -> Shape:
    asked, part = GpuRequest(gpus, milli), gpus * milli
    cpu, memory = CPU_PER_GPU * part // WHOLE, MIB_PER_GPU * part // WHOLE
    return Shape(Request(cpu_milli=cpu, memory_mib=memory, gpu=asked))
