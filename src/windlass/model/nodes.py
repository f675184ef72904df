"""Nodes: what a machine offers, and the labels and taints that say to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.model.constraints import Taint
from windlass.model.gpus import Gpu


def _nothing() -> dict[str, str]:
    return {}


def _no_extra() -> dict[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Node:
    """A machine's allocatable resources; `cordoned` takes no new tasks."""

    name: str
    cpu_milli: int = 0
    memory_mib: int = 0
    pods: int = 110
    gpus: tuple[Gpu, ...] = ()
    extra: Mapping[str, int] = field(default_factory=_no_extra)
    labels: Mapping[str, str] = field(default_factory=_nothing)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
