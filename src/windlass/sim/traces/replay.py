"""A trace as a workload: gangs of up to a node's GPUs per task, saved when they are stopped.

A job of at most as many GPUs as the largest node has is one task; a larger one takes whole nodes,
the largest first, and for the rest part of one. The scheduler is told nothing of its run time
unless it is meant to be known.
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
"""What a job asks for with each GPU, in part with part of one: traces do not tell."""
EVERYBODY = "everybody"
"""The queue of jobs that name no team, and of all where the order is not between teams."""
LEAST_EPOCH_S = 60
"""Searches in vain are made again at epochs, which are longer where nothing is stopped soon."""
NEVER_S = 1 << 40
SAVES_WHEN_STOPPED = 1 << 40
"""An instant that never comes: nothing done before it is lost."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How a trace is to be played."""

    order: Ordering = Ordering.FAIR
    known: bool = False
    """Does the scheduler know how long each job will run?"""
    restart_s: int = 30
    min_run_s: int = 1800
    reserve_after_s: int | None = None
    """After waiting so long the head of a line is promised a place; None: never."""
    age_s: int = 0
    by_team: bool | None = None
    """A queue for each team; None: where the order is fair."""

    @property
    def has_teams(self) -> bool:
        """Does each team stand in a queue of its own?"""
        return self.order is Ordering.FAIR if self.by_team is None else self.by_team


def cluster_of(nodes: int, gpus: int) -> tuple[Node, ...]:
    """So many equal nodes of so many GPUs, with CPU and memory for them."""
    width = len(str(nodes))
    cpu, memory = CPU_PER_GPU * gpus, MIB_PER_GPU * gpus
    cards = (Gpu("GPU", 80 * 1024),) * gpus
    names = [f"n{number:0{width}}" for number in range(1, nodes + 1)]
    return tuple(Node(name, cpu, memory, gpus=cards, labels={HOSTNAME: name}) for name in names)


def workload_of(jobs: Sequence[TraceJob], nodes: Sequence[Node], how: Replay) -> Workload:
    """The jobs on these nodes; what is larger than all of them is cut down to their size."""
    sizes = sorted((len(node.gpus) for node in nodes if node.gpus), reverse=True)
    teams = sorted({_queue(job, how) for job in jobs})
    arrivals = tuple(
        _arrival(number, job, _split(job.gpus, sizes), how)
        for number, job in enumerate(jobs, start=1)
    )
    queues = tuple(Queue(name) for name in teams)
    return Workload(tuple(nodes), queues, arrivals, settings=_settings(how))


def larger_than(jobs: Iterable[TraceJob], nodes: Iterable[Node]) -> int:
    """How many jobs ask for more GPUs than all nodes have, and are cut down."""
    total = sum(len(node.gpus) for node in nodes)
    return sum(job.gpus > total for job in jobs)


def _split(gpus: int, sizes: Sequence[int]) -> list[int]:
    """The GPUs of each task: whole nodes, the largest first, and part of one for the rest."""
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
