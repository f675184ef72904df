"""The plain version of the filters: which task fits on which node.

It loops over everything, keeps nothing, and knows only the model, so that it is wrong only where
the model is. A snapshot is an `OracleCluster`. (Scores: `score.py`; shares and order:
`tests/support/oracle_*.py`.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

from windlass.model.constraints import (
    CORDON,
    HOSTNAME,
    Effect,
    PodTerm,
    Spread,
    matches,
    tolerates,
)
from windlass.model.gpu.mig import GEOMETRIES, Instance, legal_starts, milli_of_profile, profile_of
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, Slice, milli_of_memory
from windlass.model.jobs import OCCUPYING, Gang, Task, TaskState
from windlass.model.nodes import Node
from windlass.model.resources import Request


class OracleCluster(Protocol):
    """The nodes, gangs and tasks of a cluster."""

    @property
    def nodes(self) -> Sequence[Node]: ...
    @property
    def gangs(self) -> Sequence[Gang]: ...
    @property
    def tasks(self) -> Sequence[Task]: ...


def fits(world: OracleCluster, task: Task, node: Node) -> bool:
    """Return whether this task could start on this node now."""
    return (
        accepts(node, task)
        and has_room(world, node, task.shape.request)
        and any(True for _ in choices(world, node, task.shape.request.gpu))
        and is_near(world, task, node)
        and not is_repelled(world, task, node)
        and all(is_even(world, task, node, each) for each in task.shape.constraints.spread)
    )


def accepts(node: Node, task: Task) -> bool:
    """Return whether the node and the task accept each other, independent of other tasks."""
    is_open = node.is_open or (not node.is_troubled and CORDON in node.taints)
    reached = all(
        any(matches(term, labels_of(node)) for term in terms)
        for terms in task.shape.constraints.reach
    )
    return is_open and is_tolerated(node, task) and is_wanted(node, task) and reached


def is_tolerated(node: Node, task: Task) -> bool:
    """Return whether the task tolerates every hard taint of the node."""
    return all(
        tolerates(task.shape.constraints.tolerations, taint)
        for taint in node.taints
        if taint.effect != Effect.PREFER_NO_SCHEDULE
    )


def is_wanted(node: Node, task: Task) -> bool:
    """Return whether the node satisfies the task's selector and required affinity."""
    wants, labels = task.shape.constraints, labels_of(node)
    return all(labels.get(key) == value for key, value in wants.selector) and (
        not wants.affinity or any(matches(term, labels) for term in wants.affinity)
    )


def labels_of(node: Node) -> Mapping[str, str]:
    """Return a node's labels; every node has a hostname."""
    return {HOSTNAME: node.name} | dict(node.labels)


def has_room(world: OracleCluster, node: Node, request: Request) -> bool:
    """Return whether CPU, memory, a pod slot and every extra resource suffice, and every port is
    free."""
    asked, offered = amounts(request), allocatable(node)
    there = [task.shape.request for task in tenants(world, node)]
    taken = [amounts(each) for each in there]
    return all(
        amount == 0 or sum(t.get(name, 0) for t in taken) + amount <= offered.get(name, 0)
        for name, amount in asked.items()
    ) and not any(clash(request, each) for each in there)


def clash(one: Request, other: Request) -> bool:
    """Return whether two requests want the same port at the same address."""
    return any(
        (mine.number, mine.protocol) == (theirs.number, theirs.protocol)
        and (not mine.address or not theirs.address or mine.address == theirs.address)
        for mine in one.ports
        for theirs in other.ports
    )


def amounts(request: Request) -> dict[str, int]:
    """Return what a task takes of a node, apart from devices."""
    plain = {"cpu": request.cpu_milli, "memory": request.memory_mib, "pods": 1}
    return plain | dict(request.extra)


def allocatable(node: Node) -> dict[str, int]:
    """Return what a node offers, apart from devices."""
    plain = {"cpu": node.cpu_milli, "memory": node.memory_mib, "pods": node.pods}
    return plain | dict(node.extra)


def tenants(world: OracleCluster, node: Node) -> list[Task]:
    """Return the tasks that occupy a node."""
    return [each for each in world.tasks if each.state in OCCUPYING and each.node == node.name]


# --- devices --------------------------------------------------------------------------------------


def choices(
    world: OracleCluster, node: Node, request: GpuRequest | None
) -> Iterator[tuple[Slice, ...]]:
    """Yield every way to serve a request from a node's devices, given the running tasks."""
    taken = [given for task in tenants(world, node) for given in task.devices]
    if request is None:
        yield ()
    elif request.profile:
        yield from instances_of(node, taken, request, request.count)
    else:
        yield from shares(node, taken, request)


def shares(node: Node, taken: list[Slice], request: GpuRequest) -> Iterator[tuple[Slice, ...]]:
    """Yield every way to take the requested fractions, each of a device of its own."""
    usable = [
        Slice(i, milli_asked(gpu, request))
        for i, gpu in enumerate(node.gpus)
        if is_allowed(gpu, request)
        and not gpu.mig
        and free_milli(taken, i) >= milli_asked(gpu, request)
    ]
    yield from combinations(usable, request.count)


def instances_of(
    node: Node, taken: list[Slice], request: GpuRequest, count: int
) -> Iterator[tuple[Slice, ...]]:
    """Yield every way to place this many MIG instances."""
    if count == 0:
        yield ()
        return
    for i, gpu in enumerate(node.gpus):
        if not gpu.mig or not is_allowed(gpu, request):
            continue
        for start in legal_starts(gpu.model, instances(taken, i), request.profile):
            one = Slice(i, milli_of_profile(gpu.model, request.profile), request.profile, start)
            for others in instances_of(node, [*taken, one], request, count - 1):
                yield (one, *others)


def is_allowed(gpu: Gpu, request: GpuRequest) -> bool:
    """Return whether the device is healthy and of an acceptable model."""
    return gpu.healthy and (not request.models or gpu.model in request.models)


def milli_asked(gpu: Gpu, request: GpuRequest) -> int:
    """Return the milli-GPU of one such device that a request without MIG means."""
    if request.memory_mib:
        return milli_of_memory(request.memory_mib, gpu.memory_mib)
    return request.milli


def free_milli(taken: Sequence[Slice], device: int) -> int:
    """Return the free milli-GPU of a device without MIG."""
    return WHOLE - sum(each.milli for each in taken if each.device == device)


def instances(taken: Sequence[Slice], device: int) -> tuple[Instance, ...]:
    """Return the MIG instances on a device."""
    return tuple(Instance(each.start, each.profile) for each in taken if each.device == device)


def is_legal(gpu: Gpu, there: Sequence[Slice]) -> bool:
    """Return whether one device can carry all of these instances at once."""
    if not gpu.mig:
        return all(not each.profile for each in there) and sum(s.milli for s in there) <= WHOLE
    profiles = [profile_of(gpu.model, each.profile) for each in there]
    known = [each for each in profiles if each is not None]
    units = [
        u for s, p in zip(there, known, strict=False) for u in range(s.start, s.start + p.size)
    ]
    return (
        len(known) == len(there)
        and len(units) == len(set(units))
        and all(s.start in p.starts for s, p in zip(there, known, strict=True))
        and all(known.count(each) <= each.most for each in known)
        and sum(each.compute for each in known) <= GEOMETRIES[gpu.model].compute
        and sum(each.media for each in known) <= 1
    )


# --- other tasks ----------------------------------------------------------------------------------


def is_near(world: OracleCluster, task: Task, node: Node) -> bool:
    """Return whether each of the node's domains has a task that all terms match, or the task is the
    first of its group."""
    terms = task.shape.constraints.near
    keys = [term.topology_key for term in terms]
    if any(key not in labels_of(node) for key in keys):
        return False
    wanted = [t for t in world.tasks if all(is_meant(world, task, term, t) for term in terms)]
    there = {(key, label_of(world, each, key)) for each in wanted for key in keys}
    if all(domain is None for _, domain in there):
        return all(is_meant(world, task, term, task, waiting=True) for term in terms)
    return all((key, labels_of(node)[key]) in there for key in keys)


def is_repelled(world: OracleCluster, task: Task, node: Node) -> bool:
    """Return whether this task refuses one in the node's domain, or one there refuses this task."""
    return any(
        share_domain(world, node, each, term.topology_key)
        for each in world.tasks
        for one, other in ((task, each), (each, task))
        for term in one.shape.constraints.apart
        if each.state in OCCUPYING and is_meant(world, one, term, other, waiting=True)
    )


def is_even(world: OracleCluster, task: Task, node: Node, spread: Spread) -> bool:
    """Return whether the node's domain would stay within the skew of the emptiest eligible
    domain."""
    key = spread.topology_key
    if not spread.required:
        return True
    if key not in labels_of(node):
        return False
    there = [each for each in world.nodes if counts_for(each, task, spread)]
    counts = {labels_of(each)[key]: 0 for each in there}
    here = PodTerm(spread.selector, key)
    for each in there:
        counts[labels_of(each)[key]] += sum(
            is_meant(world, task, here, other) and other.state != TaskState.RELEASING
            for other in tenants(world, each)
        )
    least = min(counts.values(), default=0) if len(counts) >= spread.min_domains else 0
    itself = is_meant(world, task, here, task, waiting=True)
    return counts.get(labels_of(node)[key], 0) + itself - least <= spread.max_skew


def counts_for(node: Node, task: Task, spread: Spread) -> bool:
    """Return whether the node is one of those over which the task spreads."""
    keys = [each.topology_key for each in task.shape.constraints.spread if each.required]
    return (
        all(key in labels_of(node) for key in keys)
        and (not spread.heeds_affinity or is_wanted(node, task))
        and (not spread.heeds_taints or is_tolerated(node, task))
    )


def is_meant(
    world: OracleCluster, owner: Task, term: PodTerm, other: Task, waiting: bool = False
) -> bool:
    """Return whether a term of `owner` matches `other`, a task that occupies a node."""
    spaces = term.namespaces or (namespace_of(world, owner),)
    return (
        (waiting or other.state in OCCUPYING)
        and ("*" in spaces or namespace_of(world, other) in spaces)
        and matches(term.selector, dict(other.labels))
    )


def namespace_of(world: OracleCluster, task: Task) -> str:
    """Return the namespace of a task's gang."""
    return next(each.namespace for each in world.gangs if each.id == task.gang)


def share_domain(world: OracleCluster, node: Node, task: Task, key: str) -> bool:
    """Return whether a task runs in the node's domain."""
    domain = labels_of(node).get(key)
    return domain is not None and domain == label_of(world, task, key)


def label_of(world: OracleCluster, task: Task, key: str) -> str | None:
    """Return the label of a task's node; None if it has none."""
    found = [labels_of(each).get(key) for each in world.nodes if each.name == task.node]
    return found[0] if found else None
