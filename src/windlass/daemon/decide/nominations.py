"""What was promised to whom, on which pod it is written, and when it is over."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from windlass.engine.plan import Plan
from windlass.kube.writers.placement_promises import Promise, hold_of, promise_of, read
from windlass.model.actions import Hold
from windlass.model.jobs import GangId, Task, TaskId, TaskState
from windlass.model.resources import Request
from windlass.state.cluster import Cluster


class Promised:
    """The promises that stand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._written: dict[GangId, tuple[TaskId, str]] = {}
        self._outdated: set[GangId] = set()
        """Whose promise names pods that will not be evicted after all."""

    def write(self, gang: GangId, on: TaskId, text: str) -> None:
        """This is being written for a gang, on one of its pods."""
        self._written[gang] = (on, text)
        self._outdated.discard(gang)

    def compose(self, hold: Hold, plan: Plan) -> str:
        """The promise of a hold as it stands with a plan: who goes for it, now or once it saved."""
        tasks, gang = self._cluster.tasks, hold.gang
        parting = {each.gang: each for each in (*self._cluster.partings.now(), *plan.asks)}
        now = {each.task for each in plan.evictions if each.gainer == gang}
        over = {tasks[each.task].gang for each in plan.evictions}
        over |= {each.gang for each in plan.withdrawals}
        asked = [each for name, each in sorted(parting.items()) if name not in over]
        going = {each for each in self._evicted(gang) if _is_leaving(tasks.get(each))}
        going |= self._inherited(hold, plan)
        before = {each.gang for each in plan.gave_way if each.gainer == gang}
        mine = [each for each in asked if any(evict.gainer == gang for evict in each.evictions)]
        return promise_of(hold.claims, hold, going | now, mine, before)

    def _inherited(self, hold: Hold, plan: Plan) -> set[TaskId]:
        """Return the victims of gangs that gave way which still occupy a place of this hold."""
        found: set[TaskId] = set()
        for each in plan.gave_way:
            for name in self._evicted(each.gang) if each.gainer == hold.gang else ():
                task = self._cluster.tasks.get(name)
                if task is not None and _is_leaving(task) and _is_within(task, hold):
                    found.add(name)
        return found

    def honour(self, gang: GangId, on: TaskId, text: str) -> Promise | None:
        """Keep what was promised before us, if it stands."""
        promise = read(text)
        waiting: dict[TaskId, Request] = {
            each.id: each.shape.request
            for each in self._cluster.members(gang)
            if each.state == TaskState.WAITING
        }
        hold = hold_of(gang, promise, waiting) if promise else None
        if promise is None or hold is None or not self._stands(gang, promise):
            return None
        self._written[gang] = (on, text)
        if not self._outlives(gang, promise):
            return None
        starts_at = max(hold.starts_at, self._cluster.now)
        self._cluster.holds[gang] = replace(hold, starts_at=starts_at)
        return promise

    def _outlives(self, gang: GangId, promise: Promise) -> bool:
        """Was nothing of it promised to another gang since? What was promised before it ends.

        A leader that stopped between the two writes has left both promises.
        """
        for name in promise.before:
            found = read(self._written[GangId(name)][1]) if name in self._written else None
            if found is not None and found.starts_at <= promise.starts_at:
                self._cluster.holds.pop(GangId(name), None)
        others = (read(text) for _, text in self._written.values())
        return not any(
            other is not None and gang in other.before and promise.starts_at <= other.starts_at
            for other in others
        )

    def _stands(self, gang: GangId, promise: Promise) -> bool:
        """Was the promise acted on? If not, the gang is as well off in line as before."""
        acted = bool(promise.evicts or promise.asks)
        return acted or not promise.firm or gang in self._cluster.active

    def take_back(self, victim: TaskId) -> list[GangId]:
        """Hold no place that does not come free; answers which gangs waited for it."""
        found: list[GangId] = []
        for gang, (_, text) in self._written.items():
            promise = read(text)
            if promise is not None and victim in _going(promise):
                self._cluster.holds.pop(gang, None)
                self._outdated.add(gang)
                found.append(gang)
        return found

    def _evicted(self, gang: GangId) -> set[TaskId]:
        """Who was evicted for a gang, as it was promised."""
        promise = read(self._written[gang][1]) if gang in self._written else None
        return {TaskId(each) for each in promise.evicts} if promise else set()

    def evictions(self) -> Iterator[list[TaskId]]:
        """For each gang, whom it was promised to be evicted for it."""
        for _, (_, text) in sorted(self._written.items()):
            if promise := read(text):
                yield [TaskId(each) for each in promise.evicts]

    def lacks(self, gang: GangId) -> bool:
        """Is a hold of this gang not written down, or no longer as it is?"""
        return gang not in self._written or gang in self._outdated

    def end(self, kept: Collection[GangId]) -> list[TaskId]:
        """Only these are kept a place from now on; answers on which pods a promise is over."""
        self._outdated.clear()
        return [self._written.pop(gang)[0] for gang in list(self._written) if gang not in kept]


def _is_leaving(task: Task | None) -> bool:
    return task is not None and task.state == TaskState.RELEASING


def _is_within(task: Task, hold: Hold) -> bool:
    return any(claim.meets(task.node, task.devices) for claim in hold.claims)


def _going(promise: Promise) -> set[str]:
    """All who go for it, also those that save first."""
    asked = (each.tasks for asking in promise.asks for each in asking.going)
    return {*promise.evicts, *(task for tasks in asked for task in tasks)}
