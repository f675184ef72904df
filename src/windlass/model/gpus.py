"""GPUs as devices, what a task may ask of them, and what it is then given.

A device is shared in one of two ways. Without MIG it is 1000 thousandths (*milli*), handed out to
whole-GPU tasks, to fractions, or by memory (converted to thousandths of that device). With MIG it
is cut into instances at legal places, see `mig.py`.
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


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What one task asks: `count` devices, of each a share, some memory, or a MIG instance.

    Exactly one of the three holds: `profile` is named; else `memory_mib` is above zero; else
    `milli` decides, and 1000 means the whole device. Several MIG instances may share a device;
    several shares may not. `models` lists the models that will do, none means any.
    """

    count: int = 1
    milli: int = WHOLE
    memory_mib: int = 0
    profile: str = ""
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """What a task was given of one device: thousandths, or a MIG instance at a place."""

    device: int
    milli: int
    profile: str = ""
    start: int = 0


def milli_of_memory(memory_mib: int, device_memory_mib: int) -> int:
    """The thousandths of a device that cover so much of its memory, rounded up."""
    return -(-memory_mib * WHOLE // device_memory_mib)
