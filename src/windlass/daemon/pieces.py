"""What a brain takes note of: objects that were seen or lost, and what became of our writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.kube.asking import Heard, Unasked
from windlass.kube.carry_out import BindFailed, PodLost, PodRead
from windlass.kube.dcgm import Measured
from windlass.kube.evict import EvictRefused
from windlass.kube.suspend import TurnFailed
from windlass.workloads import wire
from windlass.workloads.volumes_wire import Stored

Kind: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Seen:
    """An object of a kind is new or has changed."""

    kind: Kind
    object: wire.Pod | wire.Node | wire.Owner | wire.PriorityClass | Stored


@dataclass(frozen=True, slots=True)
class Lost:
    """An object of a kind is gone."""

    kind: Kind
    object: wire.Pod | wire.Node | wire.Owner | wire.PriorityClass | Stored


Piece: TypeAlias = (
    Seen
    | Lost
    | BindFailed
    | PodRead
    | PodLost
    | EvictRefused
    | Heard
    | Unasked
    | TurnFailed
    | Measured
)
