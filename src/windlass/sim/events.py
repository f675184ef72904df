"""What happens in a simulated cluster, at an instant of its own.

Arrivals, changes of nodes and what schedulers are told come with the workload (`workload.py`); all
else follows from what was set going before, and may be overtaken by the time it is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.jobs import GangId, TaskId
from windlass.sim.workload import Arrival, NodeChange, Told


@dataclass(frozen=True, slots=True)
class Starts:
    """A bound task comes up."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskEnds:
    """A task has done its work, unless its gang has started over since (`turn`)."""

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
    """A gang has saved the work that it had done when it was asked to."""

    gang: GangId
    id: str
    asked_at: int
    stretch: int


Happening: TypeAlias = (
    Arrival | NodeChange | Told | Starts | TaskEnds | Deletes | EvictionCompletes | Saves
)
