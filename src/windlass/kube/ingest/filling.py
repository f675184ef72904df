"""Which stand-ins there are now: one for each place of a gang that no pod has taken.

Gangs whose owner was suspended have them (`standins.py`), and gangs whose followers are made after
their leaders have nodes (`leaders.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from windlass.model.jobs import GangId, TaskId
from windlass.model.resources import Request
from windlass.workloads.objects.wire import Pod


@dataclass(slots=True)
class _Filled:
    here: dict[TaskId, Pod] = field(default_factory=dict[TaskId, Pod])
    took: dict[TaskId, TaskId] = field(default_factory=dict[TaskId, TaskId])
    asks: dict[int, tuple[Pod, Request]] = field(default_factory=dict[int, tuple[Pod, Request]])
    """By the identity of a pod, which equal stand-ins share."""


@dataclass(frozen=True, slots=True)
class PlaceholderDelta:
    """Stand-ins that are new or have changed, and those that are not needed any more."""

    come: Mapping[TaskId, Pod]
    go: list[TaskId]


class PlaceholderTasks:
    """The stand-ins of each gang, and whose places were taken."""

    def __init__(self, request: Callable[[Pod], Request]) -> None:
        self._request = request
        self._gangs: dict[GangId, _Filled] = {}
        self._tasks: set[TaskId] = set()

    def __contains__(self, task: object) -> bool:
        """Is it a task without a pod?"""
        return task in self._tasks

    def __bool__(self) -> bool:
        """Is there any stand-in?"""
        return bool(self._tasks)

    def knows(self, gang: GangId) -> bool:
        """Has the gang stand-ins, or had it some?"""
        return gang in self._gangs

    def of(self, gang: GangId) -> Mapping[TaskId, Pod]:
        """The stand-ins of a gang, with what they stand for."""
        found = self._gangs.get(gang)
        return found.here if found else {}

    def all(self) -> dict[TaskId, Pod]:
        """All of them."""
        return {task: pod for each in self._gangs.values() for task, pod in each.here.items()}

    def took(self, gang: GangId) -> Mapping[TaskId, TaskId]:
        """Which pod has the place of which stand-in."""
        found = self._gangs.get(gang)
        return found.took if found else {}

    def change(
        self,
        gang: GangId,
        places: Mapping[TaskId, Pod] | None,
        present: Mapping[TaskId, Request],
    ) -> PlaceholderDelta:
        """Fill the places of a gang (None: it has none) that the pods which are present leave.

        A stand-in that asks for the same as a pod leaves it its place first.
        """
        filled = self._gangs.setdefault(gang, _Filled())
        before = filled.here
        filled.here, filled.took = dict(places or {}), {}
        filled.asks.clear()
        for task, request in list(present.items())[: len(filled.here)]:
            alike = (t for t, pod in filled.here.items() if self._asks(filled, pod) == request)
            place = next(alike, None) or next(iter(filled.here))
            filled.took[place] = task
            del filled.here[place]
        if places is None:
            del self._gangs[gang]
        self._tasks |= filled.here.keys()
        come = {task: pod for task, pod in filled.here.items() if before.get(task) is not pod}
        return PlaceholderDelta(come, sorted(before.keys() - filled.here.keys()))

    def forget(self, task: TaskId) -> None:
        """A stand-in is gone."""
        self._tasks.discard(task)

    def _asks(self, filled: _Filled, pod: Pod) -> Request:
        known = filled.asks.get(id(pod))
        if known is None:
            known = filled.asks[id(pod)] = pod, self._request(pod)
        return known[1]
