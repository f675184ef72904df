"""What could be different: the kinds of change that may start a waiting gang, as a table.

A kind is a function that looks at a gang and answers *ladders*. A ladder is one thing that can be
changed by more or less: its first rung changes it by one unit, its last as far as it goes. What has
no amount is a ladder of one rung. A change is the events that would be seen if somebody made it, so
that it is applied to a cluster like anything else that happens.

A job that is changed is submitted anew: it stands at the end of the line, and nothing that was
promised to it is left. This file holds what all kinds share. The kinds stand in `changes_of_job.py`
(its place in line, how much it asks for), `changes_of_place.py` (where it may run) and
`changes_around.py` (queues, settings, other gangs).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from windlass.engine.queueing.progress import Progress
from windlass.model.constraints import Constraints
from windlass.model.events import Event, GangGone, GangSeen, TaskSeen
from windlass.model.gpus import GpuRequest
from windlass.model.jobs import Gang, Task
from windlass.state.cluster import Cluster

MOST_ALTERNATIVES = 16
"""So many queues, models or taints are tried, the nearest first."""


class ChangeKind(StrEnum):
    """What is changed."""

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
    """One thing made different."""

    kind: ChangeKind
    says: str
    """As the end of a sentence: "with 4 GPUs per task instead of 8"."""
    values: Mapping[str, int | str | Sequence[str]]
    """The same for programs."""
    events: tuple[Event, ...]
    size: int = 0
    """What somebody gives up or is given, in thousandths of a GPU; 0 if that is no amount."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """One thing that can be changed, by one unit or by more."""

    rung: Callable[[int], SuggestedChange]
    """From 1."""
    length: int = 1
    guess: int = 0
    """The rung that should do by sums, if there are any."""


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that waits, in a cluster that nobody else uses."""

    cluster: Cluster
    progress: Progress
    need: Mapping[str, int]
    """What it would add to its queue at least, per dimension."""
    queues: Collection[str]
    """The queues that it may stand in."""

    @property
    def gang(self) -> Gang:
        return self.progress.gang

    @property
    def tasks(self) -> list[Task]:
        """Its tasks, by name."""
        return sorted(self.cluster.members(self.gang.id), key=lambda task: task.id)


Ladders: TypeAlias = Callable[[WaitingGang], Iterable[Ladder]]


def again(
    asked: WaitingGang, gang: Gang | None = None, tasks: Iterable[Task] = ()
) -> tuple[Event, ...]:
    """The gang is taken back and submitted anew, with what is different."""
    gang = replace(gang or asked.gang, created_at=asked.cluster.now)
    seen = (TaskSeen(task) for task in tasks or asked.tasks)
    return (GangGone(gang.id), GangSeen(gang), *seen)


def once(
    kind: ChangeKind, says: str, values: Mapping[str, int | str], events: tuple[Event, ...]
) -> Ladder:
    """A change without an amount."""
    return Ladder(lambda _: SuggestedChange(kind, says, values, events))


def with_gpu(task: Task, change: Callable[[GpuRequest], GpuRequest]) -> Task:
    """The task with another wish for GPUs, if it has one."""
    request = task.shape.request
    if request.gpu is None:
        return task
    request = replace(request, gpu=change(request.gpu))
    return replace(task, shape=replace(task.shape, request=request))


def with_constraints(task: Task, change: Callable[[Constraints], Constraints]) -> Task:
    """The task with other rules about where it may run."""
    shape = replace(task.shape, constraints=change(task.shape.constraints))
    return replace(task, shape=shape)
