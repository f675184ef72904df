"""Nodes as columns of arrays, so that placement computes over all nodes at once.

A node's column is its *slot*; slots follow the node names, so the arrays do not depend on the order
in which nodes arrived.

    free          slot 0   slot 1   ...
      0  CPU      thousandths
      1  memory   MiB
      2  pods     pod slots
      3  ...      each extra resource, in the order of its name         (`extras`)
      n  ...      each host port that several tasks ask for, see `_port_rows`  (`ports`)

    device_number[slot]   the interned states of the node's devices (`device_states.py`)

Labels and taints become small integers per key, so a selector is one comparison over all nodes.
Each writer appends the slot to `log`. Readers with results per slot keep a cursor into the log, and
recompute only the slots after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.model.constraints import HOSTNAME, Taint
from windlass.model.gpu.mig import profile_of
from windlass.model.gpu.resources import GpuUnit, is_gpu, unit_on
from windlass.model.gpus import Gpu, Slice
from windlass.model.nodes import Node
from windlass.model.resources import Port, Request
from windlass.state.device_states import MOST_REMEMBERED, Devices, DeviceStates, after_releasing

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

CPU, MEMORY, PODS = 0, 1, 2
"""The first rows of `free`."""

ALL_ADDRESSES = 1 << 20
"""The capacity of a port number: one task at all addresses takes all of it, one at a single address
takes 1. So both kinds exclude each other as long as a node has fewer addresses than this."""


class NodeTable:
    """The arrays over all nodes. Only `put`, `take`, `give`, `restore` and a saver write to them.

    Nodes, extra resources and ports never change: if they do, a new table is built.
    """

    __slots__ = (
        "_amounts",
        "_capacity",
        "_free_gpu",
        "_labels",
        "_taints",
        "cordoned",
        "device_number",
        "devices",
        "empty",
        "empty_number",
        "extra_gpus",
        "extras",
        "free",
        "log",
        "names",
        "nodes",
        "ports",
        "slot",
        "states",
        "troubled",
    )

    def __init__(self, nodes: Iterable[Node], ports: Iterable[Port] = ()) -> None:
        self.nodes: list[Node] = sorted(nodes, key=lambda node: node.name)
        """The nodes by slot."""
        self.names = [node.name for node in self.nodes]
        self.slot = {name: slot for slot, name in enumerate(self.names)}
        """The slot of each node name."""
        names = sorted({name for node in self.nodes for name in node.extra})
        self.extras = {name: PODS + 1 + at for at, name in enumerate(names)}
        """The row of each extra resource in `free`."""
        self.extra_gpus = ExtraGpus(self.nodes, self.extras)
        offers = {name: most for port in ports for name, _, most in _port_rows(port)}
        self.ports = {name: PODS + 1 + len(names) + at for at, name in enumerate(sorted(offers))}
        """The row of each host port, or host port at an address, in `free`."""
        self.states = DeviceStates()
        self.devices: list[Devices] = _empty_devices(self.nodes, self.states)
        """By slot, the devices in the order of the node."""
        numbers = [self.states.number(devices) for devices in self.devices]
        self.device_number: Ints = np.array(numbers, np.int64)
        """By slot, `states.number(devices[slot])`; always changed together with `devices`."""
        self.free: Ints = _allocatable(self.nodes, names, [offers[name] for name in self.ports])
        """May go below zero, if a node shrinks under its tasks."""
        self.empty: Ints = self.free.copy()
        self.empty_number: Ints = self.device_number.copy()
        """`free` and `device_number` of the cluster without any task. Never changed."""
        self.cordoned: Mask = np.array([not node.is_open for node in self.nodes], np.bool_)
        """By slot: the node takes no new tasks, except tasks that tolerate its cordon taint."""
        self.troubled: Mask = np.array([node.is_troubled for node in self.nodes], np.bool_)
        """By slot: the node takes no new tasks at all."""
        self.log: list[int] = []
        """The slots that changed, in order, with repetitions. Append only: readers hold cursors."""
        self._labels: dict[str, tuple[Ints, list[str]]] = {}
        self._taints: tuple[Ints, list[tuple[Taint, ...]]] | None = None
        self._capacity: dict[str, int] | None = None
        self._free_gpu = sum(self.states.chargeable_milli[number] for number in numbers)
        """The chargeable thousandths of all devices that are free, kept by `_set_devices`. GPUs
        among the extra resources are not part of it; they are in `free`."""
        self._amounts: dict[Request, Ints | None] = {}
        """A cache of `_column`."""

    def __len__(self) -> int:
        return len(self.names)

    def put(self, slot: int, amounts: Ints, devices: Devices, number: int) -> None:
        """Occupy part of a node, given the remaining devices and their number."""
        self.free[:, slot] -= amounts
        self._set_devices(slot, devices, number)
        self.log.append(slot)

    def take(self, slot: int, amounts: Ints, slices: tuple[Slice, ...]) -> None:
        """Occupy these amounts and slices of a node."""
        self.put(slot, amounts, *self.states.take(self.devices[slot], slices))

    def give(self, slot: int, amounts: Ints, slices: tuple[Slice, ...]) -> None:
        """Release these amounts and slices of a node."""
        self.free[:, slot] += amounts
        if slices:
            devices = after_releasing(self.devices[slot], slices)
            self._set_devices(slot, devices, self.states.number(devices))
        self.log.append(slot)

    def restore(self, slot: int, free: Ints, number: int, devices: Devices) -> None:
        """Set a node to values that were read from it before."""
        self.free[:, slot] = free
        self._set_devices(slot, devices, number)
        self.log.append(slot)

    def saver(self) -> Callable[[], None]:
        """Save all values; return a function that restores them."""
        free, number, devices = self.free.copy(), self.device_number.copy(), self.devices.copy()
        start, free_gpu = len(self.log), self._free_gpu

        def put_back() -> None:
            self.free[:], self.device_number[:], self.devices[:] = free, number, devices
            # The log is never cut: cursors may stand anywhere. What changed since changes again.
            self.log.extend(set(self.log[start:]))
            self._free_gpu = free_gpu

        return put_back

    def amounts(self, request: Request) -> Ints | None:
        """Return a request as a column of `free`; None if no node has an extra that it names.

        The column is cached: do not modify it.
        """
        try:
            return self._amounts[request]
        except KeyError:
            if len(self._amounts) >= MOST_REMEMBERED:
                self._amounts.clear()
            column = self._amounts[request] = self._column(request)
            return column

    def occupied_amounts(self, request: Request) -> Ints:
        """Return a request as a column of `free`, without the extras that no node has.

        For tasks that run already: an extra that has vanished occupies nothing.
        """
        if request.extra:
            offered = tuple(extra for extra in request.extra if extra[0] in self.extras)
            request = replace(request, extra=offered)
        column = self.amounts(request)
        assert column is not None, "only known extras are left"
        return column

    def existing_slices(self, slot: int, slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
        """Return the slices whose device, and MIG profile, the node still has.

        A node may change under its running tasks; the slices that it lost occupy nothing.
        """
        gpus = self.nodes[slot].gpus
        if all(part.device < len(gpus) and not part.profile for part in slices):
            return slices
        return tuple(
            part
            for part in slices
            if part.device < len(gpus)
            and (not part.profile or profile_of(gpus[part.device].model, part.profile))
        )

    def slots_of(self, names: Iterable[str]) -> list[int]:
        """Return the slots of the named nodes; names of unknown nodes are skipped."""
        return [self.slot[name] for name in names if name in self.slot]

    def labels(self, key: str) -> tuple[Ints, list[str]]:
        """Return the number of a label's value by slot (-1: no such label), and the sorted values.

        Number `i` stands for the value at position `i`.
        """
        if key not in self._labels:
            by_slot = [self._label(node, key) for node in self.nodes]
            values = sorted({value for value in by_slot if value is not None})
            numbers = {value: at for at, value in enumerate(values)}
            column = [-1 if value is None else numbers[value] for value in by_slot]
            self._labels[key] = np.array(column, np.int64), values
        return self._labels[key]

    def taints(self) -> tuple[Ints, list[tuple[Taint, ...]]]:
        """Return the number of its set of taints by slot, and the sets by number."""
        if self._taints is None:
            numbers: dict[tuple[Taint, ...], int] = {}
            column = [numbers.setdefault(node.taints, len(numbers)) for node in self.nodes]
            self._taints = np.array(column, np.int64), list(numbers)
        return self._taints

    def has_port(self, port: Port) -> bool:
        """Return whether the table has rows for a port; ports of a single task have none."""
        return all(name in self.ports for name, _, _ in _port_rows(port))

    def free_gpu(self) -> int:
        """Return the free thousandths of GPU on all nodes, as queues are charged for them."""
        return self._free_gpu + self.extra_gpus.milli_in(self.free)

    def all_gpu(self) -> int:
        """Return the thousandths of GPU of all nodes, used or not, cordoned or not."""
        chargeable: Ints = np.array(self.states.chargeable_milli, np.int64)
        devices = int(chargeable[self.empty_number].sum()) if len(self) else 0
        return devices + self.extra_gpus.milli_in(self.empty)

    def free_cpu(self) -> int:
        """Return the free thousandths of CPU on all nodes."""
        return int(self.free[CPU].sum())

    def free_memory(self) -> int:
        """Return the free memory on all nodes, in MiB."""
        return int(self.free[MEMORY].sum())

    def capacity(self) -> dict[str, int]:
        """Return the capacity of the nodes that take new tasks, by dimension."""
        if self._capacity is None:
            self._capacity = self._add_up()
        return self._capacity

    def _set_devices(self, slot: int, devices: Devices, number: int) -> None:
        free = self.states.chargeable_milli
        self._free_gpu += free[number] - free[int(self.device_number[slot])]
        self.devices[slot] = devices
        self.device_number[slot] = number

    def _add_up(self) -> dict[str, int]:
        usable = ~self.cordoned
        sums = {"cpu": int(self.empty[CPU, usable].sum())}
        sums["memory"] = int(self.empty[MEMORY, usable].sum())
        # Many nodes share one tuple of devices: count nodes per tuple first. By identity, because
        # hashing a tuple of devices costs more than looking at it twice.
        alike: dict[int, tuple[tuple[Gpu, ...], int]] = {}
        for node in self.nodes:
            if node.is_open:
                alike[id(node.gpus)] = (node.gpus, alike.get(id(node.gpus), ((), 0))[1] + 1)
        for gpus, count in alike.values():
            for gpu in gpus:
                if gpu.healthy:
                    key = f"gpu/{gpu.model}"
                    sums[key] = sums.get(key, 0) + count * gpu.charged_milli
        for model, milli in self.extra_gpus.offered_per_model(self.nodes).items():
            sums[f"gpu/{model}"] = sums.get(f"gpu/{model}", 0) + milli
        sums["gpu"] = sum(v for k, v in sums.items() if k.startswith("gpu/"))
        return sums

    def _column(self, request: Request) -> Ints | None:
        column = np.zeros(len(self.free), np.int64)
        column[CPU], column[MEMORY], column[PODS] = request.cpu_milli, request.memory_mib, 1
        for name, amount in request.extra:
            if name not in self.extras:
                return None
            column[self.extras[name]] = amount
        for port in request.ports:
            for name, amount, _ in _port_rows(port) if self.has_port(port) else ():
                column[self.ports[name]] += amount
        return column

    @staticmethod
    def _label(node: Node, key: str) -> str | None:
        return node.labels.get(key, node.name if key == HOSTNAME else None)


def _empty_devices(nodes: Sequence[Node], states: DeviceStates) -> list[Devices]:
    seen: dict[object, Devices] = {}
    for node in nodes:
        if node.gpus not in seen:
            seen[node.gpus] = states.empty(node.gpus)
    return [seen[node.gpus] for node in nodes]


def _allocatable(nodes: Sequence[Node], extras: Sequence[str], ports: Sequence[int]) -> Ints:
    first_port = PODS + 1 + len(extras)
    table: Ints = np.zeros((first_port + len(ports), len(nodes)), np.int64)
    table[first_port:] = np.array(ports, np.int64)[:, np.newaxis]
    for slot, node in enumerate(nodes):
        table[CPU, slot], table[MEMORY, slot] = node.cpu_milli, node.memory_mib
        table[PODS, slot] = node.pods
        if node.extra:
            table[PODS + 1 : first_port, slot] = [node.extra.get(name, 0) for name in extras]
    return table


def _port_rows(port: Port) -> list[tuple[str, int, int]]:
    """Return the rows that a port occupies: name, amount, and the capacity of a node.

    asked for           row "TCP port 80"    row "TCP port 80 at 10.0.0.1"
    80, no address      ALL_ADDRESSES        -
    80 at 10.0.0.1      1                    1
    capacity            ALL_ADDRESSES        1
    """
    name = f"{port.protocol} port {port.number}"
    if not port.address:
        return [(name, ALL_ADDRESSES, ALL_ADDRESSES)]
    return [(name, 1, ALL_ADDRESSES), (f"{name} at {port.address}", 1, 1)]


class ExtraGpus:
    """The GPUs among the extra resources of nodes, in thousandths, as queues are charged for them.

    Nodes offer them as plain counts; `model/gpu/resources.py` says how much of a GPU a unit is. On
    clusters without such resources everything here is empty.
    """

    __slots__ = ("_fields", "_milli", "_names", "_units")

    def __init__(self, nodes: Sequence[Node], fields: Mapping[str, int]) -> None:
        self._names = [name for name in fields if is_gpu(name)]
        self._fields = [fields[name] for name in self._names]
        """The rows of these resources in `NodeTable.free`, in the order of `_names`."""
        self._units = {
            name: sorted({unit_on(node, name) for node in nodes if node.extra.get(name, 0)})
            for name in self._names
        }
        units = [[unit_on(node, name).milli for node in nodes] for name in self._names]
        self._milli: NDArray[np.int64] = np.array(units, np.int64)
        """Thousandths of one unit: `[resource, slot]`, in the order of `_names`."""

    def milli_in(self, columns: NDArray[np.int64]) -> int:
        """Return the thousandths of GPU in an array like `NodeTable.free`, over all nodes."""
        if not self._names:
            return 0
        return int((np.maximum(columns[self._fields], 0) * self._milli).sum())

    def offered_per_model(self, nodes: Iterable[Node]) -> dict[str, int]:
        """Return the thousandths of GPU, by model, on the nodes that take new tasks."""
        sums: dict[str, int] = {}
        for node in nodes if self._names else ():
            for name in self._names if node.is_open else ():
                unit = unit_on(node, name)
                if amount := node.extra.get(name, 0):
                    sums[unit.model] = sums.get(unit.model, 0) + amount * unit.milli
        return sums

    def units(self, resource: str) -> Sequence[GpuUnit]:
        """Return the distinct unit sizes in which nodes offer a GPU resource, smallest first; if no
        node offers it, the unit that its name implies."""
        return self._units.get(resource) or (unit_on(None, resource),)

    def least(self, request: Request) -> int:
        """Return the least thousandths of GPU that the extras of a request may stand for."""
        return sum(
            amount * self.units(name)[0].milli for name, amount in request.extra if is_gpu(name)
        )
