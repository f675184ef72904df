"""The devices of a node as one number.

A device's state is small: what it is, what is left of it, which MIG instances lie on it. A node's
device states, sorted, form a tuple, and each different tuple gets an integer. Whole GPUs,
fractions, memory and MIG thus share one mechanism: everything that depends on devices is worked
out once per number and then looked up for thousands of nodes at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from windlass.model.gpus import WHOLE, Gpu, Slice, charged
from windlass.model.mig import Instance, legal_starts, milli_of_profile

MOST_REMEMBERED = 1 << 16
"""Memories of what was worked out begin anew at this size."""


class DeviceKind(NamedTuple):
    """What a device is, apart from what is left of it."""

    model: str
    memory_mib: int
    mig: bool
    charged_milli: int = WHOLE
    """What the whole device adds to its queue."""


class Device(NamedTuple):
    """What is left of one device: thousandths without MIG, room beside the instances with it."""

    kind: int
    milli: int
    instances: tuple[Instance, ...]


Devices: TypeAlias = tuple[Device, ...]
"""The devices of one node, in the order of the node."""


class DeviceStates:
    """Gives each different set of device states its number."""

    __slots__ = (
        "_kind_ids",
        "_numbers",
        "_taken",
        "chargeable_milli",
        "free_milli",
        "kinds",
        "states",
    )

    def __init__(self) -> None:
        self.kinds: list[DeviceKind] = []
        self.states: list[Devices] = []
        self.free_milli: list[int] = []
        """Per number the thousandths left of its devices."""
        self.chargeable_milli: list[int] = []
        """Per number what queues would be charged for all that is left."""
        self._kind_ids: dict[DeviceKind, int] = {}
        self._numbers: dict[Devices, int] = {}
        self._taken: dict[tuple[Devices, tuple[Slice, ...]], tuple[Devices, int]] = {}

    def empty(self, gpus: Iterable[Gpu]) -> Devices:
        """The devices of a node on which nothing runs; unhealthy ones have nothing left."""
        return tuple(self._device(gpu) for gpu in gpus)

    def number(self, devices: Devices) -> int:
        """The number of this set of states, whatever the order of the devices."""
        key = tuple(sorted(devices))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.states)
            self.states.append(key)
            left = [(left_of(device, self.kinds), self.kinds[device.kind]) for device in key]
            self.free_milli.append(sum(milli for milli, _ in left))
            chargeable = sum(charged(milli, kind.charged_milli) for milli, kind in left)
            self.chargeable_milli.append(chargeable)
        return number

    def take(self, devices: Devices, slices: tuple[Slice, ...]) -> tuple[Devices, int]:
        """What is left once the slices are taken, and its number."""
        key = (devices, slices)
        found = self._taken.get(key)
        if found is None:
            if len(self._taken) >= MOST_REMEMBERED:
                self._taken.clear()
            left = without(devices, slices)
            found = self._taken[key] = (left, self.number(left))
        return found

    def _device(self, gpu: Gpu) -> Device:
        kind = DeviceKind(gpu.model, gpu.memory_mib, gpu.mig and gpu.healthy, gpu.charged_milli)
        if kind not in self._kind_ids:
            self._kind_ids[kind] = len(self.kinds)
            self.kinds.append(kind)
        # MIG shows what is left by its instances, so its thousandths stay at zero
        milli = WHOLE if gpu.healthy and not gpu.mig else 0
        return Device(self._kind_ids[kind], milli, ())


def left_of(device: Device, kinds: Sequence[DeviceKind]) -> int:
    """The thousandths left of a device, with or without MIG."""
    kind = kinds[device.kind]
    if not kind.mig:
        return device.milli
    used = sum(milli_of_profile(kind.model, each.profile) for each in device.instances)
    return max(0, WHOLE - used)


def has_left(devices: Devices, slices: Iterable[Slice], kinds: Sequence[DeviceKind]) -> bool:
    """Are these slices of the devices still there to be taken?"""
    left = list(devices)
    for each in slices:
        device = left[each.device]
        if each.profile:
            model = kinds[device.kind].model
            if each.start not in legal_starts(model, device.instances, each.profile):
                return False
        elif device.milli < each.milli:
            return False
        left[each.device] = without((device,), (replace(each, device=0),))[0]
    return True


def without(devices: Devices, slices: Iterable[Slice]) -> Devices:
    """What is left once the slices are taken."""
    left = list(devices)
    for each in slices:
        device = left[each.device]
        if each.profile:
            grown = tuple(sorted((*device.instances, Instance(each.start, each.profile))))
            left[each.device] = Device(device.kind, device.milli, grown)
        else:
            left[each.device] = Device(device.kind, device.milli - each.milli, device.instances)
    return tuple(left)


def with_back(devices: Devices, slices: Iterable[Slice]) -> Devices:
    """What is there once the slices are given back."""
    left = list(devices)
    for each in slices:
        device = left[each.device]
        if each.profile:
            kept = list(device.instances)
            kept.remove(Instance(each.start, each.profile))
            left[each.device] = Device(device.kind, device.milli, tuple(kept))
        else:
            left[each.device] = Device(device.kind, device.milli + each.milli, device.instances)
    return tuple(left)
