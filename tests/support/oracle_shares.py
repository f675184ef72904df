"""The obvious version of shares: exact fractions, poured and poured again until nothing is left.

Like `oracle.py` it knows nothing but the model. `shares` walks the tree, `divide` does one level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.laws.invariants import World, holdings, path
from tests.support.oracle_order import Past, promised
from windlass.model.gpu.mig import milli_of_profile, offered_by
from windlass.model.gpu.resources import is_gpu, unit_on
from windlass.model.gpus import WHOLE, Gpu, GpuRequest
from windlass.model.jobs import TaskState
from windlass.model.queues import CPU, GPU, MEMORY, ROOT, Queue, of_model
from windlass.model.resources import Request
from windlass_lab.oracle import fit


def shares(world: Past, dimension: str) -> dict[str, int]:
    """What every queue should have of a dimension."""
    found: dict[str, int] = {}

    def descend(parent: str, amount: int) -> None:
        below = [each for each in world.queues if each.parent == parent]
        claims = [_claim(world, each, dimension) for each in below]
        for name, share in divide(amount, claims, world.settings.usage_effect).items():
            found[name] = share
            descend(name, share)

    descend(ROOT, capacity(world, dimension))
    return found


def capacity(world: World, dimension: str) -> int:
    """What nodes that take tasks offer of a dimension."""
    nodes = [each for each in world.nodes if each.is_open]
    if dimension in (CPU, MEMORY):
        return sum(fit.allocatable(each)[dimension] for each in nodes)
    offered = [(gpu.model, gpu.charged_milli) for n in nodes for gpu in n.gpus if gpu.healthy]
    for each in nodes:
        units = [
            (unit_on(each, name), amount) for name, amount in each.extra.items() if is_gpu(name)
        ]
        offered += [(unit.model, amount * unit.milli) for unit, amount in units]
    return sum(milli for model, milli in offered if dimension in (GPU, of_model(model)))


def demand(world: World, queue: Queue, dimension: str) -> int:
    """What a queue has and waits for; of the queues below it no more than their limits."""
    below = [each for each in world.queues if each.parent == queue.name]
    if below:
        return sum(min(demand(world, q, dimension), q.limit.get(dimension, 1 << 60)) for q in below)
    gangs = {each.id for each in world.gangs if each.queue == queue.name}
    waiting = [t for t in world.tasks if t.gang in gangs and t.state == TaskState.WAITING]
    wanted = sum(least(world, each.shape.request).get(dimension, 0) for each in waiting)
    return holdings(world).get((queue.name, dimension), 0) + wanted


def least(world: World, request: Request) -> dict[str, int]:
    """The least a task can add to its queue, on whatever devices there are."""
    needs = {CPU: request.cpu_milli, MEMORY: request.memory_mib}
    if request.gpu is not None:
        gpus = [gpu for each in world.nodes for gpu in each.gpus]
        on = [(gpu.model, milli) for gpu in gpus if (milli := _milli_on(gpu, request.gpu))]
        _add_least(needs, on)
    for name, amount in request.extra:
        if is_gpu(name):
            there = [unit_on(each, name) for each in world.nodes if each.extra.get(name)]
            units = there or [unit_on(None, name)]
            _add_least(needs, [(unit.model, amount * unit.milli) for unit in units])
    return needs


def _add_least(needs: dict[str, int], on: Sequence[tuple[str, int]]) -> None:
    """Add the least of what a request takes on different GPUs, of a model if all are of one."""
    least, models = min((milli for _, milli in on), default=0), {model for model, _ in on}
    for dimension in (GPU, *(of_model(model) for model in models if len(models) == 1)):
        needs[dimension] = needs.get(dimension, 0) + least


def _milli_on(gpu: Gpu, request: GpuRequest) -> int:
    """What a request takes of devices like this one; nothing if they cannot serve it."""
    if not fit.is_allowed(gpu, request) or gpu.mig != bool(request.profile):
        return 0
    if request.profile:
        offered = request.profile in offered_by(gpu.model)
        return request.count * milli_of_profile(gpu.model, request.profile) if offered else 0
    milli = fit.milli_asked(gpu, request)
    one = math.ceil(Fraction(milli * gpu.charged_milli, WHOLE))
    return request.count * one if milli <= WHOLE else 0


def _claim(world: Past, queue: Queue, dimension: str) -> Claim:
    used = [each for each in world.epoch_usage if queue.name in path(world, each.queue)]
    return Claim(
        queue.name,
        demand(world, queue, dimension),
        promised(world, queue, dimension),
        queue.limit.get(dimension),
        queue.lend.get(dimension),
        queue.weight,
        queue.tier,
        sum(each.milli_seconds for each in used),
    )


@dataclass(frozen=True)
class Claim:
    """One of several queues among which an amount is divided."""

    name: str
    demand: int
    guarantee: int = 0
    limit: int | None = None
    lend: int | None = None
    weight: int = 1
    tier: int = 0
    usage: int = 0

    def want(self) -> int:
        """What it could use."""
        return self.demand if self.limit is None else min(self.demand, self.limit)

    def floor(self) -> int:
        """What it gets before anybody else gets more."""
        return min(self.guarantee, self.want())

    def withheld(self) -> int:
        """The idle guarantee that it does not lend."""
        idle = self.guarantee - self.floor()
        return 0 if self.lend is None else max(0, idle - self.lend)


def divide(amount: int, claims: Sequence[Claim], usage_effect: int = 0) -> dict[str, int]:
    """Floors first, all in proportion if there is too little; then the surplus, tier by tier."""
    floors = {each.name: Fraction(each.floor()) for each in claims}
    if sum(floors.values()) > amount:
        scale = Fraction(amount) / sum(floors.values())
        return _rounded({name: floor * scale for name, floor in floors.items()})
    surplus = Fraction(amount - sum(each.floor() + each.withheld() for each in claims))
    given = {name: int(floor) for name, floor in floors.items()}
    for tier in sorted({each.tier for each in claims}, reverse=True):
        room = {c.name: c.want() - c.floor() for c in claims if c.tier == tier}
        weights = _bent([c for c in claims if room.get(c.name, 0) > 0], usage_effect)
        extra = _rounded(_poured(max(Fraction(0), surplus), room, weights))
        surplus -= sum(extra.values())
        given |= {name: given[name] + part for name, part in extra.items()}
    return given


def _poured(
    amount: Fraction, room: Mapping[str, int], weights: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """Pour by weight; whoever is full drops out and the rest is poured again."""
    open_ = {name for name, weight in weights.items() if weight > 0}
    full: dict[str, Fraction] = {}
    while open_:
        left, heavy = amount - sum(full.values()), sum(weights[name] for name in open_)
        level = {name: left * weights[name] / heavy for name in open_}
        over = {name for name in open_ if level[name] >= room[name]}
        if not over:
            return full | level
        full |= {name: Fraction(room[name]) for name in over}
        open_ -= over
    return full


def _bent(claims: Sequence[Claim], usage_effect: int) -> dict[str, Fraction]:
    """Weights, less for who had more than its due part lately, never below an eighth."""
    used, heavy = sum(each.usage for each in claims), sum(each.weight for each in claims)
    if not used:
        return {each.name: Fraction(each.weight) for each in claims}
    bent: dict[str, Fraction] = {}
    for each in claims:
        had = Fraction(each.usage, used) / Fraction(each.weight, heavy) if each.weight else 0
        factor = 1 + Fraction(usage_effect, 1000) * (1 - had)
        bent[each.name] = each.weight * max(Fraction(1, 8), factor)
    return bent


def _rounded(parts: Mapping[str, Fraction]) -> dict[str, int]:
    """Integers with the same sum, as far as it is whole; the largest remainders round up."""
    down = {name: int(part) for name, part in parts.items()}
    missing = int(sum(parts.values(), Fraction(0))) - sum(down.values())
    order = sorted(parts, key=lambda name: (down[name] - parts[name], name))
    return down | {name: down[name] + 1 for name in order[:missing]}
