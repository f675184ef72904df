"""Which devices of a node a task gets, and how good that is.

A `Chooser` answers for one GPU request: for each device state (see `state/device_states.py`) how
many such tasks fit, what the choice costs, and which devices to take. Answers are worked out once
per state and kept in arrays, so that asking for ten thousand nodes is one look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from windlass.engine.gpu_amounts import milli_on, share_on
from windlass.model.gpus import (
    MOST_WORTH,
    WHOLE,
    GpuRequest,
    Slice,
    charged,
    worth,
)
from windlass.model.mig import (
    GEOMETRIES,
    Instance,
    legal_starts,
    milli_of_profile,
)
from windlass.model.settings import Packing, Settings
from windlass.state.device_states import MOST_REMEMBERED, Device, DeviceKind, Devices, DeviceStates
from windlass.state.node_columns import Ints

PLENTY = 1 << 20
"""How many tasks without GPUs a node's devices have room for."""


_MOST_FREE = 4 * 32 * WHOLE


class DeviceChange(NamedTuple):
    """One device changes from `before` to `after` and gives out `milli` (an instance, if MIG)."""

    before: Device
    after: Device
    milli: int
    profile: str = ""
    start: int = 0


class DeviceGrant(NamedTuple):
    """What a task gets, what is then left on the node, and what is charged for it per model."""

    slices: tuple[Slice, ...]
    devices: Devices
    number: int
    models: tuple[tuple[str, int], ...]


class Conditions(NamedTuple):
    """What is left of some nodes: the numbers of their device states, CPU and memory."""

    numbers: Ints
    cpu_milli: Ints
    memory_mib: Ints


Condition: TypeAlias = tuple[int, int, int]
"""The same of one node."""


class PlacementScorer(Protocol):
    """Whoever knows how good a place is, given what else is asked for."""

    def loss(self, before: Device, after: Device) -> int:
        """How bad it is for a share to change a device so; the least bad device is taken."""
        ...

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """What a choice of devices costs, whatever else there is on a node."""
        ...

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """What it costs on top of it to change nodes so by taking so much GPU."""
        ...

    def cost(self, before: Condition, after: Condition, taken: int) -> int:
        """As `costs`, for one node."""
        ...


class Chooser:
    """Device choice for one GPU request under one set of settings, and a judge if there is one."""

    __slots__ = (
        "_cost",
        "_given",
        "_judge",
        "_known",
        "_left",
        "_room",
        "_settings",
        "_steps",
        "request",
        "states",
    )

    def __init__(
        self,
        request: GpuRequest | None,
        states: DeviceStates,
        settings: Settings,
        judge: PlacementScorer | None = None,
    ) -> None:
        self.request, self.states, self._settings = request, states, settings
        self._judge = judge
        self._room: Ints = np.full(64, -1, np.int64)
        self._cost: Ints = np.zeros(64, np.int64)
        self._left: Ints = np.zeros((64, 2), np.int64)
        self._known: dict[int, tuple[int, int]] = {}
        self._steps: dict[int, tuple[DeviceChange, ...]] = {}
        self._given: dict[Devices, DeviceGrant] = {}

    def look_up(self, numbers: Ints) -> tuple[Ints, Ints]:
        """How many tasks fit each of these device states, and what placing one costs."""
        self._grow()
        room = self._room[numbers]
        if room.size and room.min() < 0:
            for number in sorted(set(numbers[room < 0].tolist())):
                self._work_out(number)
            room = self._room[numbers]
        return room, self._cost[numbers]

    def look_up_one(self, number: int) -> tuple[int, int]:
        """As `look_up`, for one device state."""
        found = self._known.get(number)
        if found is None:
            self._grow()
            if self._room[number] < 0:
                self._work_out(number)
            found = self._known[number] = (int(self._room[number]), int(self._cost[number]))
        return found

    def left(self, numbers: Ints) -> tuple[Ints, Ints]:
        """For states looked up before: the state that a task leaves, and what it takes."""
        found = self._left[numbers]
        return found[:, 0], found[:, 1]

    def left_one(self, number: int) -> tuple[int, int]:
        """As `left`, for one device state."""
        after, taken = self._left[number].tolist()
        return after, taken

    def give(self, number: int, devices: Devices) -> DeviceGrant:
        """What a task gets on a node with these devices, whose state has this number."""
        found = self._given.get(devices)
        if found is None:
            if len(self._given) >= MOST_REMEMBERED:
                self._given.clear()
            found = self._given[devices] = self._give(number, devices)
        return found

    def _give(self, number: int, devices: Devices) -> DeviceGrant:
        if self.request is None:
            return DeviceGrant((), devices, number, ())
        kinds = self.states.kinds
        if number not in self._steps:
            self._steps[number] = self._choose(self.request, devices)
        slices = _on_devices(self._steps[number], devices)
        after, number = self.states.take(devices, slices)
        millis: dict[str, int] = {}
        for each in slices:
            kind = kinds[devices[each.device].kind]
            milli = charged(each.milli, kind.charged_milli)
            millis[kind.model] = millis.get(kind.model, 0) + milli
        return DeviceGrant(slices, after, number, tuple(sorted(millis.items())))

    def _grow(self) -> None:
        short = len(self.states.states) - len(self._room)
        if short > 0:
            more = max(short, len(self._room))
            self._room = np.concatenate([self._room, np.full(more, -1, np.int64)])
            self._cost = np.concatenate([self._cost, np.zeros(more, np.int64)])
            self._left = np.concatenate([self._left, np.zeros((more, 2), np.int64)])

    def _work_out(self, number: int) -> None:
        devices, kinds = self.states.states[number], self.states.kinds
        gpus, spread = self._settings.gpus, self._settings.nodes == Packing.SPREAD
        free = self.states.free_milli[number]
        if self.request is None:
            self._room[number], self._left[number] = PLENTY, (number, 0)
            self._cost[number] = 0 if self._judge else keeping_away(free, spread)
            return
        steps = self._steps[number] = self._choose(self.request, devices)
        self._room[number] = room(self.request, devices, kinds, gpus) if steps else 0
        if self._judge is None:
            self._cost[number] = cost(free, steps, kinds, spread)
        elif steps:
            self._cost[number] = self._judge.device_cost(steps, kinds)
            after = self.states.number(after_steps(devices, steps))
            self._left[number] = after, free - self.states.free_milli[after]

    def _choose(self, request: GpuRequest, devices: Devices) -> tuple[DeviceChange, ...]:
        kinds, gpus = self.states.kinds, self._settings.gpus
        alone = request.count == 1 and not request.profile
        if self._judge is None or not alone or gpus != Packing.PACK:
            return choose(request, devices, kinds, gpus)
        steps = _shares(request, sorted(set(devices)), kinds)
        best = min(steps, key=self._order, default=None)
        return (best,) if best else ()

    def _order(self, step: DeviceChange) -> tuple[int, int, int, str, Device]:
        """The device on which least is spoilt; then as without a judge."""
        assert self._judge is not None
        kind = self.states.kinds[step.before.kind]
        value = worth(kind.model, kind.memory_mib)
        loss = self._judge.loss(step.before, step.after)
        return loss, step.after.milli, value, kind.model, step.before


def keeping_away(free: int, spread: bool) -> int:
    """To a task without GPUs free ones always speak against a node, packed or spread."""
    return max(0, _MOST_FREE - 4 * free) if spread else 4 * free


def cost(
    free: int, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind], spread: bool
) -> int:
    """GPU left over on the node, twice over on devices begun, and what the devices are worth.

    An instance counts by what was left before: where on the node it lies makes no difference.
    """
    if not steps or steps[0].profile:
        return 4 * free
    left = free - sum(step.milli for step in steps)
    return dearness(steps, kinds, spread) + 4 * left + 8 * sum(step.after.milli for step in steps)


def dearness(
    steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind], spread: bool = False
) -> int:
    """What the models are worth of which shares are taken."""
    return sum(
        step.milli * _worth(kinds[step.after.kind], spread) for step in steps if not step.profile
    )


def _worth(kind: DeviceKind, spread: bool) -> int:
    value = worth(kind.model, kind.memory_mib)
    # spreading takes the highest cost, and should take the cheapest model all the same
    return MOST_WORTH - value if spread else value


def room(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> int:
    """How many tasks with this request fit, one after the other."""
    if not request.profile and request.count == 1:
        return sum(
            max(0, device.milli // milli)
            for device in devices
            if (milli := share_on(request, kinds[device.kind]))
        )
    placed, left = 0, devices
    while steps := choose(request, left, kinds, packing):
        placed += 1
        left = tuple(sorted(after_steps(left, steps)))
    return placed


def after_steps(devices: Devices, steps: Sequence[DeviceChange]) -> Devices:
    """What is left of devices, in no particular order."""
    changed = list(devices)
    for step in steps:
        changed[changed.index(step.before)] = step.after
    return tuple(changed)


def choose(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> tuple[DeviceChange, ...]:
    """The devices for one task, or none if it does not fit."""
    if request.profile:
        return _choose_instances(request, devices, kinds, packing)
    return _choose_shares(request, devices, kinds, packing)


def _choose_shares(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> tuple[DeviceChange, ...]:
    fitting: list[tuple[int, int, str, DeviceChange]] = []
    for step in _shares(request, devices, kinds):
        kind = kinds[step.before.kind]
        order = _share_order(request, step.before.milli, step.milli, packing)
        fitting.append((order, worth(kind.model, kind.memory_mib), kind.model, step))
    if len(fitting) < request.count:
        return ()
    fitting.sort()
    return tuple(step for *_, step in fitting[: request.count])


def _shares(
    request: GpuRequest, devices: Sequence[Device], kinds: Sequence[DeviceKind]
) -> Iterator[DeviceChange]:
    """The devices on which one share fits."""
    for device in devices:
        milli = share_on(request, kinds[device.kind])
        if 0 < milli <= device.milli:
            yield DeviceChange(device, Device(device.kind, device.milli - milli, ()), milli)


def _share_order(request: GpuRequest, free: int, milli: int, packing: Packing) -> int:
    if request.count > 1:
        # one share on each of several devices: only evenly used ones leave room for the most tasks
        return -(free // milli)
    return free - milli if packing == Packing.PACK else milli - free


def _choose_instances(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> tuple[DeviceChange, ...]:
    left, steps = list(devices), list[DeviceChange]()
    for _ in range(request.count):
        options = [
            (_instance_order(after, kinds[device.kind].model, packing), device, after, start)
            for device in sorted(set(left))
            if milli_on(request, kinds[device.kind])
            for start in legal_starts(kinds[device.kind].model, device.instances, request.profile)
            for after in [_with_instance(device, start, request.profile)]
        ]
        if not options:
            return ()
        _, device, after, start = min(options)
        left[left.index(device)] = after
        milli = milli_of_profile(kinds[device.kind].model, request.profile)
        steps.append(DeviceChange(device, after, milli, request.profile, start))
    return tuple(steps)


def _instance_order(after: Device, model: str, packing: Packing) -> tuple[int, int]:
    """Fullest (or emptiest) device first; on it the place that leaves most places open."""
    used = sum(milli_of_profile(model, each.profile) for each in after.instances)
    still_open = sum(
        len(legal_starts(model, after.instances, profile.name)) * profile.size
        for profile in GEOMETRIES[model].profiles
    )
    return (-used if packing == Packing.PACK else used), -still_open


def _with_instance(device: Device, start: int, profile: str) -> Device:
    instances = tuple(sorted((*device.instances, Instance(start, profile))))
    return Device(device.kind, device.milli, instances)


def _on_devices(steps: Sequence[DeviceChange], devices: Devices) -> tuple[Slice, ...]:
    """The steps on concrete devices: the lowest one in the state that each step starts from."""
    left, given = list(devices), list[Slice]()
    for step in steps:
        taken = {each.device for each in given} if not step.profile else set[int]()
        at = next(i for i, device in enumerate(left) if device == step.before and i not in taken)
        left[at] = step.after
        given.append(Slice(at, step.milli, step.profile, step.start))
    return tuple(given)
