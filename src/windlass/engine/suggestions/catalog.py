"""The catalog of changes that may start a waiting gang: what all kinds of change share.

A kind of change is a function that returns the *ladders* of a waiting gang. A ladder is one thing
that can be changed by an amount: its first rung changes it by one unit, its last as far as it goes.
A change without an amount is a ladder of one rung. A change consists of the events that would be
observed if somebody made it, so it is applied to a cluster like any other event.

A job that is changed is submitted again: it is the youngest of its queue, and its holds are gone.
The kinds are in `job.py` (order and size of the request), `placement.py` (the nodes that it may run
on) and `surroundings.py` (queues, settings, other gangs).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from windlass.engine.queueing import Progress
from windlass.model.constraints import Constraints
from windlass.model.events import Event, GangGone, GangSeen, TaskSeen
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Gang, Task
from windlass.state.cluster import Cluster

MOST_ALTERNATIVES = 16
"""The number of queues, models or taints that are tried, the nearest first."""


class ChangeKind(StrEnum):
    """The kind of a change: the thing that is changed."""

    QUEUE = "queue"
    MODEL = "model"
    PREEMPTIBLE = "preemptible"
    HASTE = "haste"
    DOMAIN = "domain"
    SELECTOR = "selector"
    NEIGHBOURS = "neighbours"
    TAINT = "taint"
    PRIORITY = "priority"
    GPUS = "gpus"
    MINIMUM = "minimum"
    LIMIT = "limit"
    LEND = "lend"
    GUARANTEE = "guarantee"
    DISPLACING = "displacing"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class SuggestedChange:
    """One change of one thing."""

    kind: ChangeKind
    says: str
    """The change as the end of a sentence: "with 4 GPUs per task instead of 8"."""
    values: Mapping[str, int | str | Sequence[str]]
    """The same as data."""
    events: tuple[Event, ...]
    size: int = 0
    """The thousandths of a GPU that are given up or given; 0 if the change has no amount."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """One thing that can be changed, by one unit or more."""

    rung: Callable[[int], SuggestedChange]
    """Returns the change of a rung, from 1."""
    length: int = 1
    guess: int = 0
    """The rung that should suffice by sums; 0 if there is no estimate."""


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that waits, in a private copy of the cluster."""

    cluster: Cluster
    progress: Progress
    need: Mapping[str, int]
    """The least that it would add to its queue, per dimension."""
    queues: Collection[str]
    """The queues that it may be submitted to."""

    @property
    def gang(self) -> Gang:
        """The gang itself."""
        return self.progress.gang

    @property
    def tasks(self) -> list[Task]:
        """The tasks of the gang, by name."""
        return sorted(self.cluster.members(self.gang.id), key=lambda task: task.id)


Ladders: TypeAlias = Callable[[WaitingGang], Iterable[Ladder]]
"""One kind of change: returns the ladders to try for a gang."""


def resubmitted(
    waiting: WaitingGang, gang: Gang | None = None, tasks: Iterable[Task] = ()
) -> tuple[Event, ...]:
    """Return the events of a gang that is deleted and submitted again with other properties."""
    gang = replace(gang or waiting.gang, created_at=waiting.cluster.now)
    seen = (TaskSeen(task) for task in tasks or waiting.tasks)
    return (GangGone(gang.id), GangSeen(gang), *seen)


def single_change(
    kind: ChangeKind, says: str, values: Mapping[str, int | str], events: tuple[Event, ...]
) -> Ladder:
    """Return a ladder of one rung, for a change without an amount."""
    return Ladder(lambda _: SuggestedChange(kind, says, values, events))


def with_gpu(task: Task, change: Callable[[GpuRequest], GpuRequest]) -> Task:
    """Return the task with another GPU request, if it has one."""
    request = task.shape.request
    if request.gpu is None:
        return task
    request = replace(request, gpu=change(request.gpu))
    return replace(task, shape=replace(task.shape, request=request))


def with_constraints(task: Task, change: Callable[[Constraints], Constraints]) -> Task:
    """Return the task with other constraints on its nodes."""
    shape = replace(task.shape, constraints=change(task.shape.constraints))
    return replace(task, shape=shape)
