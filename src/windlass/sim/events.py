"""The events of a simulated cluster, each at its own time.

Arrivals, changes of nodes and events for the scheduler come with the workload (`workload.py`). The
others follow from earlier events and may be obsolete when they are due.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.jobs import GangId, TaskId
from windlass.sim.workload import Arrival, NodeChange, Told


@dataclass(frozen=True, slots=True)
class Starts:
    """A bound task starts."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskEnds:
    """A task has done its work; obsolete if its gang has restarted since (`turn`)."""

    task: TaskId
    turn: int
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class Deletes:
    """A user deletes a gang."""

    gang: GangId


@dataclass(frozen=True, slots=True)
class EvictionCompletes:
    """An evicted task has terminated."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class Saves:
    """A gang has saved the work that it had done at the time of a checkpoint request."""

    gang: GangId
    id: str
    asked_at: int
    stretch: int


Happening: TypeAlias = (
    Arrival | NodeChange | Told | Starts | TaskEnds | Deletes | EvictionCompletes | Saves
)
