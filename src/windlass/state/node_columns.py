"""Nodes as columns: what is free, node by node, in arrays that placement can sweep.

`free[field, slot]` holds CPU, memory, pod slots, every extra resource and every port that several
tasks ask for; `device_number[slot]` the interned device state. Slots follow node names, so neither
arrival order nor history shows. Labels and taints become small integers per key, so a selector is
one comparison over all nodes.
Whoever changes a slot appends it to `log`; class vectors catch up from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.model.constraints import HOSTNAME, Taint
from windlass.model.gpus import Gpu, Slice
from windlass.model.mig import profile_of
from windlass.model.nodes import Node
from windlass.model.resources import Port, Request
from windlass.state.device_states import MOST_REMEMBERED, Devices, DeviceStates, with_back
from windlass.state.extra_gpus import ExtraGpus

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

CPU, MEMORY, PODS = 0, 1, 2
ALL_ADDRESSES = 1 << 20
"""A port has room for one task at all addresses, or for one at each of fewer than so many."""


class NodeTable:
    """The arrays; `put`, `take`, `give` and `restore` are the only writers."""

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
        self.names = [node.name for node in self.nodes]
        self.slot = {name: slot for slot, name in enumerate(self.names)}
        names = sorted({name for node in self.nodes for name in node.extra})
        self.extras = {name: PODS + 1 + at for at, name in enumerate(names)}
        self.extra_gpus = ExtraGpus(self.nodes, self.extras)
        offers = {name: most for port in ports for name, _, most in _parts(port)}
        self.ports = {name: PODS + 1 + len(names) + at for at, name in enumerate(sorted(offers))}
        self.states = DeviceStates()
        self.devices: list[Devices] = _empty_devices(self.nodes, self.states)
        numbers = [self.states.number(devices) for devices in self.devices]
        self.device_number: Ints = np.array(numbers, np.int64)
        self.free: Ints = _allocatable(self.nodes, names, [offers[name] for name in self.ports])
        self.empty: Ints = self.free.copy()
        self.empty_number: Ints = self.device_number.copy()
        self.cordoned: Mask = np.array([not node.is_open for node in self.nodes], np.bool_)
        self.troubled: Mask = np.array([node.is_troubled for node in self.nodes], np.bool_)
        self.log: list[int] = []
        self._labels: dict[str, tuple[Ints, list[str]]] = {}
        self._taints: tuple[Ints, list[tuple[Taint, ...]]] | None = None
        self._capacity: dict[str, int] | None = None
        self._free_gpu = sum(self.states.chargeable_milli[number] for number in numbers)
        """Of devices alone; what is free of extra resources is in `free`."""
        self._amounts: dict[Request, Ints | None] = {}

    def __len__(self) -> int:
        return len(self.names)

    def put(self, slot: int, amounts: Ints, devices: Devices, number: int) -> None:
        """Occupy part of a node, of whose devices this is left."""
        self.free[:, slot] -= amounts
        self._set_devices(slot, devices, number)
        self.log.append(slot)

    def take(self, slot: int, amounts: Ints, slices: tuple[Slice, ...]) -> None:
        """Occupy part of a node."""
        self.put(slot, amounts, *self.states.take(self.devices[slot], slices))

    def give(self, slot: int, amounts: Ints, slices: tuple[Slice, ...]) -> None:
        """Return part of a node."""
        self.free[:, slot] += amounts
        if slices:
            devices = with_back(self.devices[slot], slices)
            self._set_devices(slot, devices, self.states.number(devices))
        self.log.append(slot)

    def restore(self, slot: int, free: Ints, number: int, devices: Devices) -> None:
        """Put a node back as it was found."""
        self.free[:, slot] = free
        self._set_devices(slot, devices, number)
        self.log.append(slot)

    def saver(self) -> Callable[[], None]:
        """Remember everything as it is; the answer puts it back."""
        free, number, devices = self.free.copy(), self.device_number.copy(), self.devices.copy()
        start, free_gpu = len(self.log), self._free_gpu

        def put_back() -> None:
            self.free[:], self.device_number[:], self.devices[:] = free, number, devices
            self.log.extend(set(self.log[start:]))
            self._free_gpu = free_gpu

        return put_back

    def amounts(self, request: Request) -> Ints | None:
        """The request as a column; None if it names an extra that no node has."""
        try:
            return self._amounts[request]
        except KeyError:
            if len(self._amounts) >= MOST_REMEMBERED:
                self._amounts.clear()
            found = self._amounts[request] = self._column(request)
            return found

    def taken(self, request: Request) -> Ints:
        """The request as a column, of what nodes offer; the rest of it takes nothing here."""
        if request.extra:
            known = tuple(each for each in request.extra if each[0] in self.extras)
            request = replace(request, extra=known)
        found = self.amounts(request)
        assert found is not None, "only known extras are left"
        return found

    def present(self, slot: int, slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
        """The slices whose devices the node still has, after it may have changed beneath them."""
        gpus = self.nodes[slot].gpus
        if all(each.device < len(gpus) and not each.profile for each in slices):
            return slices
        return tuple(
            each
            for each in slices
            if each.device < len(gpus)
            and (not each.profile or profile_of(gpus[each.device].model, each.profile))
        )

    def slots_of(self, names: Iterable[str]) -> list[int]:
        """The slots of those of the named nodes that there are."""
        return [self.slot[name] for name in names if name in self.slot]

    def labels(self, key: str) -> tuple[Ints, list[str]]:
        """Per node the number of its value for a label (-1: none), and the values, sorted."""
        if key not in self._labels:
            found = [self._label(node, key) for node in self.nodes]
            values = sorted({value for value in found if value is not None})
            numbers = {value: at for at, value in enumerate(values)}
            column = [-1 if value is None else numbers[value] for value in found]
            self._labels[key] = np.array(column, np.int64), values
        return self._labels[key]

    def taints(self) -> tuple[Ints, list[tuple[Taint, ...]]]:
        """Per node the number of its set of taints, and the sets."""
        if self._taints is None:
            numbers: dict[tuple[Taint, ...], int] = {}
            column = [numbers.setdefault(node.taints, len(numbers)) for node in self.nodes]
            self._taints = np.array(column, np.int64), list(numbers)
        return self._taints

    def knows(self, port: Port) -> bool:
        """Is it counted who has the port? Where only one task asks for it, there is no need."""
        return all(name in self.ports for name, _, _ in _parts(port))

    def free_gpu(self) -> int:
        """Thousandths of GPU, as queues are charged, that are free on all nodes together."""
        return self._free_gpu + self.extra_gpus.milli_in(self.free)

    def all_gpu(self) -> int:
        """The same if nothing ran: what there is on all nodes, whether or not they take tasks."""
        chargeable: Ints = np.array(self.states.chargeable_milli, np.int64)
        devices = int(chargeable[self.empty_number].sum()) if len(self) else 0
        return devices + self.extra_gpus.milli_in(self.empty)

    def free_cpu(self) -> int:
        """Thousandths of a CPU, alike."""
        return int(self.free[CPU].sum())

    def free_memory(self) -> int:
        """MiB of memory, alike."""
        return int(self.free[MEMORY].sum())

    def capacity(self) -> dict[str, int]:
        """All that schedulable nodes offer: CPU, memory, and thousandths of GPU, per model too."""
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
        # many nodes share one tuple of devices: count the tuples first
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
            for name, amount, _ in _parts(port) if self.knows(port) else ():
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
            table[PODS + 1 : first_port, slot] = _extra_column(node.extra, extras)
    return table


def _parts(port: Port) -> list[tuple[str, int, int]]:
    """The fields that a port takes something of: their names, how much, and what a node has."""
    name = f"{port.protocol} port {port.number}"
    if not port.address:
        return [(name, ALL_ADDRESSES, ALL_ADDRESSES)]
    return [(name, 1, ALL_ADDRESSES), (f"{name} at {port.address}", 1, 1)]


def _extra_column(extra: Mapping[str, int], names: Sequence[str]) -> list[int]:
    return [extra.get(name, 0) for name in names]
