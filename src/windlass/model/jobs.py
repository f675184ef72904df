"""Tasks, the gangs they form, and the jobs that users submitted.

A task's life, as the core sees it:

    WAITING --bind--> BOUND --started--> RUNNING --ended--> SUCCEEDED | FAILED
                        |                   |
                        +----- evicted -----+--> RELEASING --gone

A bound, running or releasing task occupies its node. Succeeded members still count towards their
gang's minimum; failed and gone ones do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NewType

from windlass.model.constraints import Constraints
from windlass.model.gpus import Slice
from windlass.model.reasons import Reason
from windlass.model.resources import Pairs, Remembering, Request

TaskId = NewType("TaskId", str)
GangId = NewType("GangId", str)
JobId = NewType("JobId", str)


class TaskState(StrEnum):
    """The state of a task; see the drawing above."""

    WAITING = "Waiting"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Overrun(StrEnum):
    """The fate of a gang that has reached its maximum run time."""

    END = "end"
    """It ends and is not started again."""
    REQUEUE = "requeue"
    """It is requeued, as if it had been submitted just now."""


OCCUPYING = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING})
"""States in which a task's resources are taken."""
ACTIVE = frozenset({TaskState.BOUND, TaskState.RUNNING})
"""States in which a task counts as a working member of its gang."""
COUNTED = ACTIVE | {TaskState.SUCCEEDED}
"""States in which a task counts towards its gang's minimum."""


@dataclass(frozen=True, slots=True)
class Shape(Remembering):
    """Everything that decides where a task can run. Tasks of equal shape are interchangeable."""

    request: Request
    constraints: Constraints = Constraints()

    def __hash__(self) -> int:
        # Computed many times per decision, and deep, so it is cached.
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.request, self.constraints)))
            return self._hash


@dataclass(frozen=True, slots=True)
class Task:
    """One pod. Times are seconds since 1970."""

    id: TaskId
    gang: GangId
    shape: Shape
    group: str = ""
    labels: Pairs = ()
    state: TaskState = TaskState.WAITING
    node: str = ""
    devices: tuple[Slice, ...] = ()
    started_at: int | None = None
    releasing_since: int | None = None

    def successor(self, name: TaskId) -> Task:
        """Return the waiting task that the owner of this one makes in its place."""
        return replace(
            self,
            id=name,
            state=TaskState.WAITING,
            node="",
            devices=(),
            started_at=None,
            releasing_since=None,
        )


@dataclass(frozen=True, slots=True)
class Domain:
    """A requirement or preference: all tasks inside one domain of this level of a topology."""

    topology: str
    level: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """A sub-group of a gang: `minimum` of its tasks start with the gang, perhaps in one domain."""

    name: str = ""
    minimum: int = 1
    domain: Domain | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """Tasks that start together or not at all.

    Each group needs its minimum, the gang as a whole at least `minimum` (zero: the groups' sum).
    Tasks beyond that are elastic: they join one at a time while there is room.
    """

    id: GangId
    queue: str
    job: JobId
    groups: tuple[Group, ...] = (Group(),)
    minimum: int = 0
    domain: Domain | None = None
    user: str = ""
    namespace: str = "default"
    priority: int = 0
    preemptible: bool = True
    created_at: int = 0
    duration_s: int | None = None
    """The expected run time; backfill and reservations rely on it. None: unknown."""
    displaces_after_s: int | None = 0
    """The waiting time before others may be displaced for it; None: they never are."""
    stale_after_s: int | None = None
    """The time it may run below its minimum; None: as in the settings, negative: for ever."""
    remade_within_s: int = 0
    """The time its owner may take to replace a lost member, by the owner's own backoff."""
    stops_with: str = ""
    """The owner that is suspended to stop it whole; gangs of one owner stop together. Empty: it is
    evicted pod by pod."""
    saved_at: int | None = None
    """The time of its last checkpoint; work since then is lost if it is evicted. None: no
    checkpoint is known."""
    saves_within_s: int | None = None
    """The time it may take for a requested checkpoint; None: it cannot be asked for one."""
    unsaved_at_most_s: int | None = None
    """An upper bound of the work that an eviction loses, for gangs that write checkpoints by
    themselves. None: no bound."""
    hurry_s: int | None = None
    """The time that its victims get for a checkpoint, at most; None: as long as they need."""
    terminates_s: int = 30
    """The termination grace period of its tasks."""
    served_s: int = 0
    """The time it ran before its last start; the current run comes on top."""
    stops: int = 0
    """The number of times it was a victim; a gang with any comes before equals of its queue."""
    home: tuple[str, ...] = ()
    """The nodes on which it ran before its last eviction; nodes near them are preferred."""
    max_run_s: int | None = None
    """The maximum time of one run; then it writes a checkpoint, if it can, and is evicted."""
    overrun: Overrun = Overrun.END
    """Its fate at that time."""
    stops_at_most: int | None = None
    """The value of `stops` from which on it is protected, within its queue's guarantee."""
    spared: bool = False
    """It is protected after earlier evictions: only gangs of its own queue may displace it."""
    refusal: Reason | None = None
    """The reason for which it is never scheduled, found when it was read; None: it may be."""

    @property
    def is_firm(self) -> bool:
        """True if other queues cannot reclaim from it. In exchange it starts only within the
        guarantee of its queue."""
        return self.spared or not self.preemptible

    def needed(self) -> int:
        """Return the number of members that the gang needs to run."""
        return max(self.minimum, sum([group.minimum for group in self.groups]))

    def has_minimum(self, members: Mapping[str, int]) -> bool:
        """Return whether these numbers of members, by group name, make up the minimum."""
        return sum(members.values()) >= self.needed() and all(
            members.get(group.name, 0) >= group.minimum for group in self.groups
        )
