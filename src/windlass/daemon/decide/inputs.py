"""What a brain takes note of: objects that were seen or lost, and what became of our writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.kube.client.dcgm_scraper import Measured
from windlass.kube.writers.binder import BindRejected, PodLost, PodRead
from windlass.kube.writers.checkpoint import Heard, Unasked
from windlass.kube.writers.evictor import EvictRefused
from windlass.kube.writers.suspend import TurnFailed
from windlass.workloads.objects import wire
from windlass.workloads.objects.storage_wire import Stored

Kind: TypeAlias = str


@dataclass(frozen=True, slots=True)
class ObjectObserved:
    """An object of a kind is new or has changed."""

    kind: Kind
    object: wire.Pod | wire.NodeObject | wire.Owner | wire.PriorityClass | Stored


@dataclass(frozen=True, slots=True)
class Lost:
    """An object of a kind is gone."""

    kind: Kind
    object: wire.Pod | wire.NodeObject | wire.Owner | wire.PriorityClass | Stored


StepInput: TypeAlias = (
    ObjectObserved
    | Lost
    | BindRejected
    | PodRead
    | PodLost
    | EvictRefused
    | Heard
    | Unasked
    | TurnFailed
    | Measured
)
