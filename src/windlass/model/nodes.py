"""Nodes: their allocatable resources, labels, taints and troubles."""

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
    """The severity of a node's trouble. In all of them the node takes no new tasks."""

    AVOIDED = "avoided"
    """Running tasks continue."""
    LEAVES = "leaves"
    """The node will end soon; its tasks should move before."""
    LOST = "lost"
    """The node does not answer; its tasks count as dead after a grace period."""


@dataclass(frozen=True, slots=True)
class NodeTrouble:
    """A reason for which a node takes no new tasks."""

    stand: NodeStanding
    what: str
    """A phrase that follows "the node is", such as "not ready"."""
    since: int = 0
    """The time at which it began; 0: it is certain, so no grace period applies."""
    until: int | None = None
    """The time at which a leaving node ends, or an avoided one is tried again; None: unknown."""
    taint: str = ""
    """The key of the taint that announced it: tasks that tolerate it by name stay."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A ban on new tasks, because work failed on the node again and again."""

    what: str
    """The reason, in words."""
    until: int | None = None
    """The time at which the node is tried or checked again; None: when a person or a check says
    so."""
    check_since: int | None = None
    """The time since which a check Job of the node is due; the Job is named after it. With `until`,
    that check has failed. None: no check is due."""

    @property
    def awaits_check(self) -> bool:
        """True until the check Job of this quarantine has succeeded or failed."""
        return self.check_since is not None and self.until is None


@dataclass(frozen=True, slots=True)
class Node:
    """A machine's allocatable resources and properties. A cordoned node takes no new tasks."""

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
        """True if it takes new tasks. Tasks that tolerate the cordon taint may come anyway."""
        return not self.cordoned and not self.is_troubled

    @property
    def is_troubled(self) -> bool:
        """True if it takes no new tasks, whatever they tolerate."""
        return self.trouble is not None or self.quarantine is not None

    @property
    def ailment(self) -> str:
        """A phrase for its trouble or quarantine that follows "the node is"; empty: none."""
        if self.trouble is not None:
            return self.trouble.what
        return f"quarantined: {self.quarantine.what}" if self.quarantine else ""


@dataclass(frozen=True, slots=True)
class Topology:
    """A named list of label keys, from wide (zone) to narrow (rack, NVLink domain)."""

    name: str
    levels: tuple[str, ...]
