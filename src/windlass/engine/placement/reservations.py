"""Reservations: after a long wait the head of a line is promised a place in the future.

Running work is taken away in the order of its expected ends until the gang fits; where it then
lies is claimed from that instant on. Until then others may use the places if they end in time.
Work of unknown length, or past its time, is expected to run once more as long as it has run; after
some hours it is taken for a service, for whose end nobody waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

from windlass.engine.draft.draft import Draft
from windlass.engine.placement.place import Placer
from windlass.engine.preemption.graceful_eviction import awaited
from windlass.engine.queueing.progress import Progress, Progresses
from windlass.engine.queueing.runtime_estimate import Estimates
from windlass.model.actions import Hold
from windlass.model.jobs import Task, TaskId
from windlass.state.cluster import Cluster

MOST_RESERVATIONS = 1
"""Each keeps room from work that may run too long; more than one served nobody sooner."""
MOST_RELEASES = 4096
_SHORTEST_S = 60
FOR_EVER_S = 1 << 40
PATIENT_FOR = 4
"""Work past its time is expected to end until it has run so many times the patience."""


def drop_broken(draft: Draft) -> None:
    """Drop holds that no longer make sense: the gang is gone, its nodes are, or it was in vain."""
    cluster = draft.cluster
    saving = awaited(cluster)
    for gang, hold in sorted(draft.holds.standing.items()):
        settings = cluster.settings
        patience = settings.stuck_after_s if hold.firm else settings.reserve_after_s
        late = cluster.now - hold.starts_at > patience and gang not in saving
        # a firm hold may wait for the successors of tasks that are on their way out
        broken = not hold.firm and _is_outdated(cluster, hold)
        lost = any(claim.node not in cluster.nodes for claim in hold.claims)
        if gang not in cluster.gangs or broken or lost or (hold.starts_at and late):
            draft.holds.drop(gang)


def _is_outdated(cluster: Cluster, hold: Hold) -> bool:
    """Does the gang lack others by now than those for whom places are reserved?"""
    found = cluster.recall(Progresses).of(hold.gang)
    if found is None:
        return True
    lacking = {task.id for part in found.parts for task in part.tasks}
    return lacking != {claim.task for claim in hold.claims}


def reserve(
    draft: Draft, placer: Placer, waiting: Sequence[Progress], leaving: Collection[TaskId]
) -> None:
    """Promise a place to those who have waited too long for room, in the order of the line.

    What is `leaving` is promised to others already.
    """
    cluster, holds = draft.cluster, draft.holds
    latest = cluster.now - cluster.settings.reserve_after_s
    room_for = MOST_RESERVATIONS - sum(not hold.firm for hold in holds.standing.values())
    if room_for <= 0 or all(each.gang.created_at > latest for each in waiting):
        return
    unserved = [each for each in waiting if each.gang.id not in holds.standing]
    patient = (each for each in _heads(placer, unserved) if each.gang.created_at <= latest)
    ends = [(end, task) for end, task in expected_ends(draft) if task.id not in leaving]
    for head in islice(patient, room_for):
        others = [(end, task) for end, task in ends if task.gang != head.gang.id]
        hold = _reserve(draft, placer, head, others)
        if hold is not None:
            holds.add(hold)


def _heads(placer: Placer, waiting: Sequence[Progress]) -> Iterator[Progress]:
    """Of each queue the gang that deserves it most, of those that lack nothing but room."""
    lines: dict[str, list[Progress]] = {}
    for each in waiting:
        lines.setdefault(each.gang.queue, []).append(each)
    for line in lines.values():
        head = next((each for each in sorted(line, key=_claim) if placer.may_fit(each)), None)
        if head is not None:
            yield head


def _claim(progress: Progress) -> tuple[bool, int, int, str]:
    """Those that lost members, then priority, then age."""
    gang = progress.gang
    return not progress.started, -gang.priority, gang.created_at, gang.id


def expected_ends(draft: Draft) -> list[tuple[int, Task]]:
    """Running tasks with the instants at which they are expected to end, soonest first."""
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
    now, started = cluster.now, task.started_at
    ran = 0 if started is None else now - started
    if duration is not None and ran < duration:
        return now - ran + duration
    if ran > PATIENT_FOR * cluster.settings.reserve_after_s:
        return None
    return now + max(_SHORTEST_S, ran)


def _reserve(
    draft: Draft, placer: Placer, progress: Progress, ends: Sequence[tuple[int, Task]]
) -> Hold | None:
    """The earliest place, by bisection over the number of tasks that have ended."""
    low, high = 1, len(ends)
    hold = _try(draft, placer, progress, ends) if ends else None
    while hold is not None and low < high:
        middle = (low + high) // 2
        earlier = _try(draft, placer, progress, ends[:middle])
        if earlier is None:
            low = middle + 1
        else:
            hold, high = earlier, middle
    return hold


def _try(
    draft: Draft, placer: Placer, progress: Progress, ends: Sequence[tuple[int, Task]]
) -> Hold | None:
    mark = len(draft.binds)
    with draft.attempt():
        for _, task in ends:
            draft.release(task)
        # as if it ran for ever: another's reservation is not to be counted on
        gang = replace(progress.gang, duration_s=FOR_EVER_S)
        if not placer.place(gang, progress.parts, progress.nodes, {}):
            return None
        claims = draft.claims(mark)
    return Hold(progress.gang.id, claims, starts_at=ends[-1][0])
