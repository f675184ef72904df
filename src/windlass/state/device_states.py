"""The device states of a node, interned as one integer.

A device's state is small: its kind, the thousandths that are left, its MIG instances. The states of
a node's devices, sorted, form a tuple, and each different tuple gets a number:

    node a   (full, free, half)   --sorted-->  (free, half, full)  -->  number 7
    node b   (half, full, free)   --sorted-->  (free, half, full)  -->  number 7

Whole GPUs, fractions, memory and MIG share this mechanism: everything that depends on devices alone
is computed once per number, and then looked up for thousands of nodes at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from windlass.model.gpu.mig import Instance, legal_starts, milli_of_profile
from windlass.model.gpus import WHOLE, Gpu, Slice, charge_for

MOST_REMEMBERED = 1 << 16
"""The size at which a cache of computed values is cleared."""


class DeviceKind(NamedTuple):
    """The fixed properties of a device."""

    model: str
    memory_mib: int
    mig: bool
    charged_milli: int = WHOLE
    """The thousandths of GPU that the whole device adds to its queue."""


class Device(NamedTuple):
    """The state of one device: what is left of it.

    Without MIG, `milli` thousandths are free and `instances` is empty. With MIG, `milli` is 0 and
    the room beside the sorted `instances` is free. An unhealthy device has 0 and is no MIG device.
    """

    kind: int
    """An index into `DeviceStates.kinds`."""
    milli: int
    instances: tuple[Instance, ...]


Devices: TypeAlias = tuple[Device, ...]
"""The devices of one node, in the order of the node."""


class DeviceStates:
    """The numbers of all sets of device states that were met. Numbers are never reused."""

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
        """By `Device.kind`. Append only."""
        self.states: list[Devices] = []
        """By number, the sorted device states. Append only, like the next two."""
        self.free_milli: list[int] = []
        """By number, the thousandths left of its devices."""
        self.chargeable_milli: list[int] = []
        """By number, the thousandths that queues would be charged for all that is left."""
        self._kind_ids: dict[DeviceKind, int] = {}
        self._numbers: dict[Devices, int] = {}
        self._taken: dict[tuple[Devices, tuple[Slice, ...]], tuple[Devices, int]] = {}
        """A cache of `take`."""

    def empty(self, gpus: Iterable[Gpu]) -> Devices:
        """Return the devices of a node without tasks; nothing is left of unhealthy ones."""
        return tuple(self._device(gpu) for gpu in gpus)

    def number(self, devices: Devices) -> int:
        """Return the number of a set of device states; the order of the devices has no effect."""
        key = tuple(sorted(devices))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.states)
            self.states.append(key)
            left = [(milli_left(device, self.kinds), self.kinds[device.kind]) for device in key]
            self.free_milli.append(sum(milli for milli, _ in left))
            chargeable = sum(charge_for(milli, kind.charged_milli) for milli, kind in left)
            self.chargeable_milli.append(chargeable)
        return number

    def take(self, devices: Devices, slices: tuple[Slice, ...]) -> tuple[Devices, int]:
        """Return the devices after the slices are taken, and their number."""
        key = (devices, slices)
        result = self._taken.get(key)
        if result is None:
            if len(self._taken) >= MOST_REMEMBERED:
                self._taken.clear()
            left = after_taking(devices, slices)
            result = self._taken[key] = (left, self.number(left))
        return result

    def _device(self, gpu: Gpu) -> Device:
        kind = DeviceKind(gpu.model, gpu.memory_mib, gpu.mig and gpu.healthy, gpu.charged_milli)
        if kind not in self._kind_ids:
            self._kind_ids[kind] = len(self.kinds)
            self.kinds.append(kind)
        # With MIG the instances tell what is left, so the thousandths stay at zero.
        milli = WHOLE if gpu.healthy and not gpu.mig else 0
        return Device(self._kind_ids[kind], milli, ())


def milli_left(device: Device, kinds: Sequence[DeviceKind]) -> int:
    """Return the thousandths left of a device, with or without MIG."""
    kind = kinds[device.kind]
    if not kind.mig:
        return device.milli
    used = sum(milli_of_profile(kind.model, cut.profile) for cut in device.instances)
    return max(0, WHOLE - used)


def can_take(devices: Devices, slices: Iterable[Slice], kinds: Sequence[DeviceKind]) -> bool:
    """Return whether all these slices can be taken from the devices at once."""
    left = list(devices)
    for part in slices:
        device = left[part.device]
        if part.profile:
            model = kinds[device.kind].model
            if part.start not in legal_starts(model, device.instances, part.profile):
                return False
        elif device.milli < part.milli:
            return False
        left[part.device] = after_taking((device,), (replace(part, device=0),))[0]
    return True


def after_taking(devices: Devices, slices: Iterable[Slice]) -> Devices:
    """Return the devices after the slices are taken; does not check that they can be."""
    left = list(devices)
    for part in slices:
        device = left[part.device]
        if part.profile:
            grown = tuple(sorted((*device.instances, Instance(part.start, part.profile))))
            left[part.device] = Device(device.kind, device.milli, grown)
        else:
            left[part.device] = Device(device.kind, device.milli - part.milli, device.instances)
    return tuple(left)


def after_releasing(devices: Devices, slices: Iterable[Slice]) -> Devices:
    """Return the devices after the slices are released; the reverse of `after_taking`."""
    left = list(devices)
    for part in slices:
        device = left[part.device]
        if part.profile:
            kept = list(device.instances)
            kept.remove(Instance(part.start, part.profile))
            left[part.device] = Device(device.kind, device.milli, tuple(kept))
        else:
            left[part.device] = Device(device.kind, device.milli + part.milli, device.instances)
    return tuple(left)
