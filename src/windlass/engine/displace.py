"""Making room for one gang: take away, place, put back what was not needed, judge, keep or undo.

    1   where the gang finds no room, the cheapest node is cleared of what may go, whole gangs
    2   what turns out not to be needed returns to its own place, the dearest first
    3   what is still away is placed elsewhere if possible: it moves
    4   what is then lost must be lost by right (`rights.py`), or nothing happens at all

Three ways are tried, the gentlest first: only moves; only what may be lost; both. Judged is the
outcome, not the way to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from windlass.engine import bounds
from windlass.engine.draft import Draft
from windlass.engine.emptied import Emptied
from windlass.engine.harm import RESTART_S
from windlass.engine.index import Class
from windlass.engine.limits import Limits
from windlass.engine.overlay import still_suits
from windlass.engine.place import Placer
from windlass.engine.pool import IMPOSSIBLE, Offer, Pool
from windlass.engine.progress import Part, Progress
from windlass.engine.rights import Case, Rights
from windlass.engine.score import NOWHERE
from windlass.engine.topology import Level, Topologies
from windlass.engine.units import Unit
from windlass.model.actions import Claim, Rule
from windlass.model.gpus import WHOLE
from windlass.model.jobs import Gang, GangId, Shape, Task
from windlass.model.queues import GPU
from windlass.model.settings import Victims
from windlass.state.columns import Ints

MOST_NODES = 16
"""Nodes tried for one task before giving up."""
MOST_MOVES = 32
"""Units that may be moved for one gang; more disturb too many."""
FAR_MORE = 2
"""Times the need of a gang: who would lose so much is left alone for a while."""

_NOTHING: dict[str, int] = {}


class Way(Enum):
    """How far a search may go."""

    MOVE = "move"
    TAKE = "take"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A gang has its places, and this is what it took."""

    progress: Progress
    claims: tuple[Claim, ...]
    lost: tuple[tuple[Unit, Rule], ...] = ()
    moved: tuple[tuple[Unit, tuple[Claim, ...]], ...] = ()


class Displacer:
    """Searches on a draft; keeps nothing between searches but the pool and its offers."""

    def __init__(self, draft: Draft, limits: Limits, rights: Rights) -> None:
        self._draft, self._limits, self._rights = draft, limits, rights
        self._pool: Pool | None = None
        self._placer = Placer(draft, limits)
        self._topologies = draft.cluster.recall(Topologies)
        self._emptied: Emptied | None = None
        self._gang: Gang | None = None
        self._way = Way.MOVE
        self._grows = False
        self._need: Mapping[str, int] = {}
        self._case: Case | None = None
        self.leaving: set[GangId] = set()
        """Gangs about which this cycle has decided: given back, displaced, or with places kept."""
        self.too_dear = False
        """Did the last search find a move that costs more than the wait has so far?"""

    @property
    def pool(self) -> Pool:
        """What can be displaced; laid out only when sums do not settle the question."""
        if self._pool is None:
            self._pool = Pool(self._draft.cluster, self._draft.index, self.leaving)
        return self._pool

    def protected_until(self) -> int | None:
        """The next instant at which something that is protected now is so no longer."""
        if self._pool is None:
            return None
        if self._pool.protected_until is None:
            now, rights = self._draft.cluster.now, self._rights
            instants = (
                rights.protected_until(unit.gang.queue, unit.started_at, rule)
                for unit in self._pool.units
                for rule in (Rule.PRIORITY, Rule.CONSOLIDATE)
            )
            self._pool.protected_until = min((at for at in instants if at > now), default=0)
        return self._pool.protected_until or None

    def search(self, progress: Progress, grows: bool) -> Outcome | None:
        """Room for what the gang lacks, by the gentlest way there is.

        Whoever only grows takes nothing from others but what they have grown by: all minimums come
        before anybody's growth.
        """
        gang, cluster = progress.gang, self._draft.cluster
        self._grows = grows
        self.too_dear = False
        self._gang, self._need = gang, self._limits.need(progress.counts)
        with self._draft.holds.lifted(gang):
            target = {
                (queue, dimension): cluster.allocated(queue, dimension) + more
                for queue in cluster.accounts.path(gang.queue)
                for dimension, more in self._need.items()
            }
            self._case = self._rights.case(gang.queue, self._need, lambda q, d: target[q, d])
            ways = list(self._ways())
        return self._try(progress, ways) if ways else None

    def _try(self, progress: Progress, ways: Sequence[Way]) -> Outcome | None:
        self._draft.begin()
        with self._draft.holds.lifted(progress.gang):
            for way in ways:
                self._way = way
                with self._draft.attempt() as keep:
                    outcome = self._attempt(progress)
                    if outcome is not None:
                        keep()
                        return outcome
        return None

    def _ways(self) -> Iterator[Way]:
        """The ways that are not ruled out by sums: what is free, and what may be lost at most."""
        need, free = self._need.get(GPU, 0), self._draft.columns.free_gpu()
        moves = self._rights.consolidates
        if moves and free >= need:
            yield Way.MOVE
        if self._may_lose(need - free):
            yield Way.TAKE
            if moves:
                yield Way.BOTH

    def _may_lose(self, enough: int) -> bool:
        """Do queues that may lose something hold enough that can be preempted?"""
        cluster, gang = self._draft.cluster, self._gang
        assert gang is not None
        firm, need = cluster.accounts.firm, self._need

        def least(name: str, dimension: str) -> int:
            # even if the claimant's own branch gave up all it can
            return firm.get(name, _NOTHING).get(dimension, 0) + need[dimension]

        case = self._rights.case(gang.queue, need, least)
        found = 0
        for name, loose in cluster.accounts.loose.items():
            if found >= enough:
                break
            if name == gang.queue:
                found += sum(milli for at, milli in loose.items() if at < gang.priority)
            elif case.against_now(name) is not None:
                found += sum(loose.values())
        return found >= enough

    def _attempt(self, progress: Progress) -> Outcome | None:
        gang, draft = progress.gang, self._draft
        mark = len(draft.binds)
        draft.evicted.clear()
        if not self._below_limits(gang):
            return None
        self._placer.maker = self
        try:
            placed = self._placer.place(gang, progress.parts, progress.nodes, dict(self._need))
        finally:
            self._placer.maker = None
        if not placed or not draft.evicted:
            return None
        if len(draft.evicted) > 1 and not self._spare(progress, mark):
            return None
        if not self._suits_still(gang, mark):
            return None
        claims = draft.claims(mark)
        moved = list(self._move_all())
        rights = self._judge(list(draft.evicted), {unit for unit, _ in moved})
        if rights is None or (not rights and not self._worth_it(gang, moved)):
            return None
        if self._is_hasty(gang, rights):
            return None
        return Outcome(progress, claims, tuple(rights), tuple(moved))

    def _suits_still(self, gang: Gang, mark: int) -> bool:
        """Are its tasks near what they seek, after what was taken away since they were placed?"""
        draft = self._draft
        tasks, slots = draft.cluster.tasks, draft.columns.slot
        return not draft.neighbours.tallies or all(
            still_suits(draft.neighbours, draft.index, tasks[bind.task], gang, slots[bind.node])
            for bind in draft.binds[mark:]
        )

    # -- taking away (the placer asks for room)

    def clear(self, task: Task, kind: Class, scope: Ints | None, over: Ints | None) -> int | None:
        """Take away what may go from the cheapest node until the task fits there."""
        offer = self._offer(kind)
        costs = offer.costs
        if over is not None:
            costs = np.where(over < NOWHERE, costs, IMPOSSIBLE)
        for slot in _cheapest(costs, scope):
            with self._draft.attempt() as keep:
                if self._clear(slot, offer, kind):
                    keep()
                    return slot
        return None

    def room(self, shape: Shape) -> Ints:
        """How many tasks would fit each node without anything that can be displaced."""
        if self._emptied is None:
            self._emptied = Emptied(self.pool)
        return self._emptied.room(shape)

    def cheapest(self, domains: list[int], level: Level, parts: Sequence[Part]) -> list[int]:
        """The domains, those first in which room costs least."""
        tasks = [task for part in parts for task in part.tasks]
        kind = self._draft.index.of(tasks[0].shape)
        costs = np.where(kind.key < NOWHERE, 0, self._offer(kind).costs >> 8)

        def cost(domain: int) -> int:
            return int(np.sort(costs[level.members[domain]])[: len(tasks)].sum())

        return sorted(domains, key=lambda domain: (cost(domain), domain))

    def _clear(self, slot: int, offer: Offer, kind: Class) -> bool:
        for unit in offer.victims(slot):
            if unit.gone or self._may_go(unit) is None:
                continue
            for each in unit.closure():
                self._draft.evict(each)
            if offer.lacks_gpu(slot):
                continue
            kind.sync()
            if kind.key[slot] < NOWHERE:
                return True
        return False

    def _below_limits(self, gang: Gang) -> bool:
        """Take from the gang's own branch of the tree until its queues may have what it needs."""
        need = dict(self._need)
        while (reason := self._limits.now(gang, need)) is not None:
            full = str(reason.values["queue"])
            paths = self._draft.cluster.accounts.path
            some = (u for u in self.pool.units if not u.gone and full in paths(u.gang.queue))
            victims = [unit for unit in some if self._may_go(unit) and unit.charges.get(GPU, 0)]
            if not victims:
                return False
            cheapest = min(victims, key=self._cost)
            for each in cheapest.closure():
                self._draft.evict(each)
        return True

    def _offer(self, kind: Class) -> Offer:
        assert self._gang is not None
        assert self._case is not None
        if self._way is Way.MOVE:
            return self.pool.offer(kind, self._way, (), self._may)
        pool, own = self.pool, self._gang.queue
        whose = (own, self._gang.priority) if own in pool.queues else None
        rules = self._case.rules(pool.queues)
        return pool.offer(kind, (self._way, self._grows, whose), rules, self._may)

    # -- permissions

    def _may_go(self, unit: Unit) -> bool | None:
        """The same as `_may`, but that no gang displaces members of its own."""
        assert self._gang is not None
        return None if unit.gang.id == self._gang.id else self._may(unit)

    def _may(self, unit: Unit) -> bool | None:
        """May it be lost (True), only moved (False), or not be touched (None)?"""
        if unit.gang.id in self.leaving:
            return None
        if self._way is not Way.MOVE and not (self._grows and unit.is_core):
            rule = self._rule(unit)
            if rule is not None and self._unprotected(unit, rule):
                return True
        if self._way is Way.TAKE or unit.is_torn or unit.gang.spared:
            return None
        return False if self._unprotected(unit, Rule.CONSOLIDATE) else None

    def _rule(self, unit: Unit) -> Rule | None:
        assert self._gang is not None
        if unit.gang.queue == self._gang.queue:
            return Rule.PRIORITY if self._rights.preempts(self._gang, unit.gang) else None
        assert self._case is not None
        return None if unit.gang.spared else self._case.against_now(unit.gang.queue)

    def _unprotected(self, unit: Unit, rule: Rule) -> bool:
        until = self._rights.protected_until(unit.gang.queue, unit.started_at, rule)
        return until <= self._draft.cluster.now

    # -- putting back, moving, judging

    def _spare(self, progress: Progress, mark: int) -> bool:
        """Return what the gang fits beside; then place it again."""
        draft = self._draft
        draft.unbind(mark)
        spare = draft.columns.free_gpu() - self._need.get(GPU, 0)
        away = sorted(draft.evicted, key=self._dearest)
        # twice: who may not return before others of its gang gets another chance after them
        for unit in (*away, *away):
            if not unit.gone or any(each.gone for each in unit.after):
                continue
            if unit.charges.get(GPU, 0) > spare:
                continue
            with draft.attempt() as keep:
                if draft.put_back(unit) and self._keeps_limits(unit) and self._fits(progress):
                    keep()
                    spare -= unit.charges.get(GPU, 0)
        return self._placer.place(progress.gang, progress.parts, progress.nodes, dict(self._need))

    def _fits(self, progress: Progress) -> bool:
        """Would the gang fit as things stand? Nothing is kept."""
        if bounds.not_now(self._draft.index, self._topologies, progress) is not None:
            return False
        if self._limits.now(progress.gang, dict(self._need)) is not None:
            return False
        with self._draft.attempt():
            return self._placer.place(
                progress.gang, progress.parts, progress.nodes, dict(self._need)
            )

    def _keeps_limits(self, unit: Unit) -> bool:
        return self._limits.kept(unit.gang, dict.fromkeys(unit.charges, 0))

    def _move_all(self) -> Iterator[tuple[Unit, tuple[Claim, ...]]]:
        """Another place for each evicted unit that finds one, for the dearest first."""
        if not self._rights.consolidates:
            return
        free = self._draft.columns.free_gpu()
        small = [unit for unit in self._draft.evicted if unit.charges.get(GPU, 0) <= free]
        failed: set[Hashable] = set()
        for unit in sorted(small, key=self._dearest):
            size, shapes = unit.charges.get(GPU, 0), tuple(task.shape for task in unit.tasks)
            alike = (unit.gang.queue, unit.gang.domain, unit.beside(), shapes)
            if size > free or alike in failed:
                continue
            claims = self._move(unit)
            if claims is None:
                failed.add(alike)
            else:
                free -= size
                yield unit, claims

    def _move(self, unit: Unit) -> tuple[Claim, ...] | None:
        draft, need = self._draft, dict(unit.charges)
        if unit.is_torn or unit.gang.spared or any(each.gone for each in unit.after):
            return None  # an elastic member does not return before those that joined earlier
        if self._limits.now(unit.gang, need) is not None:
            return None
        mark = len(draft.binds)
        if not self._placer.place(unit.gang, unit.parts(), unit.beside(), need):
            return None
        return draft.claims(mark)

    def _judge(self, evicted: Sequence[Unit], moved: set[Unit]) -> list[tuple[Unit, Rule]] | None:
        """The rule by which each lost unit goes; None if one goes by no rule."""
        assert self._gang is not None
        cluster = self._draft.cluster
        later: dict[tuple[str, str], int] = {}

        def before(queue: str, dimension: str) -> int:
            return cluster.allocated(queue, dimension) + later.get((queue, dimension), 0)

        case = self._rights.case(self._gang.queue, self._need, cluster.allocated)
        found: list[tuple[Unit, Rule]] = []
        for unit in reversed(evicted):
            if unit in moved:
                continue
            for queue in cluster.accounts.path(unit.gang.queue):
                for dimension, amount in unit.charges.items():
                    key = (queue, dimension)
                    later[key] = later.get(key, 0) + amount
            rule = Rule.PRIORITY if self._rights.preempts(self._gang, unit.gang) else None
            if rule is None and not unit.gang.spared:
                rule = case.against(unit.gang.queue, before)
            if rule is None or not self._unprotected(unit, rule):
                return None
            if self._grows and unit.is_core:
                return None
            found.append((unit, rule))
        if any(rule is Rule.PRIORITY for _, rule in found) and not self._rights.keeps_within(
            self._gang.queue, self._need, lambda queue, each: later.get((queue, each), 0)
        ):
            return None
        return found[::-1]

    def _worth_it(self, gang: Gang, moved: Sequence[tuple[Unit, object]]) -> bool:
        """Only moves: they must not cost more GPU time than the gang has lost by waiting.

        Nobody knows how long it would still wait; who moves as soon as both costs are equal never
        pays more than twice of what knowing it would have cost.
        """
        if len(moved) > MOST_MOVES:
            return False
        if self._draft.cluster.settings.victims is Victims.YOUNGEST:
            return True
        now, rate = self._draft.cluster.now, self._need.get(GPU, WHOLE)
        again = sum(unit.harm - RESTART_S * unit.charges.get(GPU, 0) for unit, _ in moved)
        self.too_dear = again > rate * (now - gang.created_at)
        return not self.too_dear

    def _is_hasty(self, gang: Gang, rights: Sequence[tuple[Unit, Rule]]) -> bool:
        """Would other queues lose far more than is needed, before it has waited for a gentler way?

        Most often something ends meanwhile. It waits only if that cannot cost more than the loss.
        """
        settings, now = self._draft.cluster.settings, self._draft.cluster.now
        lost = [unit for unit, rule in rights if rule is not Rule.PRIORITY]
        if settings.victims is Victims.YOUNGEST or len(lost) < len(rights):
            return False
        need = max(self._need.get(GPU, 0), 1)
        is_far_more = sum(unit.charges.get(GPU, 0) for unit in lost) >= FAR_MORE * need
        is_dear = sum(unit.harm for unit in lost) > need * settings.patience_s
        self.too_dear = is_far_more and is_dear and now - gang.created_at < settings.patience_s
        return self.too_dear

    def _cost(self, unit: Unit) -> int:
        return self.pool.cost(unit, lost=True)

    def _dearest(self, unit: Unit) -> tuple[bool, int, str]:
        """The dearest first; what may only move before what may be lost."""
        return bool(self._may(unit)), -self._cost(unit), unit.gang.id


def _cheapest(costs: Ints, scope: Ints | None) -> Iterator[int]:
    """The nodes in the order of their costs, a few of them."""
    some = costs if scope is None else costs[scope]
    if not some.size:
        return
    count = min(MOST_NODES, some.size)
    first = int(some.argmin())
    yield from _at(first, some, scope)
    for at in np.argsort(some, kind="stable")[:count].tolist():
        if at != first:
            yield from _at(at, some, scope)


def _at(at: int, some: Ints, scope: Ints | None) -> Iterator[int]:
    if some[at] < IMPOSSIBLE:
        yield at if scope is None else int(scope[at])
