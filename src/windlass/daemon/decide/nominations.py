"""The holds of the leader: promised places, and places whose bind has failed.

A hold that is written on a pod of its gang is a *promise*; another leader honours it. The page
`docs/holds.md` draws the states of a hold. Holds change by the events `HoldSeen` and `HoldGone`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from windlass.engine.plan import Plan
from windlass.kube.writers import Promise, hold_of, promise_of, read
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.events import Event, HoldGone, HoldSeen
from windlass.model.jobs import GangId, Task, TaskId, TaskState
from windlass.model.resources import Request
from windlass.state.cluster import Cluster


class Nominations:
    """The promises that are written on pods."""

    def __init__(self, cluster: Cluster, apply: Callable[[Iterable[Event]], None]) -> None:
        self._cluster, self._apply = cluster, apply
        self._written: dict[GangId, tuple[TaskId, str]] = {}
        """The task that carries the promise of a gang, and the text of the promise."""
        self._outdated: set[GangId] = set()
        """Gangs in `_written` whose promise names victims that are not evicted after all."""

    def write(self, gang: GangId, on: TaskId, text: str) -> None:
        """Note that a promise to a gang is being written, on one of its pods."""
        self._written[gang] = (on, text)
        self._outdated.discard(gang)

    def lacks(self, gang: GangId) -> bool:
        """Return whether the hold of a gang is not written, or its promise is outdated."""
        return gang not in self._written or gang in self._outdated

    def end(self, kept: Collection[GangId]) -> list[TaskId]:
        """Drop promises of all other gangs; return the tasks whose promise must be cleared."""
        self._outdated.clear()
        return [self._written.pop(gang)[0] for gang in list(self._written) if gang not in kept]

    def compose(self, hold: Hold, plan: Plan) -> str:
        """Return the text of a promise: the places of a hold, and its victims with this plan."""
        tasks, gang = self._cluster.tasks, hold.gang
        pending = {each.gang: each for each in (*self._cluster.partings.now(), *plan.asks)}
        evicted = {evict.task for evict in plan.evictions if evict.gainer == gang}
        over = {tasks[evict.task].gang for evict in plan.evictions}
        over |= {withdrawn.gang for withdrawn in plan.withdrawals}
        asked = [each for name, each in sorted(pending.items()) if name not in over]
        leaving = {name for name in self._victims(gang) if _is_leaving(tasks.get(name))}
        leaving |= self._inherited(hold, plan)
        yielded = {each.gang for each in plan.gave_way if each.gainer == gang}
        own = [each for each in asked if any(evict.gainer == gang for evict in each.evictions)]
        return promise_of(hold.claims, hold, leaving | evicted, own, yielded)

    def _inherited(self, hold: Hold, plan: Plan) -> set[TaskId]:
        """Return the victims of gangs that yielded which still occupy a place of this hold."""
        inherited: set[TaskId] = set()
        for yielded in plan.gave_way:
            for name in self._victims(yielded.gang) if yielded.gainer == hold.gang else ():
                task = self._cluster.tasks.get(name)
                if task is not None and _is_leaving(task) and _is_within(task, hold):
                    inherited.add(name)
        return inherited

    def honour(self, gang: GangId, on: TaskId, text: str) -> Promise | None:
        """Hold the places that a previous leader promised; return the promise if it is valid."""
        promise = read(text)
        waiting: dict[TaskId, Request] = {
            task.id: task.shape.request
            for task in self._cluster.members(gang)
            if task.state == TaskState.WAITING
        }
        hold = hold_of(gang, promise, waiting) if promise else None
        if promise is None or hold is None or not self._was_acted_on(gang, promise):
            return None
        self._written[gang] = (on, text)
        if not self._outlives(gang, promise):
            return None
        starts_at = max(hold.starts_at, self._cluster.now)
        self._apply([HoldSeen(replace(hold, starts_at=starts_at))])
        return promise

    def _was_acted_on(self, gang: GangId, promise: Promise) -> bool:
        """Return whether a pod was bound or evicted by a promise.

        If not, the gang loses nothing when it waits in its queue as before.
        """
        has_victims = bool(promise.evicts or promise.asks)
        return has_victims or not promise.firm or gang in self._cluster.active

    def _outlives(self, gang: GangId, promise: Promise) -> bool:
        """End the holds that this promise replaces; return whether no later one replaces it.

        A leader that stopped between the two writes has left both promises.
        """
        for name in promise.before:
            earlier = read(self._written[GangId(name)][1]) if name in self._written else None
            if earlier is not None and earlier.starts_at <= promise.starts_at:
                self._apply([HoldGone(GangId(name))])
        others = (read(text) for _, text in self._written.values())
        return not any(
            other is not None and gang in other.before and promise.starts_at <= other.starts_at
            for other in others
        )

    def take_back(self, victim: TaskId) -> list[GangId]:
        """End the holds that wait for a victim which is not evicted; return their gangs."""
        gangs: list[GangId] = []
        for gang, (_, text) in self._written.items():
            promise = read(text)
            if promise is not None and victim in _all_victims(promise):
                self._apply([HoldGone(gang)])
                self._outdated.add(gang)
                gangs.append(gang)
        return gangs

    def evictions(self) -> Iterator[list[TaskId]]:
        """Yield the promised victims of each gang."""
        for _, (_, text) in sorted(self._written.items()):
            if promise := read(text):
                yield [TaskId(name) for name in promise.evicts]

    def _victims(self, gang: GangId) -> set[TaskId]:
        """Return the tasks that are evicted for a gang, by its promise."""
        promise = read(self._written[gang][1]) if gang in self._written else None
        return {TaskId(name) for name in promise.evicts} if promise else set()


class FailedBindHolds:
    """Holds the places of failed binds while the rest of the gang is on its nodes.

    A gang backs off for a moment after a failed bind. If its place were free meanwhile, another
    gang would take it, and a gang that lacks one bind would in the end be evicted whole.
    """

    def __init__(self, cluster: Cluster, apply: Callable[[Iterable[Event]], None]) -> None:
        self._cluster, self._apply = cluster, apply
        self._gangs: set[GangId] = set()
        """The gangs for which this object has made a hold."""

    def keep(self, name: TaskId) -> None:
        """Hold the place of a bind that failed; call it before the cluster undoes the bind."""
        task = self._cluster.tasks.get(name)
        if task is None or task.state != TaskState.BOUND:
            return
        claim = PlaceClaim(name, task.node, task.devices, task.shape.request)
        hold = self._cluster.holds.get(task.gang)
        claims = (*(hold.claims if hold else ()), claim)
        self._apply([HoldSeen(Hold(task.gang, claims, self._cluster.now, firm=True))])
        self._gangs.add(task.gang)

    def let_go(self) -> None:
        """End the holds of gangs that have no task on a node any more, or are placed whole."""
        for gang in sorted(self._gangs):
            if not self._cluster.active.get(gang) or gang not in self._cluster.holds:
                self._apply([HoldGone(gang)])
                self._gangs.discard(gang)


def _is_leaving(task: Task | None) -> bool:
    return task is not None and task.state == TaskState.RELEASING


def _is_within(task: Task, hold: Hold) -> bool:
    return any(claim.meets(task.node, task.devices) for claim in hold.claims)


def _all_victims(promise: Promise) -> set[str]:
    """Return all victims of a promise, also those with a pending checkpoint."""
    asked = (going.tasks for asking in promise.asks for going in asking.going)
    return {*promise.evicts, *(task for tasks in asked for task in tasks)}
