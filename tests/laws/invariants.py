"""The laws of a cluster, checked from the outside: each answer lists what is broken, in sentences.

Every law speaks of the world after a plan, and of what the tasks bound by it have changed there;
what was wrong before (a limit lowered, a node shrunk) is not the plan's fault.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from windlass.model.gpu.resources import is_gpu, unit_on
from windlass.model.gpus import WHOLE, Gpu, Slice
from windlass.model.jobs import ACTIVE, OCCUPYING, Domain, Gang, Group, Task, TaskId, TaskState
from windlass.model.nodes import Node, Topology
from windlass.model.queues import CPU, GPU, MEMORY, Queue, guaranteed, of_model
from windlass_lab.oracle import fit


class World(fit.OracleCluster, Protocol):
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
        for name, amount in fit.amounts(task.shape.request).items():
            asked[name] += amount
    offered = fit.allocatable(node)
    for name in {name for t in new for name, n in fit.amounts(t.shape.request).items() if n}:
        if asked[name] > offered.get(name, 0):
            yield f"{node.name}: {asked[name]} of {offered.get(name, 0)} {name}"
    given = [each for task in tasks for each in task.devices]
    for device in {each.device for task in new for each in task.devices}:
        if not fit.is_legal(node.gpus[device], [s for s in given if s.device == device]):
            yield f"{node.name}: device {device} carries {given}"
    for task in new:
        others = (each for each in tasks if each is not task)
        if any(fit.clash(task.shape.request, each.shape.request) for each in others):
            yield f"{node.name}: {task.id} shares a port with another task"
        if not serves(node, task.shape.request.gpu, task.devices):
            yield f"{node.name}: {task.id} asked {task.shape.request.gpu}, got {task.devices}"


def serves(node: Node, request: fit.GpuRequest | None, given: Sequence[Slice]) -> bool:
    """Is this what was asked for, on devices that will do?"""
    if request is None:
        return not given
    cards = [node.gpus[each.device] for each in given]
    if len(given) != request.count or not all(fit.is_allowed(c, request) for c in cards):
        return False
    if request.profile:
        return all(each.profile == request.profile for each in given)
    return len({each.device for each in given}) == request.count and all(
        each.milli == fit.milli_asked(card, request)
        for each, card in zip(given, cards, strict=True)
    )


def unwelcome(world: World, bound: Collection[TaskId]) -> Iterator[str]:
    """New tasks on nodes that refuse them, too far from others, or too close."""
    nodes = {each.name: each for each in world.nodes}
    for task in world.tasks:
        if task.id not in bound:
            continue
        node = nodes[task.node]
        if not fit.accepts(node, task):
            yield f"{node.name} refuses {task.id}"
        if not fit.is_near(world, task, node):
            yield f"{task.id} on {node.name} is not near what it asked for"
        others = _Without(world, task)
        if fit.is_repelled(others, task, node):
            yield f"{task.id} on {node.name} is too close to another task"


class _Without:
    """A world without one task."""

    def __init__(self, world: fit.OracleCluster, task: Task) -> None:
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
    labels = next(fit.labels_of(each) for each in world.nodes if each.name == task.node)
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
    parts = [(name, amount, unit_on(node, name)) for name, amount in request.extra if is_gpu(name)]
    given = [(unit.model, amount * unit.milli) for _, amount, unit in parts]
    for each in task.devices if node else ():
        gpu = node.gpus[each.device] if node else Gpu("", 1)
        given.append((gpu.model, math.ceil(Fraction(each.milli * gpu.charged_milli, WHOLE))))
    for model, milli in given:
        sums[GPU] += milli
        sums[of_model(model)] = sums.get(of_model(model), 0) + milli
    return {name: amount for name, amount in sums.items() if amount}


def path(world: World, queue: str) -> list[str]:
    """A queue and all above it."""
    parents = {each.name: each.parent for each in world.queues}
    found: list[str] = []
    while queue in parents and queue not in found:
        found.append(queue)
        queue = parents[queue]
    return found
