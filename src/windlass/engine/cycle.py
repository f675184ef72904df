"""One cycle: divide, place, make room, grow, promise, explain, part.

    shares      what each queue should have now
    pass one    gangs in order, on free capacity, around holds and reservations; then growth for
                which places are held
    pass two    gangs that found no room: on what comes free, or by displacing others
    growth      elastic tasks, one at a time, once every minimum had its chance; then pass two
                for those that could not grow
    promises    reservations for those who have waited too long
    reasons     a decision for every gang that was looked at, with numbers
    parting     who can save its work is asked before it is evicted; gangs of one owner go together

The engine drafts on the cluster's own columns and leaves them as it found them.
"""

from __future__ import annotations

from functools import partial

from windlass.engine.draft.draft import Draft
from windlass.engine.explain.reasons import decide
from windlass.engine.placement.allocate import pass_one
from windlass.engine.placement.elastic import grow
from windlass.engine.placement.place import Placer
from windlass.engine.placement.reservations import drop_broken, reserve
from windlass.engine.plan import Plan
from windlass.engine.plan_cache import PlanCache, wake_at
from windlass.engine.preemption.graceful_eviction import part, siblings_that_go
from windlass.engine.preemption.make_room import PreemptionResult
from windlass.engine.preemption.make_room import make_room as pass_two
from windlass.engine.preemption.repeat_protection import is_outdated
from windlass.engine.queueing.eligibility import in_line
from windlass.engine.queueing.equivalence import EquivalentHeads, heads
from windlass.engine.queueing.limits import Limits
from windlass.engine.queueing.order import GangOrder
from windlass.engine.queueing.shares import shares
from windlass.state.cluster import Cluster


def plan(cluster: Cluster, told: bool = True) -> Plan:
    """What to do now, and why everything else has to wait.

    Where nobody reads that, it need not be `told`: then only those are looked at who may be served.
    """
    remembered = cluster.recall(PlanCache)
    if remembered.still_holds(told):
        return remembered.plan

    limits = Limits(cluster)
    standing = shares(cluster, limits)
    in_turn = partial(GangOrder, cluster, standing, limits)
    ready, refused = in_line(cluster)
    front = EquivalentHeads(ready) if told else heads(cluster, limits, ready)

    draft = Draft(cluster)
    placer = Placer(draft, limits)
    drop_broken(draft)
    first = pass_one(draft, placer, in_turn, front.gangs)
    make_room = partial(pass_two, draft, limits, standing)
    room = make_room(
        in_turn(first.waiting), PreemptionResult(repaired=first.gangs.union(first.owed))
    )
    grown, short = grow(draft, placer, in_turn(room.may_grow(first.growing)), first.owed)
    if short:
        room = room.then(make_room(in_turn(short), room.for_growth(first.gangs.union(grown))))
    reserve(draft, placer, first.waiting, {each.task for each in room.evictions})

    left = [*first.waiting, *refused] if told else ()
    decisions = decide(draft, limits, first.placed, grown, room, left)
    parted = part(draft, room.evictions)
    actions = (*draft.binds, *parted.actions)
    actions = (*actions, *siblings_that_go(cluster, actions))
    holds = tuple(draft.holds.standing.values())
    # who is spared is asked before a plan: what this one binds may change the answer
    soon = cluster.now + 1 if draft.binds and is_outdated(limits, first.waiting) else None
    draft.close()

    again = front.again_at(first.gangs | room.decided, cluster.now)
    by_time = (room.wake_at, parted.wake_at, again, soon)
    wake = wake_at(cluster, (each.gang for each in first.waiting), holds, by_time)
    found = Plan(
        *(actions, decisions, holds, standing.shares, wake, room.in_vain()),
        gave_way=room.gave_way(),
    )
    return remembered.keep(found, told)
