"""The laws of a cluster, checked from the outside: each answer lists what is broken, in sentences.

Every law speaks of the world after a plan, and of what the tasks bound by it have changed there;
what was wrong before (a limit lowered, a node shrunk) is not the plan's fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from windlass.engine.plan import Plan
from windlass.model.actions import Claim, Evict, Hold, Rule
from windlass.model.gpus import WHOLE, Slice
from windlass.model.jobs import (
    ACTIVE,
    OCCUPYING,
    Domain,
    Gang,
    GangId,
    Group,
    Task,
    TaskId,
    TaskState,
)
from windlass.model.nodes import Node
from windlass.model.queues import CPU, GPU, MEMORY, Queue, guaranteed, of_model
from windlass.model.settings import Displacing
from windlass.model.topology import Topology
from windlass.sim import oracle
from windlass.state.snapshot import Snapshot


class World(oracle.World, Protocol):
    """What the laws look at; a snapshot is one."""

    @property
    def queues(self) -> Sequence[Queue]: ...
    @property
    def topologies(self) -> Sequence[Topology]: ...


def broken_laws(world: World, bound: Collection[TaskId]) -> list[str]:
    """Everything wrong with a world in which these tasks were bound just now."""
    gangs = {each.gang for each in world.tasks if each.id in bound}
    touched = [each for each in world.gangs if each.id in gangs]
    return [
        *overcommitted(world, bound),
        *unwelcome(world, bound),
        *(found for gang in touched for found in torn(world, gang)),
        *(found for gang in touched for found in broken_domains(world, gang)),
        *above_limits(world, bound),
    ]


def overcommitted(world: World, bound: Collection[TaskId]) -> Iterator[str]:
    """Nodes with a new task that carry more than they have, resource by resource."""
    there: dict[str, list[Task]] = defaultdict(list)
    for task in world.tasks:
        if task.state in OCCUPYING:
            there[task.node].append(task)
    for node in world.nodes:
        new = [each for each in there[node.name] if each.id in bound]
        if new:
            yield from _too_much(node, there[node.name], new)


def _too_much(node: Node, tasks: Sequence[Task], new: Sequence[Task]) -> Iterator[str]:
    asked: dict[str, int] = defaultdict(int)
    for task in tasks:
        for name, amount in oracle.amounts(task.shape.request).items():
            asked[name] += amount
    offered = oracle.allocatable(node)
    for name in {name for t in new for name, n in oracle.amounts(t.shape.request).items() if n}:
        if asked[name] > offered.get(name, 0):
            yield f"{node.name}: {asked[name]} of {offered.get(name, 0)} {name}"
    given = [each for task in tasks for each in task.devices]
    for device in {each.device for task in new for each in task.devices}:
        if not oracle.is_legal(node.gpus[device], [s for s in given if s.device == device]):
            yield f"{node.name}: device {device} carries {given}"
    for task in new:
        if not serves(node, task.shape.request.gpu, task.devices):
            yield f"{node.name}: {task.id} asked {task.shape.request.gpu}, got {task.devices}"


def serves(node: Node, request: oracle.GpuRequest | None, given: Sequence[Slice]) -> bool:
    """Is this what was asked for, on devices that will do?"""
    if request is None:
        return not given
    cards = [node.gpus[each.device] for each in given]
    if len(given) != request.count or not all(oracle.is_allowed(c, request) for c in cards):
        return False
    if request.profile:
        return all(each.profile == request.profile for each in given)
    return len({each.device for each in given}) == request.count and all(
        each.milli == oracle.milli_asked(card, request)
        for each, card in zip(given, cards, strict=True)
    )


def unwelcome(world: World, bound: Collection[TaskId]) -> Iterator[str]:
    """New tasks on nodes that refuse them, too far from others, or too close."""
    nodes = {each.name: each for each in world.nodes}
    for task in world.tasks:
        if task.id not in bound:
            continue
        node = nodes[task.node]
        if not oracle.accepts(node, task):
            yield f"{node.name} refuses {task.id}"
        wants = task.shape.constraints
        if not all(oracle.is_near(world, task, node, term) for term in wants.near):
            yield f"{task.id} on {node.name} is not near what it asked for"
        others = _Without(world, task)
        if oracle.is_repelled(others, task, node):
            yield f"{task.id} on {node.name} is too close to another task"


class _Without:
    """A world without one task."""

    def __init__(self, world: oracle.World, task: Task) -> None:
        self.nodes, self.gangs = world.nodes, world.gangs
        self.tasks = [each for each in world.tasks if each.id != task.id]


def torn(world: World, gang: Gang) -> Iterator[str]:
    """A gang that got something, yet not all that it starts with."""
    members = [each for each in world.tasks if each.gang == gang.id]
    there = [each for each in members if each.state in {*ACTIVE, TaskState.SUCCEEDED}]
    for group in gang.groups:
        count = sum(each.group == group.name for each in there)
        if count < group.minimum:
            yield f"{gang.id}: {count} of {group.minimum} in group {group.name!r}"
    if len(there) < gang.needed():
        yield f"{gang.id}: {len(there)} of {gang.needed()}"


def broken_domains(world: World, gang: Gang) -> Iterator[str]:
    """Required domains over which a gang or one of its groups is spread."""
    wishes: list[tuple[Domain | None, Group | None]] = [(gang.domain, None)]
    wishes += [(group.domain, group) for group in gang.groups]
    for domain, group in wishes:
        if domain is None or not domain.required:
            continue
        members = [
            each
            for each in world.tasks
            if each.gang == gang.id
            and each.state in ACTIVE
            and (group is None or each.group == group.name)
        ]
        places = {_domain_of(world, domain, each) for each in members}
        if len(places) > 1 or None in places:
            yield f"{gang.id}: in {places}, not in one {domain.level}"


def _domain_of(world: World, domain: Domain, task: Task) -> tuple[str, ...] | None:
    """The labels that name a task's domain, from the widest level down."""
    levels = next((t.levels for t in world.topologies if t.name == domain.topology), ())
    if domain.level not in levels:
        return None
    labels = next(oracle.labels_of(each) for each in world.nodes if each.name == task.node)
    path = [labels.get(key) for key in levels[: levels.index(domain.level) + 1]]
    return None if None in path else tuple(str(each) for each in path)


def above_limits(world: World, bound: Collection[TaskId]) -> Iterator[str]:
    """Queues that a new task raised above a limit, or firm work above the guarantee."""
    gangs = {each.id: each for each in world.gangs}
    new = [each for each in world.tasks if each.id in bound]
    raised = {
        (n, d) for t in new for n in path(world, gangs[t.gang].queue) for d in charges(world, t)
    }
    firm = {
        (gangs[t.gang].queue, d)
        for t in new
        if not gangs[t.gang].preemptible
        for d in charges(world, t)
    }
    held, held_firm = holdings(world), holdings(world, firm=True)
    for queue in world.queues:
        for dimension, limit in queue.limit.items():
            has = held.get((queue.name, dimension), 0)
            if (queue.name, dimension) in raised and has > limit:
                yield f"queue {queue.name} has {has} of at most {limit} {dimension}"
        for dimension in {GPU, *queue.guarantee}:
            has = held_firm.get((queue.name, dimension), 0)
            if (queue.name, dimension) in firm and has > guaranteed(queue, dimension):
                yield f"queue {queue.name} has {has} {dimension} firmly, above its guarantee"


def holdings(world: World, firm: bool = False) -> Mapping[tuple[str, str], int]:
    """What every queue has, with all below it, per dimension."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    gangs = {each.id: each for each in world.gangs}
    for task in world.tasks:
        if task.state in OCCUPYING and not (firm and gangs[task.gang].preemptible):
            for name in path(world, gangs[task.gang].queue):
                for dimension, amount in charges(world, task).items():
                    sums[name, dimension] += amount
    return sums


def charges(world: World, task: Task) -> dict[str, int]:
    """What an occupying task adds to its queue."""
    request = task.shape.request
    sums: dict[str, int] = {CPU: request.cpu_milli, MEMORY: request.memory_mib, GPU: 0}
    node = next((each for each in world.nodes if each.name == task.node), None)
    for each in task.devices if node else ():
        dimension = of_model(node.gpus[each.device].model) if node else ""
        sums[GPU] += each.milli
        sums[dimension] = sums.get(dimension, 0) + each.milli
    return {name: amount for name, amount in sums.items() if amount}


def path(world: World, queue: str) -> list[str]:
    """A queue and all above it."""
    parents = {each.name: each.parent for each in world.queues}
    found: list[str] = []
    while queue in parents and queue not in found:
        found.append(queue)
        queue = parents[queue]
    return found


# --- displacing -----------------------------------------------------------------------------------

WAYS = {
    Rule.GUARANTEE: Displacing.RECLAIM,
    Rule.SHARE: Displacing.RECLAIM,
    Rule.PRIORITY: Displacing.PREEMPT,
    Rule.CONSOLIDATE: Displacing.CONSOLIDATE,
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
        if each.rule != Rule.STALE and each.gainer not in kept:
            yield f"{each.task} goes for {each.gainer!r}, for which nothing is kept"
        if each.moves_to and (each.task, each.moves_to) not in places:
            yield f"{each.task} moves to {each.moves_to}, where nothing is kept for it"
        if (each.rule == Rule.CONSOLIDATE) != bool(each.moves_to):
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
        if each.rule == Rule.STALE:
            continue
        task = tasks[each.task]
        gang = gangs[task.gang]
        if not gang.preemptible:
            yield f"{task.id} may not be preempted"
        if WAYS[each.rule] not in seen.settings.displacing:
            yield f"{task.id} goes by {each.rule}, which is switched off"
        ran = seen.now - (seen.now if task.started_at is None else task.started_at)
        rule = each.rule
        if rule == Rule.CONSOLIDATE and _could_be_lost(gang, gangs[each.gainer]):
            rule = Rule.PRIORITY
        if ran < protection(seen, gang.queue, rule):
            yield f"{task.id} goes by {rule} after {ran} s"


def _could_be_lost(loser: Gang, gainer: Gang) -> bool:
    """Might it have lost its place, so that to move instead is a kindness?"""
    return loser.queue != gainer.queue or loser.priority < gainer.priority


def protection(seen: Snapshot, queue: str, rule: Rule) -> int:
    """How long a task of a queue runs before it may be displaced by a rule."""
    queues = {each.name: each for each in seen.queues}
    said = [queues[name].min_run_s for name in path(seen, queue)]
    least = next((each for each in said if each is not None), seen.settings.min_run_s)
    return max(least, seen.settings.dwell_s) if rule in {Rule.SHARE, Rule.CONSOLIDATE} else least


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
    """Queues and gangs that lose something without the right that the plan names."""
    books = _Books(seen, plan)
    tasks, gangs = {each.id: each for each in seen.tasks}, {each.id: each for each in seen.gangs}
    for gainer in dict.fromkeys(each.gainer for each in plan.evictions if each.gainer):
        own = [each for each in plan.evictions if each.gainer == gainer]
        books.settle(gainer, own)
        lost: dict[GangId, list[Evict]] = {}
        for each in reversed([each for each in own if not each.moves_to]):
            lost.setdefault(tasks[each.task].gang, []).append(each)
        books.returned.clear()
        for name, evictions in lost.items():
            books.give_back(evictions)
            rule, claimant, loser = evictions[0].rule, gangs[gainer], gangs[name]
            if rule == Rule.PRIORITY:
                just = claimant.queue == loser.queue and claimant.priority > loser.priority
            else:
                just = claimant.queue != loser.queue and books.allows(rule, claimant, loser)
            if not just:
                yield f"{name} ({loser.queue}) goes by {rule} for {gainer} ({claimant.queue})"


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
            if each.rule == Rule.STALE:
                self._count(self.has, self._tasks[each.task], -1)
        for bind in plan.binds:
            task = self._tasks[bind.task]
            self._count(self.has, _placed(task, Claim(task.id, bind.node, bind.devices)), 1)
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

    def give_back(self, evictions: Sequence[Evict]) -> None:
        """As it was before these left."""
        for each in evictions:
            self._count(self.returned, self._tasks[each.task], 1)

    def allows(self, rule: Rule, claimant: Gang, loser: Gang) -> bool:
        """May one queue take from the other, as the rule says?"""
        mine, theirs = path(self._seen, claimant.queue), path(self._seen, loser.queue)
        gains = [each for each in reversed(mine) if each not in theirs]
        loses = [each for each in reversed(theirs) if each not in mine]
        return (
            self._stays_within(rule, gains)
            and bool(loses)
            and any(self._is_above(rule, gains[0], loses, each) for each in self.dimensions)
        )

    def _stays_within(self, rule: Rule, gains: Sequence[str]) -> bool:
        for each in self.dimensions & {GPU, CPU, MEMORY} & set(self._plan.shares[gains[0]]):
            lines = [_rounded(self._plan.shares[name][each], each) for name in gains]
            if rule == Rule.GUARANTEE:
                lines = [max(_rounded(self._promised(n, each), each), s) for n, s in zip(gains, lines)]
                lines[0] = self._promised(gains[0], each)
            if any(self.has[name, each] > line for name, line in zip(gains, lines, strict=True)):
                return False
        return bool(gains)

    def _is_above(self, rule: Rule, gains: str, loses: Sequence[str], dimension: str) -> bool:
        had = [self.has[name, dimension] + self.returned[name, dimension] for name in loses]
        if rule == Rule.GUARANTEE:
            return all(a > self._promised(name, dimension) for name, a in zip(loses, had))
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

    def _claim(self, gang: GangId, claims: Sequence[Claim]) -> None:
        first = next(each for each in self._seen.tasks if each.gang == gang)
        for claim in claims:
            task = self._tasks.get(claim.task, first)
            shape = replace(task.shape, request=claim.request)
            self._count(self.has, _placed(replace(task, shape=shape), claim), 1)

    def _count(self, sums: dict[tuple[str, str], int], task: Task, sign: int) -> None:
        for name in path(self._seen, self._gangs[task.gang].queue):
            for dimension, amount in charges(self._seen, task).items():
                sums[name, dimension] += sign * amount


def _placed(task: Task, claim: Claim) -> Task:
    return replace(task, node=claim.node, devices=claim.devices)


def _rounded(amount: int, dimension: str) -> int:
    """Whole GPUs; other things as they are."""
    return -(-amount // WHOLE) * WHOLE if dimension.startswith(GPU) else amount
