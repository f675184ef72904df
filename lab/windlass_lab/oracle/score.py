"""The plain version of scores: how well a task fits on a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from windlass.model.constraints import Effect, PodTerm, Spread, matches, tolerates
from windlass.model.gpu.mig import GEOMETRIES, legal_starts
from windlass.model.gpus import MOST_WORTH, GpuRequest, Slice, value_of_model
from windlass.model.jobs import Task, TaskState
from windlass.model.nodes import Node
from windlass.model.settings import Packing, Settings
from windlass_lab.oracle import fit, fragmentation
from windlass_lab.oracle.fragmentation import OracleMix, OracleNode, OracleNodes, milli_left, mix_of

MOST_POINTS = 100


def best(world: OracleNodes, task: Task, settings: Settings) -> Node | None:
    """Return the node for a task: fewest penalty points, then lowest cost, then by name; None if it
    fits nowhere."""
    fitting = [node for node in world.nodes if fit.fits(world, task, node)]
    return min(
        fitting,
        key=lambda node: (points(world, task, node), cost(world, task, node, settings), node.name),
        default=None,
    )


def points(world: OracleNodes, task: Task, node: Node) -> int:
    """Return the penalty points of a node: unmet preferences, soft taints, crowded domains."""
    wants, labels = task.shape.constraints, fit.labels_of(node)
    total = sum(each.weight for each in wants.preferences if not matches(each.term, labels))
    total += MOST_POINTS * sum(
        taint.effect == Effect.PREFER_NO_SCHEDULE and not tolerates(wants.tolerations, taint)
        for taint in node.taints
    )
    for wish in wants.pod_preferences:
        near = any(
            fit.share_domain(world, node, each, wish.term.topology_key)
            for each in world.tasks
            if fit.is_meant(world, task, wish.term, each)
        )
        total += abs(wish.weight) if near == (wish.weight < 0) else 0
    return total + sum(_crowd(world, task, node, s) for s in wants.spread if not s.required)


def _crowd(world: OracleNodes, task: Task, node: Node, spread: Spread) -> int:
    key, here = spread.topology_key, PodTerm(spread.selector, spread.topology_key)
    counts = {fit.labels_of(each)[key]: 0 for each in world.nodes if key in fit.labels_of(each)}
    for each in world.tasks:
        domain = fit.label_of(world, each, key)
        stays = each.state != TaskState.RELEASING
        if domain in counts and stays and fit.is_meant(world, task, here, each):
            counts[domain] += 1
    domain = fit.labels_of(node).get(key)
    return MOST_POINTS if domain is None else min(counts[domain] - min(counts.values()), 100)


def cost(world: OracleNodes, task: Task, node: Node, settings: Settings) -> int:
    """Return the fragmentation cost for the expected request mix, else the leftover capacity."""
    request, there = task.shape.request, fit.tenants(world, node)
    taken = tuple(given for each in there for given in each.devices)
    cpu = node.cpu_milli - sum(each.shape.request.cpu_milli for each in there)
    memory = node.memory_mib - sum(each.shape.request.memory_mib for each in there)
    state, mix = OracleNode(taken, cpu, memory), mix_of(world, settings)
    given = chosen(node, taken, request.gpu, settings.gpus, mix)
    if mix is not None:
        return fragmentation.cost(mix, node, state, request, given)
    return left_over(task, node, state, given, settings)


def left_over(
    task: Task, node: Node, state: OracleNode, given: Sequence[Slice], settings: Settings
) -> int:
    """Return the leftover capacity when packing; spreading reverses it.

    GPU counts most, twice on devices that are partly used. Either way tasks avoid expensive models,
    and tasks without GPUs avoid free ones.
    """
    request, taken = task.shape.request, state.taken
    sign = 1 if settings.nodes == Packing.PACK else -1
    gpu_left = sum(milli_left(gpu, taken, i) for i, gpu in enumerate(node.gpus))
    cpu, memory = state.cpu_milli - request.cpu_milli, state.memory_mib - request.memory_mib
    other = sign * (cpu // 128 + memory // 1024)
    if request.gpu is None:
        return other + 4 * gpu_left
    if request.gpu.profile:
        return other + sign * 4 * gpu_left
    value = gap = 0
    for each in given:
        gpu = node.gpus[each.device]
        gpu_left -= each.milli
        gap += fit.free_milli(taken, each.device) - each.milli
        price = value_of_model(gpu.model, gpu.memory_mib)
        value += each.milli * (price if sign > 0 else price - MOST_WORTH)
    return other + value + sign * (4 * gpu_left + 8 * gap)


def chosen(
    node: Node,
    taken: Sequence[Slice],
    request: GpuRequest | None,
    packing: Packing,
    mix: OracleMix | None = None,
) -> list[Slice]:
    """Return the slices of a task: one device after the other, each time the best that is left."""
    given: list[Slice] = []
    for _ in range(request.count if request else 0):
        options = [
            (_badness(node, [*taken, *given], one, packing, request), one)
            for one in _options(node, taken, given, request)
        ]
        alone = request and request.count == 1 and not request.profile
        if mix and alone and packing == Packing.PACK:
            losses = [fragmentation.loss(mix, node, taken, one) for _, one in options]
            pairs = zip(options, losses, strict=True)
            options = [each for each, lost in pairs if lost == min(losses)]
        given.append(min(options)[1])
    return given


def _options(
    node: Node, taken: Sequence[Slice], given: list[Slice], request: GpuRequest | None
) -> Iterator[Slice]:
    assert request is not None
    if request.profile:
        yield from (one for (one,) in fit.instances_of(node, [*taken, *given], request, 1))
    else:
        one_device = replace(request, count=1)
        used = {each.device for each in given}
        yield from (s for (s,) in fit.shares(node, list(taken), one_device) if s.device not in used)


def _badness(
    node: Node, taken: list[Slice], one: Slice, packing: Packing, request: GpuRequest | None
) -> tuple[int, int, str, int]:
    """Return the sort key of a device: full ones first when packing; of MIG places the one that
    leaves most others open."""
    gpu, sign = node.gpus[one.device], 1 if packing == Packing.PACK else -1
    free = fit.free_milli(taken, one.device)
    if one.profile:
        there = fit.instances([*taken, one], one.device)
        places = sum(
            len(legal_starts(gpu.model, there, each.name)) * each.size
            for each in GEOMETRIES[gpu.model].profiles
        )
        return sign * (free - one.milli), -places, gpu.model, 0
    if request is not None and request.count > 1:
        return -(free // one.milli), value_of_model(gpu.model, gpu.memory_mib), gpu.model, free
    return sign * (free - one.milli), value_of_model(gpu.model, gpu.memory_mib), gpu.model, free
