"""Fragmentation: how much free GPU the expected mix of requests can use, and what a task spoils.

For each request of the mix, the GPU thousandths are computed that such tasks could still take on a
node, given its devices, its CPU and its memory. The sum, weighted by how often each request comes,
is the *usable* capacity. The fragmentation that a task causes is what a node loses of it beyond
what the task takes. (The idea is that of FGD, USENIX ATC'23; that CPU and memory must suffice for
all devices and not only for one more task, and the value of the rest of a device, are additions:
docs/decisions/0017.)

What depends on devices is a table by the number of the device state, so that a thousand nodes are
one look-up. All numbers are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from windlass.engine.gpu_amounts import milli_on
from windlass.engine.nodes.devices import (
    Condition,
    Conditions,
    DeviceChange,
    model_price,
    room,
)
from windlass.model.gpu.remainder_prices import remainder_values
from windlass.model.gpu.request_mix import SLACK, STEP, Counted, expected_requests, requested_shares
from windlass.model.gpus import WHOLE, GpuRequest
from windlass.model.settings import Packing, Settings
from windlass.state.device_states import MOST_REMEMBERED, Device, DeviceKind, DeviceStates
from windlass.state.node_columns import Ints, NodeTable

FINE = 16
"""The number of fractional bits of the rates (fixed-point numbers) of CPU and memory."""
PER_STEP = 320
"""The cost of one step of lost capacity (`STEP`): four for each of its 80 thousandths, the same
scale as the price of models."""
MANY = 512
"""From this many nodes on, equal nodes are computed once: large clusters have many of them."""


def fragmentation_scorer(
    mix: Sequence[Counted], columns: NodeTable, settings: Settings
) -> FragmentationScorer | None:
    """Return the scorer for a mix of requests; None where the mix does not bear on placement."""
    classes, states = expected_requests(mix, len(columns)), columns.states
    if settings.nodes != Packing.PACK or not any(request.gpu for request, _ in classes):
        return None
    return FragmentationScorer(
        classes, remainder_values(requested_shares(mix)), states, settings.gpus
    )


class FragmentationScorer:
    """The scorer of places by the fragmentation that a task causes, for one set of columns."""

    __slots__ = (
        "_count",
        "_cpu",
        "_cpu_rate",
        "_gpu_of",
        "_gpus",
        "_losses",
        "_memory",
        "_memory_rate",
        "_of_device",
        "_packing",
        "_states",
        "_table",
        "_total",
        "_usable_of",
        "_values",
        "_weight",
    )

    def __init__(
        self, classes: Sequence[Counted], values: Sequence[int], states: DeviceStates, gpus: Packing
    ) -> None:
        self._states, self._values, self._packing = states, values, gpus
        self._total = sum(count for _, count in classes)
        asking = [(request, request.gpu, count) for request, count in classes if request.gpu]
        # Arrays with one entry per request of the mix that asks for GPUs, but for `_gpus` and
        # `_count`, which have one per different GPU request; `_gpu_of` leads from the first to
        # the second.
        self._gpus: list[GpuRequest] = list(dict.fromkeys(gpu for _, gpu, _ in asking))
        self._gpu_of = _ints(self._gpus.index(gpu) for _, gpu, _ in asking)
        self._count = _ints(gpu.count for gpu in self._gpus)
        self._weight = _ints(count for _, _, count in asking)
        self._cpu = _ints(max(1, request.cpu_milli) for request, _, _ in asking)
        self._memory = _ints(max(1, request.memory_mib) for request, _, _ in asking)
        size = _ints(
            max((milli_on(gpu, kind) for kind in states.kinds), default=0) for _, gpu, _ in asking
        )
        # GPU thousandths per unit of CPU or memory, with slack (SLACK halves), as fixed-point
        # numbers with FINE fractional bits.
        self._cpu_rate: Ints = (SLACK * size << FINE) // (2 * self._cpu)
        self._memory_rate: Ints = (SLACK * size << FINE) // (2 * self._memory)
        # Caches. All rest on device states and the mix alone, which do not change here.
        self._of_device: dict[Device, Ints] = {}
        self._losses: dict[tuple[Device, Device], int] = {}
        self._table: Ints = np.full((64, len(asking)), -1, np.int64)
        """Per device state and request: the thousandths that could be taken; -1: not computed."""
        self._usable_of: dict[Condition, int] = {}

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Return the cost of the usable capacity that nodes lose beyond the GPU that is taken.

        Losses count in whole steps, rounded up (`-(-a // b)`).
        """
        lost = self.usable(before) - self.usable(after) - self._total * taken
        return -(-lost // (STEP * self._total)) * PER_STEP

    def cost(self, before: Condition, after: Condition, taken: int) -> int:
        """Return the same as `costs`, for one node."""
        lost = self.usable_one(before) - self.usable_one(after) - self._total * taken
        return -(-lost // (STEP * self._total)) * PER_STEP

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """Return the price of the models, and a step per hundredth of value that shares take."""
        lost = sum(
            self._values[step.before.milli] - self._values[step.after.milli]
            for step in steps
            if not step.profile and step.milli < WHOLE
        )
        return model_price(steps, kinds) + lost * 100 // WHOLE * PER_STEP

    def loss(self, before: Device, after: Device) -> int:
        """Return what a share would spoil of its device, whatever else the node has."""
        key = (before, after)
        loss = self._losses.get(key)
        if loss is None:
            if len(self._losses) >= MOST_REMEMBERED:
                self._losses.clear()
            usable = self._on_device(before)[1] - self._on_device(after)[1]
            lost = int((usable[self._gpu_of] * self._weight).sum())
            value = self._values[before.milli] - self._values[after.milli]
            loss = self._losses[key] = lost + self._total * STEP * value * 100 // WHOLE
        return loss

    def usable(self, nodes: Conditions) -> Ints:
        """Return the usable capacity of nodes, in GPU thousandths times arrivals."""
        if len(nodes.numbers) < MANY:
            return self._usable(nodes)
        # Equal nodes are computed once. A node's condition is packed into one integer
        #     (device state * (most CPU + 1) + CPU) * (most memory + 1) + memory
        # if that fits 62 bits.
        numbers, cpu, memory = nodes
        wide = int(memory.max()) + 1
        high = (int(cpu.max()) + 1) * wide
        if (int(numbers.max()) + 1) * high >= 1 << 62:
            return self._usable(nodes)
        keys = numbers * high + cpu * wide + memory
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return self._usable(Conditions(numbers[first], cpu[first], memory[first]))[which]

    def usable_one(self, node: Condition) -> int:
        """Return the same as `usable`, for one node."""
        total = self._usable_of.get(node)
        if total is None:
            if len(self._usable_of) >= MOST_REMEMBERED:
                self._usable_of.clear()
            number, cpu, memory = node
            usable = np.minimum(self._row(number), self._cpu_rate * cpu >> FINE)
            usable = np.minimum(usable, self._memory_rate * memory >> FINE)
            usable *= (self._cpu <= cpu) & (self._memory <= memory)
            total = self._usable_of[node] = int(usable.dot(self._weight))
        return total

    def _usable(self, nodes: Conditions) -> Ints:
        rows = self._rows(nodes.numbers)
        cpu, memory = nodes.cpu_milli[:, np.newaxis], nodes.memory_mib[:, np.newaxis]
        rows = np.minimum(rows, cpu * self._cpu_rate >> FINE)
        rows = np.minimum(rows, memory * self._memory_rate >> FINE)
        rows *= (cpu >= self._cpu) & (memory >= self._memory)
        return rows.dot(self._weight)

    def _rows(self, numbers: Ints) -> Ints:
        self._grow()
        rows = self._table[numbers]
        missing = rows[:, 0] < 0
        if missing.any():
            for number in set(numbers[missing].tolist()):
                self._row(number)
            rows = self._table[numbers]
        return rows

    def _row(self, number: int) -> Ints:
        """Return what each request could take of the devices of a state, CPU and memory aside."""
        self._grow()
        row = self._table[number]
        if row[0] < 0:
            per_device = [self._on_device(device) for device in self._states.states[number]]
            if not per_device:
                row[:] = 0
                return row
            fits, milli = np.add.reduce(per_device)
            # Devices that are left over after the last whole task are of no use to the request.
            whole = fits // self._count * self._count
            row[:] = (milli * whole // np.maximum(fits, 1))[self._gpu_of]
        return row

    def _on_device(self, device: Device) -> Ints:
        """Return how many shares of each GPU request fit a device, and their thousandths."""
        answer = self._of_device.get(device)
        if answer is None:
            if len(self._of_device) >= MOST_REMEMBERED:
                self._of_device.clear()
            kinds = self._states.kinds
            ones = [replace(gpu, count=1) for gpu in self._gpus]
            fits = _ints(room(one, (device,), kinds, self._packing) for one in ones)
            size = _ints(milli_on(one, kinds[device.kind]) for one in ones)
            answer = self._of_device[device] = np.stack([fits, fits * size])
        return answer

    def _grow(self) -> None:
        """Make the table as long as there are device states."""
        short = len(self._states.states) - len(self._table)
        if short > 0:
            more = max(short, len(self._table))
            rows = np.full((more, self._table.shape[1]), -1, np.int64)
            self._table = np.concatenate([self._table, rows])


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)
