"""Nodes: what a machine offers, and the labels and taints that say to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.model.constraints import Taint
from windlass.model.gpus import Gpu


def _nothing() -> dict[str, str]:
    return {}


def _no_extra() -> dict[str, int]:
    return {}


class NodeStanding(StrEnum):
    """How far a node that is in trouble can be counted on; all of them take no new tasks."""

    AVOIDED = "avoided"
    """What runs there goes on."""
    LEAVES = "leaves"
    """It is about to go, and its tasks should before it does."""
    LOST = "lost"
    """It does not answer: its tasks are taken for dead after a grace."""


@dataclass(frozen=True, slots=True)
class NodeTrouble:
    """What is wrong with a node."""

    stand: NodeStanding
    what: str
    """In words that follow "the node is", such as "not ready"."""
    since: int = 0
    """When it began; 0: it is certain, and nobody need wait whether it passes."""
    until: int | None = None
    """When a node that leaves is gone, or one that is avoided is tried again; None: unknown."""
    taint: str = ""
    """The taint that tells it: whoever tolerates it by name stays until the node is gone."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Work failed on a node again and again: it takes nobody new for a while."""

    what: str
    until: int | None = None
    """When it is tried again; None: when a person says so."""


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
    trouble: NodeTrouble | None = None
    quarantine: Quarantine | None = None

    @property
    def is_open(self) -> bool:
        """Does it take new tasks? Of a cordon by taint, who tolerates that thinks otherwise."""
        return not self.cordoned and not self.is_troubled

    @property
    def is_troubled(self) -> bool:
        """Does it take no new tasks, whatever they tolerate?"""
        return self.trouble is not None or self.quarantine is not None

    @property
    def ailment(self) -> str:
        """What is wrong with it, in words that follow "the node is"; empty if nothing is."""
        if self.trouble is not None:
            return self.trouble.what
        return f"quarantined: {self.quarantine.what}" if self.quarantine else ""
