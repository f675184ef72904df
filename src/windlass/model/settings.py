"""The settings of the engine: the numbers behind sharing, packing, preemption and waiting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Displacing(StrEnum):
    """The ways to displace running gangs for another gang."""

    CONSOLIDATE = "consolidate"
    """Move running gangs to other nodes; no gang loses its place."""
    RECLAIM = "reclaim"
    """Evict gangs of another queue, towards guarantees and shares."""
    PREEMPT = "preempt"
    """Evict gangs of the same queue with a lower priority."""


class Victims(StrEnum):
    """The order in which candidates become victims."""

    LEAST_HARM = "least-harm"
    """Low priorities first, then the gangs that lose least GPU time; a move must be worth it."""
    YOUNGEST = "youngest"
    """Low priorities first, then the youngest, as other schedulers do; for comparisons."""
    LOWEST_PRIORITY = "lowest-priority"
    """Low priorities first, and nothing else; for comparisons."""


class Ordering(StrEnum):
    """The order of gangs of equal priority inside a queue; between queues, shares decide."""

    FAIR = "fair"
    """Gangs of the user with least current and past use first, then the oldest."""
    FIRST_COME = "first-come"
    """The oldest first."""
    SHORTEST = "shortest"
    """The least expected remaining GPU time first; it may preempt gangs that need far more."""
    LEAST_SERVED = "least-served"
    """The least GPU time so far first; it may preempt gangs that have had far more."""


class Packing(StrEnum):
    """The preference between nodes, or between GPUs of a node, that all fit."""

    PACK = "pack"
    """The fullest first, so that whole nodes stay free for large gangs."""
    SPREAD = "spread"
    """The emptiest first, so that tasks disturb each other least."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's settings. Part of every snapshot, so that a plan can be repeated."""

    nodes: Packing = Packing.PACK
    gpus: Packing = Packing.PACK
    half_life_s: int = 7 * 24 * 3600
    """The time after which past usage counts half."""
    usage_effect: int = 1000
    """The effect of past usage on the weights for surplus, in thousandths; 0: none."""
    epoch_s: int = 60
    """The period after which usage changes shares, so that the order of gangs is stable."""
    reserve_after_s: int = 1800
    """The waiting time after which the first gang of the order gets a reservation."""
    order: Ordering = Ordering.FAIR
    """The order of gangs inside a queue."""
    age_s: int = 0
    """The waiting time that raises a gang by one level of its order; 0: it never rises."""
    displacing: tuple[Displacing, ...] = tuple(Displacing)
    """The ways of displacing that are allowed for a gang that finds no room."""
    victims: Victims = Victims.LEAST_HARM
    min_run_s: int = 0
    """The run time before which a gang is not displaced, unless its queue says otherwise."""
    dwell_s: int = 600
    """The run time before which a gang is neither moved nor reclaimed towards shares: queues whose
    shares fluctuate exchange nothing more often. Guarantees and priorities ignore it."""
    patience_s: int = 1800
    """The time that a gang waits for a cheaper way, before victims lose far more than it needs."""
    stale_after_s: int = 60
    """The time after which a gang that runs below its minimum is evicted."""
    stuck_after_s: int = 600
    """The time after which a terminating task counts as stuck: its place is not expected back."""
    longest_grace_s: int = 600
    """The longest time between SIGTERM and SIGKILL, whatever a pod asks for."""
    lost_after_s: int = 60
    """The time after which gangs of an unreachable node start elsewhere; negative: never."""
    heed_notices: bool = True
    """Start gangs of a node that announces its end elsewhere before it ends."""
    delete_from_lost: bool = False
    """Force-delete pods that hang in termination on an unreachable node."""
    quarantine_after: int = 3
    """The number of different gangs whose failures quarantine a node; 0: never."""
    quarantine_s: int = 3600
    """The duration of a quarantine."""
    give_up_after: int = 6
    """The number of failures, on three nodes or more, after which a gang is not retried; 0: it
    always is."""
    failure_window_s: int = 3600
    """The time for which a failure counts."""
    search_again_s: int = 30
    """The least time between two searches for victims for the same gang; it grows up to ten times
    as the gang ages. A change of nodes or queues allows a search at once."""
    search_steps: int = 20_000
    """The budget of a cycle for searches for victims; the next cycle continues from there."""
