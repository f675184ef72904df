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
    """Where a task is in its life."""

    WAITING = "Waiting"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Overrun(StrEnum):
    """What becomes of a gang that has run for as long as it may."""

    END = "end"
    """It does not come back."""
    REQUEUE = "requeue"
    """It stands in line again, as if it had come just now."""


OCCUPYING = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING})
"""States in which a task's resources are taken."""
ACTIVE = frozenset({TaskState.BOUND, TaskState.RUNNING})
"""States in which a task counts as a working member of its gang."""
COUNTED = ACTIVE | {TaskState.SUCCEEDED}
"""States in which a task counts towards its gang's minimum."""


@dataclass(frozen=True, slots=True)
class Shape(Remembering):
    """All that decides where a task can run. Tasks of equal shape are interchangeable."""

    request: Request
    constraints: Constraints = Constraints()

    def __hash__(self) -> int:
        # asked for many times per decision, and deep: worth remembering
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.request, self.constraints)))
            return self._hash


@dataclass(frozen=True, slots=True)
class Task:
    """One pod."""

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
        """The task that its owner makes in its place: it waits."""
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
    """A wish for closeness: all tasks inside one domain of this level of a topology."""

    topology: str
    level: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """A sub-group of a gang: so many of its tasks start with the gang, perhaps close together."""

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
    """How long it is expected to run, where known; backfill and reservations rest on it."""
    displaces_after_s: int | None = 0
    """How long it waits for free room before others may be displaced for it; None: for ever."""
    stale_after_s: int | None = None
    """How long it may run below its minimum; None: as the settings say, negative: for ever."""
    remade_within_s: int = 0
    """How long its owner may take to make a lost member again, by the owner's own back-off."""
    stops_with: str = ""
    """The owner that is suspended to stop it whole; gangs of one owner stop together. Empty: it is
    evicted pod by pod."""
    saved_at: int | None = None
    """When its work was last saved: what it did since is lost if it is displaced."""
    saves_within_s: int | None = None
    """How long it may take to save when it is asked to; None: it cannot be asked."""
    unsaved_at_most_s: int | None = None
    """It saves by itself, every so often or when it is stopped: no more than this is ever lost."""
    hurry_s: int | None = None
    """It is in a hurry: whoever makes room for it gets at most so long to save."""
    terminates_s: int = 30
    """How long its tasks may take to stop once they are evicted."""
    served_s: int = 0
    """How long it worked before it last started; what it is doing now comes on top."""
    stops: int = 0
    """How often it lost its place to others; who did comes before equals of its queue."""
    home: tuple[str, ...] = ()
    """The nodes on which it ran before it lost its place; it goes back near them if it can."""
    max_run_s: int | None = None
    """How long it may run at a stretch; then it saves its work, if it can, and stops."""
    overrun: Overrun = Overrun.END
    """What becomes of it then."""
    stops_at_most: int | None = None
    """After so many it is spared, as far as its queue's guarantee goes."""
    spared: bool = False
    """It lost its place to others once: only its own queue may displace it again."""
    refusal: Reason | None = None
    """What keeps it out of the line altogether, found while it was read."""

    @property
    def is_firm(self) -> bool:
        """Can other queues take nothing back from it? Then it stays within its own guarantee."""
        return self.spared or not self.preemptible

    def needed(self) -> int:
        """How many members it takes for the gang to run."""
        return max(self.minimum, sum([group.minimum for group in self.groups]))

    def has_minimum(self, there: Mapping[str, int]) -> bool:
        """Do so many members of each group, by its name, make up the minimum?"""
        return sum(there.values()) >= self.needed() and all(
            there.get(group.name, 0) >= group.minimum for group in self.groups
        )
