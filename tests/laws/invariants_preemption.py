"""The laws of displacing, checked from the outside: who goes, by which right, and for whom.

A plain reading of the rules from the snapshot and the plan alone; the engine's own judgement is not
asked. Each answer lists what is broken, in sentences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.laws.invariants import World, charges, holdings, path, torn
from windlass.engine.plan import Plan
from windlass.model.actions import WITHOUT_PREEMPTOR, Evict, EvictionRule, Hold, PlaceClaim
from windlass.model.gpus import WHOLE
from windlass.model.jobs import ACTIVE, Gang, GangId, Task, TaskState
from windlass.model.queues import CPU, GPU, MEMORY, guaranteed
from windlass.model.settings import Displacing
from windlass.state.snapshot import Snapshot

WAYS = {
    EvictionRule.GUARANTEE: Displacing.RECLAIM,
    EvictionRule.SHARE: Displacing.RECLAIM,
    EvictionRule.PRIORITY: Displacing.PREEMPT,
    EvictionRule.CONSOLIDATE: Displacing.CONSOLIDATE,
}


def broken_rights(seen: Snapshot, plan: Plan) -> list[str]:
    """Everything wrong with what a plan takes away, given the cluster that it was made for."""
    return [
        *for_nothing(plan),
        *torn_apart(seen, plan),
        *protected(seen, plan),
        *too_early(seen, plan),
        *(wronged(seen, plan) if _is_plain(seen, plan) else ()),
    ]


def for_nothing(plan: Plan) -> Iterator[str]:
    """Evictions without a gang for which the room is kept, and moves to places not kept."""
    kept = {hold.gang: hold for hold in plan.holds if hold.firm}
    places = {(claim.task, claim.node) for hold in kept.values() for claim in hold.claims}
    for each in plan.evictions:
        if each.rule not in WITHOUT_PREEMPTOR and each.gainer not in kept:
            yield f"{each.task} goes for {each.gainer!r}, for which nothing is kept"
        if each.moves_to and (each.task, each.moves_to) not in places:
            yield f"{each.task} moves to {each.moves_to}, where nothing is kept for it"
        if (each.rule == EvictionRule.CONSOLIDATE) != bool(each.moves_to):
            yield f"{each.task} goes by {each.rule} to {each.moves_to!r}"


def torn_apart(seen: Snapshot, plan: Plan) -> Iterator[str]:
    """Gangs that lose part of their minimum and keep the rest, or an elastic member out of turn."""
    gone = {each.task for each in plan.evictions}
    if len(gone) != len(plan.evictions):
        yield "a task is evicted twice"
    left = _Tasks(seen, [each for each in seen.tasks if each.id not in gone])
    gangs = {each.id: each for each in seen.gangs}
    for name in sorted({each.gang for each in seen.tasks if each.id in gone}):
        active = [each for each in seen.tasks if each.gang == name and each.state in ACTIVE]
        stays = [each for each in active if each.id not in gone]
        if stays and list(torn(left, gangs[name])) and not list(torn(seen, gangs[name])):
            yield f"{name} keeps {len(stays)} tasks, less than it needs"
        for task in stays:
            if any(_goes_before(each, task) for each in active if each.id in gone):
                yield f"{task.id} stays, though it joined after one like it that goes"


def _goes_before(one: Task, other: Task) -> bool:
    """Should the other have gone instead? Elsewhere its leaving might have helped nobody."""
    whole = all(each.milli == WHOLE for each in one.devices)
    alike = (one.group, one.node, one.shape) == (other.group, other.node, other.shape)
    return alike and whole and (len(one.id), one.id) < (len(other.id), other.id)


class _Tasks:
    """A world with other tasks."""

    def __init__(self, world: World, tasks: Sequence[Task]) -> None:
        self.nodes, self.gangs, self.tasks = world.nodes, world.gangs, tasks
        self.queues, self.topologies = world.queues, world.topologies


def protected(seen: Snapshot, plan: Plan) -> Iterator[str]:
    """Tasks that go though they may not be displaced, not yet, or not in this way."""
    tasks, gangs = {each.id: each for each in seen.tasks}, {each.id: each for each in seen.gangs}
    for each in plan.evictions:
        if each.rule in WITHOUT_PREEMPTOR:
            continue
        task = tasks[each.task]
        gang = gangs[task.gang]
        if not gang.preemptible:
            yield f"{task.id} may not be preempted"
        if WAYS[each.rule] not in seen.settings.displacing:
            yield f"{task.id} goes by {each.rule}, which is switched off"
        ran = seen.now - (seen.now if task.started_at is None else task.started_at)
        rule = each.rule
        if rule == EvictionRule.CONSOLIDATE and _could_be_lost(gang, gangs[each.gainer]):
            rule = EvictionRule.PRIORITY
        if ran < protection(seen, gang.queue, rule):
            yield f"{task.id} goes by {rule} after {ran} s"


def _could_be_lost(loser: Gang, gainer: Gang) -> bool:
    """Might it have lost its place, so that to move instead is a kindness?"""
    return loser.queue != gainer.queue or loser.priority < gainer.priority


def protection(seen: Snapshot, queue: str, rule: EvictionRule) -> int:
    """How long a task of a queue runs before it may be displaced by a rule."""
    queues = {each.name: each for each in seen.queues}
    said = [queues[name].min_run_s for name in path(seen, queue)]
    least = next((each for each in said if each is not None), seen.settings.min_run_s)
    return (
        max(least, seen.settings.dwell_s)
        if rule in {EvictionRule.SHARE, EvictionRule.CONSOLIDATE}
        else least
    )


def too_early(seen: Snapshot, plan: Plan) -> Iterator[str]:
    """Gangs for which others go before they have waited long enough."""
    gangs = {each.id: each for each in seen.gangs}
    for name in sorted({each.gainer for each in plan.evictions if each.gainer}):
        gang = gangs[name]
        if gang.displaces_after_s is None:
            yield f"{name} never displaces"
        elif seen.now < gang.created_at + gang.displaces_after_s:
            yield f"{name} displaces after {seen.now - gang.created_at} s"


def _is_plain(seen: Snapshot, plan: Plan) -> bool:
    """Can the order of what was decided be told from the plan: no growth, no room found by waiting?

    Rights depend on how queues stand in their turn; elsewhere the other laws have to do.
    """
    gangs, tasks = {e.id: e for e in seen.gangs}, {each.id: each for each in seen.tasks}
    there: dict[GangId, int] = defaultdict(int)
    for task in seen.tasks:
        there[task.gang] += task.state in {*ACTIVE, TaskState.SUCCEEDED}
    for bind in plan.binds:
        there[tasks[bind.task].gang] += 1
    bound = {tasks[each.task].gang for each in plan.binds}
    grew = any(there[name] > gangs[name].needed() for name in bound)
    decided = {each.gainer for each in plan.evictions}
    decided |= {tasks[each.task].gang for each in plan.evictions}
    found = any(hold.gang not in decided for hold in _new_holds(seen, plan))
    return not grew and not found


def _new_holds(seen: Snapshot, plan: Plan) -> list[Hold]:
    return [each for each in plan.holds if each.firm and each not in seen.holds]


def wronged(seen: Snapshot, plan: Plan) -> Iterator[str]:
    """Queues and gangs that lose something without the right that the plan names.

    There must be an order in which each goes by right. A plan lists what goes gang by gang, so it
    is sought here, from the last one back: whoever returns only makes its queue fuller.
    """
    books = _Books(seen, plan)
    tasks, gangs = {each.id: each for each in seen.tasks}, {each.id: each for each in seen.gangs}
    for gainer in dict.fromkeys(each.gainer for each in plan.evictions if each.gainer):
        own = [each for each in plan.evictions if each.gainer == gainer]
        books.settle(gainer, own)
        lost: dict[GangId, list[Evict]] = {}
        for each in reversed([each for each in own if not each.moves_to]):
            lost.setdefault(tasks[each.task].gang, []).append(each)
        books.returned.clear()
        while lost:
            just = [name for name in lost if books.is_just(gangs[gainer], gangs[name], lost[name])]
            if not just:
                break
            books.give_back(lost.pop(just[0]))
        for name, evictions in lost.items():
            told = f"{name} ({gangs[name].queue}) goes by {evictions[0].rule}"
            yield f"{told} for {gainer} ({gangs[gainer].queue})"


class _Books:
    """What every queue has, in the turn of each gang that gains."""

    def __init__(self, seen: Snapshot, plan: Plan) -> None:
        self._seen, self._plan = seen, plan
        self._tasks = {each.id: each for each in seen.tasks}
        self._gangs = {each.id: each for each in seen.gangs}
        self._kept = {hold.gang: hold for hold in _new_holds(seen, plan)}
        self.has: dict[tuple[str, str], int] = defaultdict(int, holdings(seen))
        self.returned: dict[tuple[str, str], int] = defaultdict(int)
        patience = seen.settings.stuck_after_s
        for task in seen.tasks:
            since = task.releasing_since
            stuck = since is not None and seen.now - since > patience
            if task.state == TaskState.RELEASING and not stuck:
                self._count(self.has, task, -1)
        for each in plan.evictions:
            if each.rule in WITHOUT_PREEMPTOR:
                self._count(self.has, self._tasks[each.task], -1)
        for bind in plan.binds:
            task = self._tasks[bind.task]
            self._count(self.has, _placed(task, PlaceClaim(task.id, bind.node, bind.devices)), 1)
        for hold in seen.holds:
            if hold.firm and hold in plan.holds:
                self._claim(hold.gang, hold.claims)

    def settle(self, gainer: GangId, evictions: Sequence[Evict]) -> None:
        """The gang has its places, those that lose are gone, and those that move have moved."""
        self.dimensions: set[str] = set()
        self._claim(gainer, self._kept[gainer].claims)
        for claim in self._kept[gainer].claims:
            task = _placed(self._tasks[claim.task], claim)
            self.dimensions |= set(charges(self._seen, task))
        for each in evictions:
            task = self._tasks[each.task]
            self._count(self.has, task, -1)
            if each.moves_to:
                some = self._kept[task.gang].claims
                self._claim(task.gang, [claim for claim in some if claim.task == task.id])

    def is_just(self, claimant: Gang, loser: Gang, evictions: Sequence[Evict]) -> bool:
        """May these tasks of a gang be the last that went, of those that have not returned yet?"""
        rule = evictions[0].rule
        if rule == EvictionRule.PRIORITY:
            return claimant.queue == loser.queue and claimant.priority > loser.priority
        self.give_back(evictions)
        goes = [self._tasks[each.task] for each in evictions]
        found = claimant.queue != loser.queue and self.allows(rule, claimant, loser, goes)
        self.give_back(evictions, -1)
        return found

    def give_back(self, evictions: Sequence[Evict], sign: int = 1) -> None:
        """As it was before these left (or, with sign -1, not any more)."""
        for each in evictions:
            self._count(self.returned, self._tasks[each.task], sign)

    def allows(self, rule: EvictionRule, claimant: Gang, loser: Gang, goes: Sequence[Task]) -> bool:
        """May one queue take these from the other, as the rule says?"""
        held = {each for task in goes for each in charges(self._seen, task)}
        mine, theirs = path(self._seen, claimant.queue), path(self._seen, loser.queue)
        gains = [each for each in reversed(mine) if each not in theirs]
        loses = [each for each in reversed(theirs) if each not in mine]
        is_lent = all(self._is_above(EvictionRule.GUARANTEE, "", loses, each) for each in held)
        return (
            self._stays_within(rule, gains)
            and bool(loses)
            and (is_lent or rule == EvictionRule.GUARANTEE)
            and any(self._is_above(rule, gains[0], loses, each) for each in self.dimensions & held)
        )

    def _stays_within(self, rule: EvictionRule, gains: Sequence[str]) -> bool:
        for each in self.dimensions & {GPU, CPU, MEMORY} & set(self._plan.shares[gains[0]]):
            lines = [_rounded(self._plan.shares[name][each], each) for name in gains]
            if rule == EvictionRule.GUARANTEE:
                lines = [_rounded(self._entitled(name, each), each) for name in gains]
                lines[0] = self._promised(gains[0], each)
            if any(self.has[name, each] > line for name, line in zip(gains, lines, strict=True)):
                return False
        return bool(gains)

    def _is_above(
        self, rule: EvictionRule, gains: str, loses: Sequence[str], dimension: str
    ) -> bool:
        had = [self.has[name, dimension] + self.returned[name, dimension] for name in loses]
        if rule == EvictionRule.GUARANTEE:
            due = [self._promised(name, dimension) for name in loses]
            return all(a > line for a, line in zip(had, due, strict=True))
        due = [self._entitled(name, dimension) for name in loses]
        full = self.has[gains, dimension] * due[0] < had[0] * self._entitled(gains, dimension)
        return full and all(a > line for a, line in zip(had, due, strict=True))

    def _entitled(self, queue: str, dimension: str) -> int:
        return max(self._promised(queue, dimension), self._plan.shares[queue].get(dimension, 0))

    def _promised(self, queue: str, dimension: str) -> int:
        """Its guarantee, or what it has promised to those below it."""
        own = next(each for each in self._seen.queues if each.name == queue)
        below = [each.name for each in self._seen.queues if each.parent == queue]
        return max(guaranteed(own, dimension), sum(self._promised(n, dimension) for n in below))

    def _claim(self, gang: GangId, claims: Sequence[PlaceClaim]) -> None:
        first = next(each for each in self._seen.tasks if each.gang == gang)
        for claim in claims:
            task = self._tasks.get(claim.task, first)
            shape = replace(task.shape, request=claim.request)
            self._count(self.has, _placed(replace(task, shape=shape), claim), 1)

    def _count(self, sums: dict[tuple[str, str], int], task: Task, sign: int) -> None:
        for name in path(self._seen, self._gangs[task.gang].queue):
            for dimension, amount in charges(self._seen, task).items():
                sums[name, dimension] += sign * amount


def _placed(task: Task, claim: PlaceClaim) -> Task:
    return replace(task, node=claim.node, devices=claim.devices)


def _rounded(amount: int, dimension: str) -> int:
    """Whole GPUs; other things as they are."""
    return -(-amount // WHOLE) * WHOLE if dimension.startswith(GPU) else amount
