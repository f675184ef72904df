"""FGD, the method of the paper (Weng et al., USENIX ATC'23), to compare with.

The fragmentation of a node is the idle GPU that the typical pod cannot use, over the most frequent
pods; a pod goes where it grows least, in a hundred steps of a sigmoid; ties by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from windlass.engine.nodes import Condition, Conditions, DeviceChange
from windlass.model.gpus import WHOLE
from windlass.model.resources import Request
from windlass.sim.traces import TracePod
from windlass.state.device_states import Device, DeviceKind
from windlass.state.node_columns import CPU, Ints, NodeTable

COVERED = 95
STEPS = 100
FINE = 10_000

Floats = NDArray[np.float64]


def typical(pods: Sequence[TracePod]) -> list[tuple[Request, int]]:
    """Return the most frequent requests without memory that cover 95 of 100 pods, with their
    counts."""
    counts: dict[Request, int] = {}
    for pod in pods:
        plain = Request(pod.request.cpu_milli, 0, pod.request.gpu)
        counts[plain] = counts.get(plain, 0) + 1
    found: list[tuple[Request, int]] = []
    covered = 0
    for request in sorted(counts, key=lambda each: (-counts[each], repr(each))):
        if covered * 100 >= COVERED * len(pods):
            break
        found.append((request, counts[request]))
        covered += counts[request]
    return found


class Fgd:
    """The placement scorer of FGD."""

    def __init__(self, classes: Sequence[tuple[Request, int]], columns: NodeTable) -> None:
        self._states = columns.states
        total = sum(count for _, count in classes)
        asking = [(each.cpu_milli, each.gpu, count) for each, count in classes if each.gpu]
        self._classes = [gpu for _, gpu, _ in asking]
        self._cpu: Ints = np.array([cpu for cpu, _, _ in asking], np.int64)
        self._part: Floats = np.array([count / total for _, _, count in asking], np.float64)
        self._filled = 0
        self._table: Ints = np.zeros((0, len(asking)), np.int64)

    def fragmented(self, columns: NodeTable) -> float:
        """Return the milli-GPU on all nodes that the typical pod cannot use."""
        free = columns.free
        nodes = Conditions(columns.device_number, free[CPU], free[CPU])
        return columns.free_gpu() - float(self._usable(nodes).sum())

    def loss(self, before: Device, after: Device) -> int:
        """Return the growth of fragmentation on the device alone."""
        rests = [self._on_device(each) @ self._part for each in (before, after)]
        return round(FINE * float(rests[0] - rests[1]))

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """Return 0: only nodes are scored."""
        return 0

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Return up to a hundred steps, fewer where fragmentation shrinks."""
        shrinks = taken + self._usable(after) - self._usable(before)
        return -np.floor(STEPS / (1 + np.exp(-shrinks / WHOLE))).astype(np.int64)

    def cost(self, before: Condition, after: Condition, taken: int) -> int:
        """Return `costs` for one node."""
        one = [Conditions(*(np.array([each]) for each in node)) for node in (before, after)]
        return int(self.costs(one[0], one[1], np.array([taken]))[0])

    def _usable(self, nodes: Conditions) -> Floats:
        self._grow()
        enough = nodes.cpu_milli[:, np.newaxis] >= self._cpu
        return (self._table[nodes.numbers] * enough) @ self._part

    def _grow(self) -> None:
        states = self._states.states
        if len(states) > len(self._table):
            more = np.zeros((max(len(states), 64), len(self._classes)), np.int64)
            self._table = np.concatenate([self._table, more])
        for number in range(self._filled, len(states)):
            self._table[number] = self._row(states[number])
        self._filled = len(states)

    def _row(self, devices: Sequence[Device]) -> Ints:
        there = [self._on_device(device) for device in devices]
        sums = np.add.reduce(there) if there else np.zeros(len(self._classes), np.int64)
        fits = sum((each > 0 for each in there), np.zeros(len(self._classes), np.int64))
        return np.where(fits >= [gpu.count for gpu in self._classes], sums, 0)

    def _on_device(self, device: Device) -> Ints:
        model = self._states.kinds[device.kind].model
        return np.array(
            [
                device.milli
                if device.milli >= gpu.milli and (not gpu.models or model in gpu.models)
                else 0
                for gpu in self._classes
            ],
            np.int64,
        )
