"""Their queues as ours.

Their quota is our guarantee, their weight over quota our weight, their priority our tier. Unlimited
quota is a guarantee of everything. CPU and memory are named only where a queue has a quota or a
limit in them: otherwise all queues are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm

from windlass.engine.queueing import apportion
from windlass.model.gpus import WHOLE
from windlass.model.queues import CPU, GPU, MEMORY, ROOT, Queue
from windlass_lab.conformance import schema
from windlass_lab.conformance.schema import UNLIMITED

FINEST = 1000
"""The resolution of weights."""


def queues_of(
    queues: Sequence[schema.ForeignQueue], capacity: Mapping[str, int], memory_unit: int
) -> tuple[Queue, ...]:
    """Return the queues, in a cluster of this capacity whose memory is counted in this
    many bytes."""
    named = {GPU, *(each for queue in queues for each in _spoken_of(queue))}
    units = {GPU: Fraction(WHOLE), CPU: Fraction(1), MEMORY: Fraction(schema.MB, memory_unit)}
    weights = _weights(queues, has_gpus=capacity[GPU] > 0)
    found: list[Queue] = []
    for queue, weight in zip(queues, weights, strict=True):
        amounts = {name: each for name, each in _amounts(queue).items() if name in named}
        limit = {
            name: round(units[name] * Fraction(each.limit))
            for name, each in amounts.items()
            if each.limit != UNLIMITED
        }
        guarantee = {
            name: min(capacity[name], limit.get(name, capacity[name]))
            if each.quota == UNLIMITED
            else round(units[name] * Fraction(each.quota))
            for name, each in amounts.items()
        }
        above, tier = queue.parent or ROOT, queue.priority
        found.append(Queue(queue.name, above, guarantee, limit, weight=weight, tier=tier))
    stated = {
        (queue.name, name)
        for queue in queues
        for name, each in _amounts(queue).items()
        if name in named and each.quota != UNLIMITED
    }
    return tuple(_kept_by_parents({queue.name: queue for queue in found}, stated))


def _kept_by_parents(queues: dict[str, Queue], stated: set[tuple[str, str]]) -> Iterable[Queue]:
    """Yield the queues with guarantees cut to a part of the parent's guarantee, where they exceed
    it.

    Theirs limits a child by its parent at run time; ours refuses to guarantee more than there is.
    """
    below: dict[str, list[str]] = {}
    for queue in queues.values():
        below.setdefault(queue.parent, []).append(queue.name)
    pending = list(below.get(ROOT, ()))
    while pending:
        parent = pending.pop(0)
        children = below.get(parent, [])
        pending += children
        for dimension in sorted(dimension for name, dimension in stated if name == parent):
            promised = [queues[name].guarantee[dimension] for name in children]
            has = queues[parent].guarantee[dimension]
            if sum(promised) > has:
                parts = apportion(has, promised, children)
                for name, part in zip(children, parts, strict=True):
                    kept = {**queues[name].guarantee, dimension: part}
                    queues[name] = replace(queues[name], guarantee=kept)
    return queues.values()


def _amounts(queue: schema.ForeignQueue) -> dict[str, schema.ForeignAmounts]:
    return {GPU: queue.gpu, CPU: queue.cpu_milli, MEMORY: queue.memory_mb}


def _spoken_of(queue: schema.ForeignQueue) -> list[str]:
    return [
        name
        for name, each in _amounts(queue).items()
        if (each.quota, each.limit) != (UNLIMITED, UNLIMITED)
    ]


def _weights(queues: Sequence[schema.ForeignQueue], has_gpus: bool) -> list[int]:
    """Return one weight per queue, for all resources: that of GPUs, or of CPUs where there are no
    GPUs."""
    told = [(each.gpu if has_gpus else each.cpu_milli).over_quota_weight for each in queues]
    parts = [Fraction(1 if each < 0 else each).limit_denominator(FINEST) for each in told]
    scale = lcm(*(each.denominator for each in parts))
    return [int(each * scale) for each in parts]
