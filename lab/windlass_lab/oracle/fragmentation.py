"""The plain version of fragmentation: the loss that a placement causes for the usual mix of
requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from windlass.model.gpu.mig import Instance, legal_starts, milli_of_profile, offered_by
from windlass.model.gpu.remainder_prices import remainder_values
from windlass.model.gpu.request_mix import SLACK, STEP, Counted, expected_requests, requested_shares
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, Slice, value_of_model
from windlass.model.nodes import Node
from windlass.model.resources import Request
from windlass.model.settings import Packing, Settings
from windlass_lab.oracle import fit

PER_STEP = 320
FINE = 1 << 16


class OracleRequest(Protocol):
    """A request and its weight in the mix."""

    @property
    def request(self) -> Request: ...
    @property
    def known(self) -> int: ...


class OracleNodes(fit.OracleCluster, Protocol):
    """The nodes, and the mix of requests."""

    @property
    def arrived(self) -> Sequence[OracleRequest]: ...


@dataclass(frozen=True)
class OracleMix:
    """The relevant requests, the value of the rest of a device to them, and all GPUs."""

    classes: Sequence[Counted]
    values: Sequence[int]
    gpus: frozenset[Gpu]

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return sum(count for _, count in self.classes)


@dataclass(frozen=True)
class OracleNode:
    """The taken part of a node's devices, and its free CPU and memory."""

    taken: tuple[Slice, ...]
    cpu_milli: int
    memory_mib: int


def mix_of(world: OracleNodes, settings: Settings) -> OracleMix | None:
    """Return the mix to use; None where there is none."""
    known = [(row.request, row.known) for row in world.arrived if row.known]
    classes = expected_requests(known, len(world.nodes))
    if settings.nodes != Packing.PACK or not any(request.gpu for request, _ in classes):
        return None
    gpus = frozenset(gpu for node in world.nodes for gpu in node.gpus)
    return OracleMix(classes, remainder_values(requested_shares(known)), gpus)


def cost(
    mix: OracleMix, node: Node, before: OracleNode, request: Request, given: Sequence[Slice]
) -> int:
    """Return the loss of a placement on these slices, and their value."""
    cpu, memory = before.cpu_milli - request.cpu_milli, before.memory_mib - request.memory_mib
    after = OracleNode((*before.taken, *given), cpu, memory)
    taken = _idle(node, before) - _idle(node, after)
    lost = usable(mix, node, before) - usable(mix, node, after) - mix.total * taken
    shares = [each for each in given if not each.profile]
    dear = sum(each.milli * value_of_model(*_model(node.gpus[each.device])) for each in shares)
    value = sum(_value(mix, before.taken, each) for each in shares if each.milli < WHOLE)
    return dear + PER_STEP * (-(-lost // (STEP * mix.total)) + value * 100 // WHOLE)


def usable(mix: OracleMix, node: Node, state: OracleNode) -> int:
    """Return the part of a node that the mix can use: the milli-GPU of each request, times its
    weight."""
    total = 0
    for request, count in mix.classes:
        cpu, memory = max(1, request.cpu_milli), max(1, request.memory_mib)
        if request.gpu and cpu <= state.cpu_milli and memory <= state.memory_mib:
            size = max((_size(gpu, request.gpu) for gpu in mix.gpus), default=0)
            by_cpu = state.cpu_milli * (SLACK * size * FINE // (2 * cpu)) // FINE
            by_memory = state.memory_mib * (SLACK * size * FINE // (2 * memory)) // FINE
            total += count * min(_by_devices(node, state.taken, request.gpu), by_cpu, by_memory)
    return total


def loss(mix: OracleMix, node: Node, taken: Sequence[Slice], one: Slice) -> int:
    """Return the loss that a fraction causes on its device."""
    gpu, lost = node.gpus[one.device], 0
    for request, count in mix.classes:
        if request.gpu:
            sets = (taken, [*taken, one])
            before, after = (_parts(gpu, each, one.device, request.gpu) for each in sets)
            lost += count * (before - after) * _part(gpu, request.gpu)
    return lost + mix.total * STEP * _value(mix, taken, one) * 100 // WHOLE


def _by_devices(node: Node, taken: Sequence[Slice], request: GpuRequest) -> int:
    """Return the milli-GPU that tasks with this request could take, if devices were all
    they need."""
    parts = [_parts(gpu, taken, i, request) for i, gpu in enumerate(node.gpus)]
    milli = sum(n * _part(gpu, request) for n, gpu in zip(parts, node.gpus, strict=True))
    return milli * (sum(parts) // request.count * request.count) // max(1, sum(parts))


def _parts(gpu: Gpu, taken: Sequence[Slice], device: int, request: GpuRequest) -> int:
    """Return how many fractions or instances fit on a device."""
    if not fit.is_allowed(gpu, request) or gpu.mig != bool(request.profile):
        return 0
    if request.profile:
        there = tuple(sorted(fit.instances(taken, device)))
        return most_instances(gpu.model, there, request.profile)
    return fit.free_milli(taken, device) // fit.milli_asked(gpu, request)


@cache
def most_instances(model: str, there: tuple[Instance, ...], profile: str) -> int:
    """Return how many instances of a profile fit beside those on a device, in any order."""
    starts = legal_starts(model, there, profile)
    more = [tuple(sorted((*there, Instance(start, profile)))) for start in starts]
    return max((1 + most_instances(model, each, profile) for each in more), default=0)


def _size(gpu: Gpu, request: GpuRequest) -> int:
    """Return the milli-GPU of a task on devices like this one, broken ones too."""
    mig = gpu.mig and gpu.healthy
    if request.models and gpu.model not in request.models:
        return 0
    if mig != bool(request.profile) or request.memory_mib > gpu.memory_mib:
        return 0
    return request.count * _part(gpu, request)


def _part(gpu: Gpu, request: GpuRequest) -> int:
    if request.profile:
        offered = request.profile in offered_by(gpu.model)
        return milli_of_profile(gpu.model, request.profile) if offered else 0
    return fit.milli_asked(gpu, request)


def _value(mix: OracleMix, taken: Sequence[Slice], one: Slice) -> int:
    free = fit.free_milli(taken, one.device)
    return mix.values[free] - mix.values[free - one.milli]


def _idle(node: Node, state: OracleNode) -> int:
    return sum(milli_left(gpu, state.taken, i) for i, gpu in enumerate(node.gpus))


def milli_left(gpu: Gpu, taken: Sequence[Slice], device: int) -> int:
    """Return the free milli-GPU of a device of any kind."""
    if gpu.mig and gpu.healthy:
        return max(0, fit.free_milli(taken, device))
    return fit.free_milli(taken, device) - (0 if gpu.healthy and not gpu.mig else WHOLE)


def _model(gpu: Gpu) -> tuple[str, int]:
    return gpu.model, gpu.memory_mib
