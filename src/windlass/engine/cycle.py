"""One scheduling cycle: a cluster in, a plan out.

    shares       what each queue should have now
    eligible     the gangs that may start, and the reasons against all others
    allocate     gangs in queue order on free capacity, around holds and reservations; then the
                 growth for which places are held
    make room    gangs that found no room: on capacity that comes free, or by preemption
    grow         elastic tasks, one at a time, after every minimum had its chance; then room is
                 made for those that could not grow
    reserve      a place in the future for gangs that have waited too long
    explain      a decision for every gang that was considered, with numbers
    evict        a gang that can checkpoint is asked to before it is evicted; gangs of one owner
                 are evicted together

The order matters: preemption and growth see what was allocated before them, and the reasons
describe the cluster as this plan leaves it. The engine drafts on the cluster's own columns and
leaves them as it found them.
"""

from __future__ import annotations

from functools import partial

from windlass.engine.draft import Draft
from windlass.engine.explain import decide
from windlass.engine.placement import Placer, allocate, drop_broken, grow, reserve
from windlass.engine.plan import Plan
from windlass.engine.plan_cache import PlanCache, wake_at
from windlass.engine.preemption import (
    PreemptionResult,
    evict_gracefully,
    is_protection_outdated,
    make_room,
    sibling_evictions,
)
from windlass.engine.queueing import (
    Backlog,
    GangOrder,
    Limits,
    compute_shares,
    equivalent_heads,
    whole_backlog,
)
from windlass.state.cluster import Cluster


def plan(cluster: Cluster, backlog_of: Backlog = whole_backlog) -> Plan:
    """Return what to do now, and why every other gang has to wait.

    `backlog_of` chooses the gangs to consider; see `plan_without_reasons` for the other choice.
    """
    cache = cluster.recall(PlanCache)
    if cache.is_valid(backlog_of):
        return cache.plan

    limits = Limits(cluster)
    standing = compute_shares(cluster, limits)
    in_order = partial(GangOrder, cluster, standing, limits)
    backlog = backlog_of(cluster, limits)

    draft = Draft(cluster)
    placer = Placer(draft, limits)
    drop_broken(draft)
    first = allocate(draft, placer, in_order, backlog.considered)
    make_room_for = partial(make_room, draft, limits, standing)
    repaired = PreemptionResult(repaired=first.gangs.union(first.owed))
    room = make_room_for(in_order(first.waiting), repaired)
    grown, short = grow(draft, placer, in_order(room.may_grow(first.growing)), first.owed)
    if short:
        room = room.then(make_room_for(in_order(short), room.for_growth(first.gangs.union(grown))))
    reserve(draft, placer, first.waiting, {evict.task for evict in room.evictions})

    unserved = backlog.to_explain(first.waiting)
    decisions = decide(draft, limits, first.placed, grown, room, unserved)
    parted = evict_gracefully(draft, room.evictions)
    actions = (*draft.binds, *parted.actions)
    actions = (*actions, *sibling_evictions(cluster, actions))
    holds = tuple(draft.holds.standing.values())
    # Repeat protection was computed before this plan; its binds may invalidate it, so plan again.
    protection = (
        cluster.now + 1 if draft.binds and is_protection_outdated(limits, first.waiting) else None
    )
    draft.close()

    rest_of_backlog = backlog.continues_at(first.gangs | room.decided, cluster.now)
    by_time = (room.wake_at, parted.wake_at, rest_of_backlog, protection)
    wake = wake_at(cluster, (waiting.gang for waiting in first.waiting), holds, by_time)
    made = Plan(
        *(actions, decisions, holds, standing.shares, wake, room.failed_searches()),
        gave_way=room.yielded_holds(),
    )
    return cache.store(made, backlog_of)


def plan_without_reasons(cluster: Cluster) -> Plan:
    """Return what to do now, without decisions for the gangs that wait.

    Faster, for replays of long traces in which nobody reads reasons: of waiting gangs that differ
    in nothing but their age only as many are considered as could be served now.
    """
    return plan(cluster, equivalent_heads)
