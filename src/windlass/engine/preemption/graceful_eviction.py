"""Graceful eviction: a gang that can checkpoint gets a request first, and is evicted afterwards.

    decided --it cannot checkpoint, or only shrinks--> evicted now
       |
       +--requested--> all tasks have answered, one refuses, or the deadline has come: evicted
                \\----> its places are no longer needed: the request is withdrawn

The request goes to the whole gang. From then on its places count as coming free and are held for
the preemptor; its tasks go on working until they are evicted.

Gangs of one owner stop together (`sibling_evictions`): suspending the owner deletes the pods of all
of them. A JobSet that starts its jobs in order, or an MPIJob with a launcher, has several gangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2s

from windlass.engine.draft import Draft, is_torn
from windlass.model.actions import (
    Action,
    Bind,
    Evict,
    EvictionRule,
    PendingCheckpoint,
    RequestCheckpoint,
    WithdrawCheckpoint,
)
from windlass.model.jobs import ACTIVE, Gang, GangId, Task, TaskState
from windlass.state.cluster import Cluster

IN_VAIN = (EvictionRule.STALE, EvictionRule.LOST)
"""Rules by which a gang is evicted without a request: part of a gang, or a gang on a node that does
not answer, cannot checkpoint completely."""


@dataclass(slots=True)
class GracefulEvictions:
    """The actions that follow from pending requests and from new evictions."""

    actions: list[Evict | RequestCheckpoint | WithdrawCheckpoint] = field(
        default_factory=list[Evict | RequestCheckpoint | WithdrawCheckpoint]
    )
    wake_at: int | None = None
    """The first deadline of a pending request; None if no request is pending."""

    def wait(self, until: int) -> None:
        """Ask for the next plan at this instant, or earlier."""
        self.wake_at = until if self.wake_at is None else min(self.wake_at, until)


def evict_gracefully(draft: Draft, decided: Iterable[Evict]) -> GracefulEvictions:
    """Return the evictions of gangs that are ready, new checkpoint requests, and withdrawn
    requests.

    `decided` are the evictions of this cycle. The holds of preemptors whose victims are evicted now
    are renewed on the draft.
    """
    cluster, result = draft.cluster, GracefulEvictions()
    for pending in cluster.partings.now():
        _continue(draft, pending, result)
    for gang, evictions in cluster.by_gang(decided).items():
        request = _request(cluster, cluster.gangs[gang], evictions)
        if request is None:
            result.actions += evictions
        else:
            result.actions.append(RequestCheckpoint(request))
            result.wait(request.deadline)
    return result


def sibling_evictions(cluster: Cluster, actions: Iterable[Action]) -> list[Evict]:
    """Return further evictions: running gangs whose owner stops because a plan evicts a sibling
    whole.

    They have the rule and the preemptor of that sibling. A gang that the same plan starts is left
    out; its owner is then stopped by a later plan.
    """
    planned = list(actions)
    evicted = {action.task: action for action in planned if isinstance(action, Evict)}
    starting = {cluster.tasks[action.task].gang for action in planned if isinstance(action, Bind)}
    more: list[Evict] = []
    for gang, evictions in cluster.by_gang(evicted.values()).items():
        siblings = [name for name in cluster.siblings(cluster.gangs[gang]) if name not in starting]
        active = (task for task in cluster.members(gang) if task.state in ACTIVE)
        if not siblings or any(task.id not in evicted for task in active):
            continue
        for task in (task for name in siblings for task in cluster.members(name)):
            if task.state in ACTIVE and task.id not in evicted:
                evicted[task.id] = Evict(task.id, evictions[0].rule, evictions[0].gainer)
                more.append(evicted[task.id])
    return more


def awaited(cluster: Cluster) -> set[GangId]:
    """Return the gangs with a pending checkpoint request, and the preemptors that wait for them."""
    gangs: set[GangId] = set()
    for gang, pending in cluster.partings.standing.items():
        gangs.add(gang)
        gangs |= {eviction.gainer for eviction in pending.evictions}
    return gangs


def withdrawable_gangs(draft: Draft) -> set[GangId]:
    """Return the gangs with a pending checkpoint request whose places are no longer needed."""
    cluster = draft.cluster
    return {
        pending.gang
        for pending in cluster.partings.now()
        if not _is_needed(draft, pending, cluster.members(pending.gang))
    }


def is_ready(pending: PendingCheckpoint, left: Iterable[Task], now: int) -> bool:
    """Return whether a gang may be evicted now.

    That is so if all its remaining tasks (`left`) are saved, one refused, or the deadline has
    passed.
    """
    is_saved = all(task.id in pending.saved for task in left)
    return is_saved or pending.refused or now >= pending.deadline


def _continue(draft: Draft, pending: PendingCheckpoint, result: GracefulEvictions) -> None:
    """Add the next action for a pending request: evict, withdraw, or only wait for the deadline."""
    cluster = draft.cluster
    tasks = [cluster.tasks[e.task] for e in pending.evictions if e.task in cluster.tasks]
    left = [task for task in tasks if task.state == TaskState.RELEASING]
    if not left or not _is_needed(draft, pending, left):
        result.actions.append(WithdrawCheckpoint(pending.gang, pending.id))
    elif is_ready(pending, left, cluster.now):
        names = {task.id for task in left}
        result.actions += [eviction for eviction in pending.evictions if eviction.task in names]
        _renew_holds(draft, pending)
    else:
        result.wait(pending.deadline)


def _is_needed(draft: Draft, pending: PendingCheckpoint, left: Iterable[Task]) -> bool:
    """Return whether a preemptor, or another gang with a firm hold there, waits for the places.

    True for a forced eviction, which has no preemptor.
    """
    holds = [hold for hold in draft.holds.standing.values() if hold.firm]
    preemptors = {eviction.gainer for eviction in pending.evictions}
    # an empty preemptor is that of a forced eviction, see `actions.WITHOUT_PREEMPTOR`
    if GangId("") in preemptors or any(hold.gang in preemptors for hold in holds):
        return True
    others = (claim for hold in holds if hold.gang != pending.gang for claim in hold.claims)
    return any(claim.meets(task.node, task.devices) for claim in others for task in left)


def _renew_holds(draft: Draft, pending: PendingCheckpoint) -> None:
    """Set the start of the holds that wait for a gang to now: only from now on do its tasks
    terminate.

    A hold is dropped if it does not help in time, counted from its start.
    """
    standing, now = draft.holds.standing, draft.cluster.now
    for gang in (pending.gang, *(eviction.gainer for eviction in pending.evictions)):
        hold = standing.get(gang)
        if hold is not None and hold.firm:
            standing[gang] = replace(hold, starts_at=now)


def _request(cluster: Cluster, gang: Gang, evictions: list[Evict]) -> PendingCheckpoint | None:
    """Return the checkpoint request for a gang; None if it is to be evicted without one.

    There is a request if the gang can checkpoint, would lose work, and has time for it.
    """
    budget = gang.saves_within_s
    if not budget or any(eviction.rule in IN_VAIN for eviction in evictions):
        return None
    going = {eviction.task for eviction in evictions}
    tasks = cluster.members(gang.id)
    if any(task.state != TaskState.RUNNING for task in tasks if task.id in going):
        return None
    if is_torn(gang, tasks) or not is_torn(gang, [t for t in tasks if t.id not in going]):
        return None  # the gang does no work any more, or goes on working without these tasks
    preemptor = cluster.gangs.get(evictions[0].gainer)
    if preemptor is not None and preemptor.hurry_s is not None:
        budget = min(budget, preemptor.hurry_s)
    now = cluster.now
    deadline = min([now + budget, *_notices(cluster, evictions)])
    if deadline <= now:
        return None
    return PendingCheckpoint(gang.id, _id(evictions, now), now, deadline, tuple(evictions))


def _notices(cluster: Cluster, evictions: Iterable[Evict]) -> Iterator[int]:
    """Yield the instants at which tasks must begin to terminate, to end before their nodes
    leave."""
    for eviction in evictions:
        task = cluster.tasks[eviction.task]
        node = cluster.nodes.get(task.node) if eviction.rule is EvictionRule.LEAVING else None
        until = node.trouble.until if node and node.trouble else None
        if until is not None:
            yield until - cluster.gangs[task.gang].terminates_s


def _id(evictions: list[Evict], now: int) -> str:
    """Return an identifier: different for every request, the same for the same decision."""
    tasks = sorted(eviction.task for eviction in evictions)
    names = "\n".join([str(now), evictions[0].gainer, *tasks])
    return blake2s(names.encode(), digest_size=10).hexdigest()
