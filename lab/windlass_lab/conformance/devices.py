"""Their GPUs as our devices, and the allocations of running tasks.

A node's whole GPUs come first. A MIG instance `Ng.…` is fixed and charged as N GPUs: here it is N
devices of a model named after the resource, so that queues are charged alike. The count of
instances is an extra resource too, for tasks that request several kinds.

    strategy `mixed`     its whole GPUs are not usable
    strategy `single`    its GPUs are taken whole or not at all
    legacy MIG on it     the allocation is unknown: its instances are not usable
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from windlass.model.errors import WindlassError
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, Slice
from windlass_lab.conformance import schema
from windlass_lab.oracle.fit import milli_asked

MODEL = "GPU"
UNDIVIDED = "GPU, undivided"
MIXED, SINGLE = "mixed", "single"

_SIZE = re.compile(r"(\d+)g\.")


class Untranslatable(WindlassError):
    """A scenario contains something that our model cannot express."""


def cards_of(node: schema.ForeignNode, is_spoilt: bool) -> tuple[Gpu, ...]:
    """Return a node's devices: whole GPUs, then those that stand for MIG instances."""
    model = UNDIVIDED if node.mig_strategy == SINGLE else MODEL
    whole = Gpu(model, node.gpu_memory_mib, healthy=node.mig_strategy != MIXED)
    parts = [
        Gpu(resource, node.gpu_memory_mib, healthy=not is_spoilt)
        for resource, count in sorted(node.mig_instances.items())
        for _ in range(count * size_of(resource))
    ]
    return (*(whole,) * node.gpus, *parts)


def size_of(resource: str) -> int:
    """Return the number of GPUs that an instance of a MIG resource is charged as."""
    found = _SIZE.search(resource)
    return max(1, int(found[1])) if found else 1


def asked_by(request: schema.ForeignRequest, task: schema.ForeignTask) -> GpuRequest | None:
    """Return the devices that a task requests."""
    if task.gpus is None and request.gpu_memory_mib:
        count, memory_mib = request.num_devices, round(request.gpu_memory_mib)
        asked = GpuRequest(count, memory_mib=memory_mib, models=(MODEL,))
    elif task.gpus is None and request.gpu_fraction:
        asked = _share(request.num_devices, request.gpu_fraction)
    else:
        asked = _whole(request.gpus if task.gpus is None else task.gpus, request.num_devices)
    if asked is None and task.mig:
        # several kinds at once: the first is charged, the others are counted as extras alone
        resource, count = min(task.mig.items())
        asked = GpuRequest(count * size_of(resource), models=(resource,))
    return asked


def _whole(gpus: float, devices: int) -> GpuRequest | None:
    if gpus <= 0:
        return None
    if gpus < 1:
        return _share(devices, gpus)
    return GpuRequest(round(gpus), models=(MODEL, UNDIVIDED))


def _share(devices: int, fraction: float) -> GpuRequest:
    return GpuRequest(devices, milli=max(1, round(fraction * WHOLE)), models=(MODEL,))


class Shelf:
    """The devices of one node, allocated to the tasks that run there already."""

    def __init__(self, cards: Iterable[Gpu]) -> None:
        self._cards = tuple(cards)
        self._left = [WHOLE] * len(self._cards)
        self._groups: dict[str, int] = {}

    def take(self, asked: GpuRequest | None, groups: list[str]) -> tuple[Slice, ...]:
        """Return the devices of a task: fractions of the devices of its groups, else the first that
        suit."""
        given: list[Slice] = []
        for at in range(asked.count if asked else 0):
            group = groups[at] if at < len(groups) else ""
            given.append(self._slice(asked, group, {each.device for each in given}))
        for each in given:
            self._left[each.device] -= each.milli
        return tuple(given)

    def _slice(self, asked: GpuRequest | None, group: str, used: set[int]) -> Slice:
        shared = set(self._groups.values())
        for device, milli in self._fitting(asked):
            is_theirs = self._groups.get(group) == device
            if device in used or (device in shared and not is_theirs):
                continue
            if milli < WHOLE and group and not is_theirs:
                if group in self._groups or self._left[device] < WHOLE:
                    continue
                self._groups[group] = device
            return Slice(device, milli)
        raise Untranslatable("more runs on a node than its GPUs hold")

    def _fitting(self, asked: GpuRequest | None) -> Iterator[tuple[int, int]]:
        for device, card in enumerate(self._cards):
            if asked is not None and card.model in asked.models:
                milli = milli_asked(card, asked)
                if milli <= self._left[device]:
                    yield device, milli
