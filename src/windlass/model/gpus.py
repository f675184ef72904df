"""GPU devices, the requests of tasks for them, and the slices that tasks are given.

A device is shared in one of two ways. Without MIG it is 1000 thousandths (*milli*), handed out to
whole-GPU tasks, to fractions, or by memory (converted to thousandths of that device). With MIG it
is cut into instances at legal places, see `gpu/mig.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE = 1000
"""Thousandths of one GPU."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device of a node."""

    model: str
    memory_mib: int
    mig: bool = False
    healthy: bool = True
    charged_milli: int = WHOLE
    """The amount charged to a queue that uses all of this device, in milli-GPU. It is less than
    `WHOLE` if the device is only a share of a GPU or a MIG instance."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A request for `count` devices: of each a share, some memory, or a MIG instance.

    Exactly one of the three holds: `profile` is named; else `memory_mib` is above zero; else
    `milli` decides, and 1000 means the whole device. Several MIG instances may share a device;
    several shares may not. `models` lists the accepted models; empty means any.
    """

    count: int = 1
    milli: int = WHOLE
    memory_mib: int = 0
    profile: str = ""
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """The part of one device that a task was given: thousandths, or a MIG instance at a place."""

    device: int
    milli: int
    profile: str = ""
    start: int = 0


def value_of_model(model: str, memory_mib: int) -> int:
    """Return the value of a model: its usual price, in tenths of a dollar per hour.

    Tasks that accept any model go to the cheapest, so that the expensive ones stay free for those
    that need them. A model that is not listed is valued by its memory.
    """
    return min(WORTH.get(model, memory_mib // 2048), MOST_WORTH)


MOST_WORTH = 200
WORTH = {
    "T4-16GB": 5,
    "L4-24GB": 8,
    "A10-24GB": 10,
    "A30-24GB": 14,
    "V100-32GB": 16,
    "L40S-48GB": 19,
    "A100-40GB": 27,
    "A100-80GB": 34,
    "RTX-PRO-6000-Blackwell-96GB": 34,
    "H100-80GB": 69,
    "H100-94GB": 70,
    "H100-96GB": 71,
    "H200-141GB": 79,
    "GH200-144GB": 80,
    "B200-180GB": 142,
    "GB200-186GB": 150,
    "B300-269GB": 178,
    "GB300-278GB": 186,
}


def charge_for(milli: int, charged_milli: int) -> int:
    """Return the charge for `milli` thousandths of a device that is charged `charged_milli` as a
    whole, rounded up."""
    return milli if charged_milli == WHOLE else -(-milli * charged_milli // WHOLE)


def milli_of_memory(memory_mib: int, device_memory_mib: int) -> int:
    """Return the thousandths of a device that cover an amount of its memory, rounded up."""
    return -(-memory_mib * WHOLE // device_memory_mib)
