"""Checkpoint before evict: who can save its work is asked first, and goes once it is safe.

    decided --it cannot be asked, or only shrinks--> evicted now
       |
       +--asked--> all tasks are safe, one refuses, or the deadline has come: evicted
              \\--> nobody needs its places any more: withdrawn

A gang is asked as a whole. From the request on its places count as coming free, held for whoever
gains; until it is evicted its tasks work on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2s

from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import is_torn
from windlass.model.actions import (
    Evict,
    EvictionRule,
    PendingCheckpoint,
    RequestCheckpoint,
    WithdrawCheckpoint,
)
from windlass.model.jobs import Gang, GangId, Task, TaskState
from windlass.state.cluster import Cluster

IN_VAIN = (EvictionRule.STALE, EvictionRule.LOST)
"""Half a gang, or one on a node that does not answer, has nobody who could save all of it."""


@dataclass(slots=True)
class Parted:
    """What follows from the requests that stand and from what was decided now."""

    actions: list[Evict | RequestCheckpoint | WithdrawCheckpoint] = field(
        default_factory=list[Evict | RequestCheckpoint | WithdrawCheckpoint]
    )
    wake_at: int | None = None

    def wait(self, until: int) -> None:
        """Time alone may change something then."""
        self.wake_at = until if self.wake_at is None else min(self.wake_at, until)


def part(draft: Draft, decided: Iterable[Evict]) -> Parted:
    """Evict those who are ready to go, ask those who can be, take back what is needless."""
    cluster, found = draft.cluster, Parted()
    for parting in cluster.partings.now():
        _go_on(draft, parting, found)
    for gang, evictions in cluster.by_gang(decided).items():
        parting = _asked(cluster, cluster.gangs[gang], evictions)
        if parting is None:
            found.actions += evictions
        else:
            found.actions.append(RequestCheckpoint(parting))
            found.wait(parting.deadline)
    return found


def awaited(cluster: Cluster) -> set[GangId]:
    """The gangs whose places come free only once others have saved, or they themselves have."""
    found: set[GangId] = set()
    for gang, parting in cluster.partings.standing.items():
        found.add(gang)
        found |= {each.gainer for each in parting.evictions}
    return found


def _go_on(draft: Draft, parting: PendingCheckpoint, found: Parted) -> None:
    cluster = draft.cluster
    tasks = [cluster.tasks[each.task] for each in parting.evictions if each.task in cluster.tasks]
    left = [task for task in tasks if task.state == TaskState.RELEASING]
    if not left or not _is_needed(draft, parting, left):
        found.actions.append(WithdrawCheckpoint(parting.gang, parting.id))
    elif is_ready(parting, left, cluster.now):
        there = {task.id for task in left}
        found.actions += [each for each in parting.evictions if each.task in there]
        _renew(draft, parting)
    else:
        found.wait(parting.deadline)


def needless(draft: Draft) -> set[GangId]:
    """The gangs that were asked to make room which nobody waits for any more."""
    cluster = draft.cluster
    return {
        parting.gang
        for parting in cluster.partings.now()
        if not _is_needed(draft, parting, cluster.members(parting.gang))
    }


def is_ready(parting: PendingCheckpoint, left: Iterable[Task], now: int) -> bool:
    """Is there nothing to wait for any more?"""
    is_safe = all(task.id in parting.saved for task in left)
    return is_safe or parting.refused or now >= parting.deadline


def _is_needed(draft: Draft, parting: PendingCheckpoint, left: Iterable[Task]) -> bool:
    """Does somebody still wait for its places: who gains by it, or who counts on the rest?"""
    holds = [hold for hold in draft.holds.standing.values() if hold.firm]
    gainers = {each.gainer for each in parting.evictions}
    if GangId("") in gainers or any(hold.gang in gainers for hold in holds):
        return True
    others = (claim for hold in holds if hold.gang != parting.gang for claim in hold.claims)
    return any(claim.meets(task.node, task.devices) for claim in others for task in left)


def _renew(draft: Draft, parting: PendingCheckpoint) -> None:
    """Its tasks terminate from now on: so long the patience of those who wait for it counts."""
    standing, now = draft.holds.standing, draft.cluster.now
    for gang in (parting.gang, *(each.gainer for each in parting.evictions)):
        hold = standing.get(gang)
        if hold is not None and hold.firm:
            standing[gang] = replace(hold, starts_at=now)


def _asked(cluster: Cluster, gang: Gang, evictions: list[Evict]) -> PendingCheckpoint | None:
    """The request, if the gang would lose work by going and can be asked to save it."""
    budget = gang.saves_within_s
    if not budget or any(each.rule in IN_VAIN for each in evictions):
        return None
    going = {each.task for each in evictions}
    tasks = cluster.members(gang.id)
    if any(task.state != TaskState.RUNNING for task in tasks if task.id in going):
        return None
    if is_torn(gang, tasks) or not is_torn(gang, [t for t in tasks if t.id not in going]):
        return None  # it does not work any more, or works on without them
    gainer = cluster.gangs.get(evictions[0].gainer)
    if gainer is not None and gainer.hurry_s is not None:
        budget = min(budget, gainer.hurry_s)
    now = cluster.now
    deadline = min([now + budget, *_notices(cluster, evictions)])
    if deadline <= now:
        return None
    return PendingCheckpoint(gang.id, _id(evictions, now), now, deadline, tuple(evictions))


def _notices(cluster: Cluster, evictions: Iterable[Evict]) -> Iterator[int]:
    """When the nodes are gone that the tasks have to leave, less the time that stopping takes."""
    for each in evictions:
        task = cluster.tasks[each.task]
        node = cluster.nodes.get(task.node) if each.rule is EvictionRule.LEAVING else None
        until = node.trouble.until if node and node.trouble else None
        if until is not None:
            yield until - cluster.gangs[task.gang].terminates_s


def _id(evictions: list[Evict], now: int) -> str:
    """Another for every request, and the same wherever the same is decided."""
    names = "\n".join([str(now), evictions[0].gainer, *sorted(each.task for each in evictions)])
    return blake2s(names.encode(), digest_size=10).hexdigest()
