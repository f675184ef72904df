"""The measurements taken while the clock moves: GPU time, per queue and over the whole cluster.

Tallies are milli-GPUs; added up over time they are milli-GPU-seconds. A GPU is

    useful      allocated to a task of a gang whose minimum runs, as much as was requested
    idle        allocated to a task that cannot work: it starts, it was evicted and terminates,
                or its gang is incomplete
    allocated   useful + idle + what was allocated beyond the request (a whole GPU for a half)
    stranded    free, but on a node that cannot take the workload's typical task

Everything is an integer and changes only through the simulation, so sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.model.gpu.mig import milli_of_profile
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, Slice, milli_of_memory
from windlass.model.nodes import Node
from windlass.model.queues import GPU
from windlass.sim.workload import Arrival


@dataclass(slots=True)
class QueueTally:
    """The GPUs of one queue, at present or summed over time."""

    allocated: int = 0
    useful: int = 0
    idle: int = 0
    share: int = 0
    lost: int = 0
    """Useful work that is repeated because of a failure; only in sums over time."""
    displaced: int = 0
    """Useful work that is repeated because of an eviction or a move; only in sums over time."""


@dataclass(slots=True)
class ClusterCapacity:
    """The GPUs of all nodes together, at present or summed over time."""

    capacity: int = 0
    free: int = 0
    stranded: int = 0


class Meter:
    """Sums up GPU time; the simulation reports every change to it."""

    def __init__(self, typical_gpus: int = 1) -> None:
        self.typical_gpus = typical_gpus
        self.present: dict[str, QueueTally] = {}
        self.past: dict[str, QueueTally] = {}
        self.ground = ClusterCapacity()
        self.past_ground = ClusterCapacity()
        self._free: dict[str, list[int]] = {}
        self._capacity: dict[str, int] = {}

    def pass_time(self, seconds: int) -> None:
        """Add the present tallies for this many seconds to the past."""
        for queue, now in self.present.items():
            past = self.past[queue]
            past.allocated += now.allocated * seconds
            past.useful += now.useful * seconds
            past.idle += now.idle * seconds
            past.share += now.share * seconds
        self.past_ground.capacity += self.ground.capacity * seconds
        self.past_ground.free += self.ground.free * seconds
        self.past_ground.stranded += self.ground.stranded * seconds

    def of(self, queue: str) -> QueueTally:
        """Return the present tally of a queue, to be changed in place."""
        if queue not in self.present:
            self.present[queue] = QueueTally()
            self.past[queue] = QueueTally()
        return self.present[queue]

    def lose(self, queue: str, milli_seconds: int, displaced: bool = False) -> None:
        """Move useful work that must be repeated to `displaced` or `lost`."""
        past = self.past[queue]
        past.useful -= milli_seconds
        if displaced:
            past.displaced += milli_seconds
        else:
            past.lost += milli_seconds

    def take_shares(self, shares: Mapping[str, Mapping[str, int]]) -> None:
        """Set the shares of the queues from a plan."""
        for queue, share in shares.items():
            self.of(queue).share = share.get(GPU, 0)

    def node_seen(self, node: Node, given: Iterable[Slice] = ()) -> None:
        """Add or update a node; `given` are the device slices that tasks hold on it."""
        self.node_gone(node.name)
        self._free[node.name] = [WHOLE if gpu.healthy else 0 for gpu in node.gpus]
        self._capacity[node.name] = sum(self._free[node.name])
        self.ground.capacity += self._capacity[node.name]
        self._count(node.name, 1)
        self.take(node.name, given)

    def node_gone(self, name: str) -> None:
        """Remove a node; nothing on it is held any more."""
        if name in self._free:
            self._count(name, -1)
            self.ground.capacity -= self._capacity.pop(name)
            del self._free[name]

    def take(self, node: str, slices: Iterable[Slice], sign: int = 1) -> None:
        """Allocate device slices of a node to a task, or return them with sign -1."""
        free = self._free[node]
        self._count(node, -1)
        for each in slices:
            if each.device < len(free):  # a changed node may have lost the device
                free[each.device] -= sign * each.milli
        self._count(node, 1)

    def _count(self, node: str, sign: int) -> None:
        free = self._free[node]
        total = sum(max(0, each) for each in free)  # below zero: given, and broken since
        self.ground.free += sign * total
        if sum(each >= WHOLE for each in free) < self.typical_gpus:
            self.ground.stranded += sign * total


def worth(request: GpuRequest | None, node: Node, slices: Iterable[Slice]) -> int:
    """Return what a task requested, in milli-GPU of the devices it was given."""
    return sum(asked(request, node.gpus[each.device]) for each in slices) if request else 0


def asked(request: GpuRequest, gpu: Gpu) -> int:
    """Return the meaning of a request on this kind of GPU, in milli-GPU per device."""
    if request.profile:
        return milli_of_profile(gpu.model, request.profile)
    if request.memory_mib:
        return milli_of_memory(request.memory_mib, gpu.memory_mib)
    return request.milli


def requested(request: GpuRequest | None, cards: Iterable[Gpu]) -> int:
    """Return the total request of a task, in milli-GPU of the first kind of GPU that suits it."""
    if request is None:
        return 0
    for card in cards:
        if card.mig == bool(request.profile) and (
            not request.models or card.model in request.models
        ):
            return request.count * asked(request, card)
    return 0


def typical_gpus(arrivals: Iterable[Arrival]) -> int:
    """Return the number of whole GPUs of the task size with the most GPU time; 1 if no task
    requests whole GPUs."""
    weights: dict[int, int] = {}
    for arrival in arrivals:
        for task in arrival.tasks:
            gpu = task.shape.request.gpu
            if gpu and not gpu.profile and not gpu.memory_mib and gpu.milli == WHOLE:
                weight = gpu.count * (arrival.runs_s or 1)
                weights[gpu.count] = weights.get(gpu.count, 0) + weight
    return max(weights, key=lambda count: (weights[count], count), default=1)
