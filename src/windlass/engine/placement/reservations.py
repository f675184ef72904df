"""Reservations: after a long wait the head of a queue is promised a place in the future.

Running work is released on a draft in the order of its expected ends until the gang fits; the
places it gets are claimed from that instant on. Until then others may use them if they end in time.
Work of unknown length, or past its expected end, is expected to run once more as long as it has
run; after some hours it is taken for a service, whose end is not waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

from windlass.engine.draft import Draft
from windlass.engine.placement.place import Placer
from windlass.engine.queueing import Estimates, Progress, ProgressCache
from windlass.model.actions import Hold
from windlass.model.jobs import GangId, Task, TaskId
from windlass.state.cluster import Cluster

MOST_RESERVATIONS = 1
"""The number of reservations in a cluster. Each keeps work away that may run too long; more than
one did not serve any gang sooner."""
MOST_RELEASES = 4096
"""The number of running tasks whose end is considered, the soonest first."""
SHORTEST_S = 60
"""The least time that work of unknown length is expected to run on."""
FOR_EVER_S = 1 << 40
PATIENT_FOR = 4
"""Work past its expected end is expected to end until it has run this many times the patience
(`Settings.reserve_after_s`)."""


def drop_broken(draft: Draft) -> None:
    """Drop holds that are of no use: their gang or nodes are gone, or they did not help in time."""
    cluster = draft.cluster
    checkpointing = _await_checkpoint(cluster)
    for gang, hold in sorted(draft.holds.standing.items()):
        settings = cluster.settings
        patience = settings.stuck_after_s if hold.firm else settings.reserve_after_s
        late = cluster.now - hold.starts_at > patience and gang not in checkpointing
        # A firm hold may wait for the successors of tasks that are terminating.
        outdated = not hold.firm and _is_outdated(cluster, hold)
        lost = any(claim.node not in cluster.nodes for claim in hold.claims)
        if gang not in cluster.gangs or outdated or lost or (hold.starts_at and late):
            draft.holds.drop(gang)


def _await_checkpoint(cluster: Cluster) -> set[GangId]:
    """Return the gangs with a pending checkpoint, and the preemptors that wait for them."""
    waiting: set[GangId] = set()
    for gang, checkpoint in cluster.partings.standing.items():
        waiting.add(gang)
        waiting |= {evict.gainer for evict in checkpoint.evictions}
    return waiting


def _is_outdated(cluster: Cluster, hold: Hold) -> bool:
    """Return whether the gang lacks other tasks by now than those with a reserved place."""
    progress = cluster.recall(ProgressCache).of(hold.gang)
    if progress is None:
        return True
    lacking = {task.id for part in progress.parts for task in part.tasks}
    return lacking != {claim.task for claim in hold.claims}


def reserve(
    draft: Draft, placer: Placer, waiting: Sequence[Progress], leaving: Collection[TaskId]
) -> None:
    """Add reservations for gangs that have waited too long for room, in queue order.

    The places of `leaving` tasks are held for other gangs already.
    """
    cluster, holds = draft.cluster, draft.holds
    latest = cluster.now - cluster.settings.reserve_after_s
    remaining = MOST_RESERVATIONS - sum(not hold.firm for hold in holds.standing.values())
    if remaining <= 0 or all(progress.gang.created_at > latest for progress in waiting):
        return
    unserved = [progress for progress in waiting if progress.gang.id not in holds.standing]
    patient = (head for head in _heads(placer, unserved) if head.gang.created_at <= latest)
    ends = [(end, task) for end, task in expected_ends(draft) if task.id not in leaving]
    for head in islice(patient, remaining):
        others = [(end, task) for end, task in ends if task.gang != head.gang.id]
        hold = _earliest(draft, placer, head, others)
        if hold is not None:
            holds.add(hold)


def _heads(placer: Placer, waiting: Sequence[Progress]) -> Iterator[Progress]:
    """Yield the first gang of each queue that lacks nothing but room."""
    queues: dict[str, list[Progress]] = {}
    for progress in waiting:
        queues.setdefault(progress.gang.queue, []).append(progress)
    for gangs in queues.values():
        head = next(
            (gang for gang in sorted(gangs, key=_claim_order) if placer.may_fit(gang)), None
        )
        if head is not None:
            yield head


def _claim_order(progress: Progress) -> tuple[bool, int, int, str]:
    """Order gangs that lost members first, then by priority, then by age."""
    gang = progress.gang
    return not progress.started, -gang.priority, gang.created_at, gang.id


def expected_ends(draft: Draft) -> list[tuple[int, Task]]:
    """Return running tasks with the instants at which they are expected to end, soonest first."""
    cluster = draft.cluster
    estimates = Estimates(cluster)
    ends: list[tuple[int, str, Task]] = []
    for task in cluster.running():
        end = _expected_end(task, estimates.of(cluster.gangs[task.gang]), cluster)
        if end is not None:
            ends.append((end, task.id, task))
    ends.sort(key=itemgetter(0, 1))
    return [(end, task) for end, _, task in ends[:MOST_RELEASES]]


def _expected_end(task: Task, duration: int | None, cluster: Cluster) -> int | None:
    """Return when a task is expected to end; None if it is taken for a service."""
    now, started = cluster.now, task.started_at
    ran = 0 if started is None else now - started
    if duration is not None and ran < duration:
        return now - ran + duration
    if ran > PATIENT_FOR * cluster.settings.reserve_after_s:
        return None
    return now + max(SHORTEST_S, ran)


def _earliest(
    draft: Draft, placer: Placer, progress: Progress, ends: Sequence[tuple[int, Task]]
) -> Hold | None:
    """Return the earliest reservation, by bisection over the number of tasks that have ended.

    None if the gang does not fit even after all of them.
    """
    low, high = 1, len(ends)
    hold = _hold_after(draft, placer, progress, ends) if ends else None
    while hold is not None and low < high:
        middle = (low + high) // 2
        earlier = _hold_after(draft, placer, progress, ends[:middle])
        if earlier is None:
            low = middle + 1
        else:
            hold, high = earlier, middle
    return hold


def _hold_after(
    draft: Draft, placer: Placer, progress: Progress, ends: Sequence[tuple[int, Task]]
) -> Hold | None:
    """Return the places that the gang gets after these ends; None if it does not fit."""
    mark = len(draft.binds)
    with draft.attempt():
        for _, task in ends:
            draft.release(task)
        # As if it ran for ever: it may not rely on places that another reservation claims later.
        gang = replace(progress.gang, duration_s=FOR_EVER_S)
        if not placer.place(gang, progress.parts, progress.nodes, {}):
            return None
        claims = draft.claims(mark)
    return Hold(progress.gang.id, claims, starts_at=ends[-1][0])
