"""The choice of devices on a node: which of them a task gets, and what that choice costs.

A `Chooser` answers for one GPU request: for each device state (the numbered multiset of a node's
devices, see `state/device_states.py`) how many such tasks fit, what the choice costs, and which
devices to take. Answers are worked out once per state and kept in arrays by the state's number, so
that the answers for ten thousand nodes are one array look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from windlass.engine.gpu_amounts import milli_on, share_on
from windlass.model.gpu.mig import (
    GEOMETRIES,
    Instance,
    legal_starts,
    milli_of_profile,
)
from windlass.model.gpus import (
    MOST_WORTH,
    WHOLE,
    GpuRequest,
    Slice,
    charge_for,
    value_of_model,
)
from windlass.model.settings import Packing, Settings
from windlass.state.device_states import MOST_REMEMBERED, Device, DeviceKind, Devices, DeviceStates
from windlass.state.node_columns import Ints

PLENTY = 1 << 20
"""The room that a node's devices have for tasks without GPUs: more than any node can run."""
_MOST_FREE = 4 * 32 * WHOLE
"""Four for each thousandth of 32 GPUs: the turning point of `gpu_avoidance_cost` when spreading."""


class DeviceChange(NamedTuple):
    """The change of one device by a task: it takes `milli`, or a MIG instance at `start`."""

    before: Device
    after: Device
    milli: int
    profile: str = ""
    start: int = 0


class DeviceGrant(NamedTuple):
    """The devices that a task gets on a node."""

    slices: tuple[Slice, ...]
    devices: Devices
    """The devices of the node, after the task took its part."""
    number: int
    """The number of their state."""
    models: tuple[tuple[str, int], ...]
    """The charge of the task per model, in thousandths of a GPU."""


class Conditions(NamedTuple):
    """The free capacity of some nodes: the numbers of their device states, CPU and memory."""

    numbers: Ints
    cpu_milli: Ints
    memory_mib: Ints


Condition: TypeAlias = tuple[int, int, int]
"""The same for one node."""


class PlacementScorer(Protocol):
    """Scores places by what they cost others, given the mix of requests that is expected."""

    def loss(self, before: Device, after: Device) -> int:
        """Return the loss if a share changes a device so; the device with the least is taken."""
        ...

    def device_cost(self, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind]) -> int:
        """Return the cost of a choice of devices, whatever else the node has."""
        ...

    def costs(self, before: Conditions, after: Conditions, taken: Ints) -> Ints:
        """Return the further cost of changing nodes so by taking so many thousandths of GPUs."""
        ...

    def cost(self, before: Condition, after: Condition, taken: int) -> int:
        """Return the same as `costs`, for one node."""
        ...


class Chooser:
    """The device choice for one GPU request under one set of settings, with an optional scorer."""

    __slots__ = (
        "_cost",
        "_grants",
        "_left",
        "_one",
        "_room",
        "_scorer",
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
        scorer: PlacementScorer | None = None,
    ) -> None:
        self.request, self.states, self._settings = request, states, settings
        self._scorer = scorer
        # Tables by the number of a device state; a state never changes, so an answer never does.
        self._room: Ints = np.full(64, -1, np.int64)
        """The number of tasks that fit; -1: not worked out yet."""
        self._cost: Ints = np.zeros(64, np.int64)
        self._left: Ints = np.zeros((64, 2), np.int64)
        """The state that one task leaves, and the thousandths that it takes; only with a scorer."""
        self._one: dict[int, tuple[int, int]] = {}
        """Room and cost as plain integers, for `look_up_one`."""
        self._steps: dict[int, tuple[DeviceChange, ...]] = {}
        self._grants: dict[Devices, DeviceGrant] = {}
        """By concrete devices in their order on the node, not by state."""

    def look_up(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return how many tasks fit each of these device states, and what placing one costs."""
        self._grow()
        room = self._room[numbers]
        if room.size and room.min() < 0:
            for number in sorted(set(numbers[room < 0].tolist())):
                self._work_out(number)
            room = self._room[numbers]
        return room, self._cost[numbers]

    def look_up_one(self, number: int) -> tuple[int, int]:
        """Return the same as `look_up`, for one device state."""
        answer = self._one.get(number)
        if answer is None:
            self._grow()
            if self._room[number] < 0:
                self._work_out(number)
            answer = self._one[number] = (int(self._room[number]), int(self._cost[number]))
        return answer

    def left(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the states that a task leaves and the thousandths it takes.

        The states must have been looked up before, and there must be a scorer.
        """
        rows = self._left[numbers]
        return rows[:, 0], rows[:, 1]

    def left_one(self, number: int) -> tuple[int, int]:
        """Return the same as `left`, for one device state."""
        after, taken = self._left[number].tolist()
        return after, taken

    def give(self, number: int, devices: Devices) -> DeviceGrant:
        """Return what a task gets on a node with these devices, whose state has this number."""
        grant = self._grants.get(devices)
        if grant is None:
            if len(self._grants) >= MOST_REMEMBERED:
                self._grants.clear()
            grant = self._grants[devices] = self._give(number, devices)
        return grant

    def _give(self, number: int, devices: Devices) -> DeviceGrant:
        if self.request is None:
            return DeviceGrant((), devices, number, ())
        kinds = self.states.kinds
        if number not in self._steps:
            self._steps[number] = self._choose(self.request, devices)
        slices = _on_devices(self._steps[number], devices)
        after, number = self.states.take(devices, slices)
        millis: dict[str, int] = {}
        for part in slices:
            kind = kinds[devices[part.device].kind]
            milli = charge_for(part.milli, kind.charged_milli)
            millis[kind.model] = millis.get(kind.model, 0) + milli
        return DeviceGrant(slices, after, number, tuple(sorted(millis.items())))

    def _grow(self) -> None:
        """Make the tables as long as there are device states."""
        short = len(self.states.states) - len(self._room)
        if short > 0:
            more = max(short, len(self._room))
            self._room = np.concatenate([self._room, np.full(more, -1, np.int64)])
            self._cost = np.concatenate([self._cost, np.zeros(more, np.int64)])
            self._left = np.concatenate([self._left, np.zeros((more, 2), np.int64)])

    def _work_out(self, number: int) -> None:
        """Fill the tables for one device state."""
        devices, kinds = self.states.states[number], self.states.kinds
        gpus, spread = self._settings.gpus, self._settings.nodes == Packing.SPREAD
        free = self.states.free_milli[number]
        if self.request is None:
            self._room[number], self._left[number] = PLENTY, (number, 0)
            self._cost[number] = 0 if self._scorer else gpu_avoidance_cost(free, spread)
            return
        steps = self._steps[number] = self._choose(self.request, devices)
        self._room[number] = room(self.request, devices, kinds, gpus) if steps else 0
        if self._scorer is None:
            self._cost[number] = cost(free, steps, kinds, spread)
        elif steps:
            self._cost[number] = self._scorer.device_cost(steps, kinds)
            after = self.states.number(after_steps(devices, steps))
            self._left[number] = after, free - self.states.free_milli[after]

    def _choose(self, request: GpuRequest, devices: Devices) -> tuple[DeviceChange, ...]:
        kinds, gpus = self.states.kinds, self._settings.gpus
        alone = request.count == 1 and not request.profile
        if self._scorer is None or not alone or gpus != Packing.PACK:
            return choose(request, devices, kinds, gpus)
        steps = _shares(request, sorted(set(devices)), kinds)
        best = min(steps, key=self._order, default=None)
        return (best,) if best else ()

    def _order(self, step: DeviceChange) -> tuple[int, int, int, str, Device]:
        """Order devices by the scorer's loss; then as without a scorer."""
        assert self._scorer is not None
        kind = self.states.kinds[step.before.kind]
        value = value_of_model(kind.model, kind.memory_mib)
        loss = self._scorer.loss(step.before, step.after)
        return loss, step.after.milli, value, kind.model, step.before


def gpu_avoidance_cost(free: int, spread: bool) -> int:
    """Return the cost of a node for a task without GPUs: it avoids free GPUs, packed or spread."""
    return max(0, _MOST_FREE - 4 * free) if spread else 4 * free


def cost(
    free: int, steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind], spread: bool
) -> int:
    """Return the cost of a choice of devices, without a scorer.

    It is 4 per thousandth of GPU left on the node, 8 more per thousandth left on devices that the
    task uses in part, and the price of the models. For MIG instances only what was free before
    counts: which device of the node gets the instance makes no difference.
    """
    if not steps or steps[0].profile:
        return 4 * free
    left = free - sum(step.milli for step in steps)
    return (
        model_price(steps, kinds, spread) + 4 * left + 8 * sum(step.after.milli for step in steps)
    )


def model_price(
    steps: Sequence[DeviceChange], kinds: Sequence[DeviceKind], spread: bool = False
) -> int:
    """Return the price of the models of which shares are taken; MIG instances cost nothing."""
    return sum(
        step.milli * _worth(kinds[step.after.kind], spread) for step in steps if not step.profile
    )


def _worth(kind: DeviceKind, spread: bool) -> int:
    value = value_of_model(kind.model, kind.memory_mib)
    # Spreading prefers the highest cost, but should still take the cheapest model.
    return MOST_WORTH - value if spread else value


def room(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> int:
    """Return how many tasks with this request fit, one after the other."""
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
    """Return what is left of devices after the changes, in no particular order."""
    changed = list(devices)
    for step in steps:
        changed[changed.index(step.before)] = step.after
    return tuple(changed)


def choose(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> tuple[DeviceChange, ...]:
    """Return the changes of devices for one task; empty if it does not fit."""
    if request.profile:
        return _choose_instances(request, devices, kinds, packing)
    return _choose_shares(request, devices, kinds, packing)


def _choose_shares(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> tuple[DeviceChange, ...]:
    """Return one share on each of `count` devices; the best by packing, then the cheapest."""
    fitting: list[tuple[int, int, str, DeviceChange]] = []
    for step in _shares(request, devices, kinds):
        kind = kinds[step.before.kind]
        order = _share_order(request, step.before.milli, step.milli, packing)
        fitting.append((order, value_of_model(kind.model, kind.memory_mib), kind.model, step))
    if len(fitting) < request.count:
        return ()
    fitting.sort()
    return tuple(step for *_, step in fitting[: request.count])


def _shares(
    request: GpuRequest, devices: Sequence[Device], kinds: Sequence[DeviceKind]
) -> Iterator[DeviceChange]:
    """Yield the changes of all devices on which one share fits."""
    for device in devices:
        milli = share_on(request, kinds[device.kind])
        if 0 < milli <= device.milli:
            yield DeviceChange(device, Device(device.kind, device.milli - milli, ()), milli)


def _share_order(request: GpuRequest, free: int, milli: int, packing: Packing) -> int:
    if request.count > 1:
        # One share on each of several devices: only evenly used ones leave room for the most tasks.
        return -(free // milli)
    return free - milli if packing == Packing.PACK else milli - free


def _choose_instances(
    request: GpuRequest, devices: Devices, kinds: Sequence[DeviceKind], packing: Packing
) -> tuple[DeviceChange, ...]:
    """Return the places of `count` MIG instances, chosen one after the other."""
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
    """Order the fullest (or emptiest) device first, then what leaves most starts open."""
    used_milli = sum(milli_of_profile(model, used.profile) for used in after.instances)
    still_open = sum(
        len(legal_starts(model, after.instances, profile.name)) * profile.size
        for profile in GEOMETRIES[model].profiles
    )
    return (-used_milli if packing == Packing.PACK else used_milli), -still_open


def _with_instance(device: Device, start: int, profile: str) -> Device:
    instances = tuple(sorted((*device.instances, Instance(start, profile))))
    return Device(device.kind, device.milli, instances)


def _on_devices(steps: Sequence[DeviceChange], devices: Devices) -> tuple[Slice, ...]:
    """Return the changes on concrete devices: each on the first device in its `before` state."""
    left, given = list(devices), list[Slice]()
    for step in steps:
        taken = {part.device for part in given} if not step.profile else set[int]()
        at = next(i for i, device in enumerate(left) if device == step.before and i not in taken)
        left[at] = step.after
        given.append(Slice(at, step.milli, step.profile, step.start))
    return tuple(given)
