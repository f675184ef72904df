"""One cycle: divide, place, grow, promise, explain.

    shares      what each queue should have now
    pass one    gangs in order, on free capacity, around holds and reservations; then growth for
                which places are held
    pass two    gangs that found no room: on what comes free, or by displacing others
    growth      elastic tasks, one at a time, once every minimum had its chance; then pass two
                for those that could not grow
    promises    reservations for those who have waited too long
    reasons     a decision for every gang that was looked at, with numbers

The engine drafts on the cluster's own columns and leaves them as it found them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial

from windlass.engine.draft import Draft
from windlass.engine.explain import decide, in_line
from windlass.engine.grow import grow, held_growth, still_growing
from windlass.engine.limits import Limits
from windlass.engine.order import Order
from windlass.engine.place import Placer
from windlass.engine.plan import Plan
from windlass.engine.progress import Progress
from windlass.engine.remember import Remembered, wake_at
from windlass.engine.reserve import drop_broken, reserve
from windlass.engine.second import Found, pass_two
from windlass.engine.shares import shares
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Searched


def plan(cluster: Cluster) -> Plan:
    """What to do now, and why everything else has to wait."""
    remembered = cluster.recall(Remembered)
    if remembered.still_holds():
        return remembered.plan

    limits = Limits(cluster)
    standing = shares(cluster, limits)
    ready, refused = in_line(cluster)

    draft = Draft(cluster)
    placer = Placer(draft, limits)
    drop_broken(draft)
    in_turn = partial(Order, cluster, standing, limits)
    placed, waiting = _pass_one(draft, placer, in_turn(_starting(ready)))
    started = {each.gang.id for each in placed}
    growing = _growing(ready, started)
    owed, _ = grow(draft, placer, in_turn(held_growth(draft, growing)))
    make_room = partial(pass_two, draft, limits, standing)
    room = make_room(in_turn(waiting), Found(repaired=frozenset(started | owed.keys())))
    may_grow = (each for each in still_growing(growing, owed) if room.may_grow(each))
    grown, short = grow(draft, placer, in_turn(may_grow), owed)
    if short:
        joined = frozenset(started | grown.keys())
        room = room.then(make_room(in_turn(short), replace(room, grows=True, repaired=joined)))
    reserve(draft, placer, waiting, {each.task for each in room.evictions})
    decisions = decide(draft, limits, placed, grown, room, [*waiting, *refused])
    actions = (*draft.binds, *room.evictions)
    holds = tuple(draft.holds.standing.values())
    draft.close()

    wake = wake_at(cluster, (each.gang for each in waiting), holds, room.wake_at)
    searched = tuple(Searched(gang, at) for gang, at in sorted(room.searched.items()))
    return remembered.keep(Plan(actions, decisions, holds, standing.shares, wake, searched))


def _pass_one(draft: Draft, placer: Placer, line: Order) -> tuple[list[Progress], list[Progress]]:
    """Place each gang in turn on what is free; those that do not fit wait, in order."""
    placed: list[Progress] = []
    waiting: list[Progress] = []
    while (gang := line.next()) is not None:
        if placer.start(gang):
            line.placed(gang)
            draft.holds.drop(gang.gang.id)
            placed.append(gang)
        else:
            waiting.append(gang)
    return placed, waiting


def _starting(ready: Iterable[Progress]) -> list[Progress]:
    """The gangs that lack part of their minimum."""
    return [each for each in ready if each.parts]


def _growing(ready: Iterable[Progress], started: Collection[GangId]) -> list[Progress]:
    """The gangs that have their minimum and may have more."""
    whole = [each for each in ready if not each.parts or each.gang.id in started]
    return [replace(each, parts=()) for each in whole if each.elastic]
