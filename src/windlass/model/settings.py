"""What a platform team may turn: the numbers behind sharing, packing and waiting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Displacing(StrEnum):
    """The ways to make room for a gang by displacing others."""

    CONSOLIDATE = "consolidate"
    """Move running gangs, so that nobody loses its place."""
    RECLAIM = "reclaim"
    """Take back from another queue, towards guarantees and shares."""
    PREEMPT = "preempt"
    """Within a queue, from a lower priority."""


class Victims(StrEnum):
    """Whom to displace, of those that may be."""

    LEAST_HARM = "least-harm"
    """Low priorities first, then whoever loses least GPU time; moves must be worth their harm."""
    YOUNGEST = "youngest"
    """Low priorities first, then the youngest, as other schedulers do; to compare with."""
    LOWEST_PRIORITY = "lowest-priority"
    """Low priorities first, and nothing else; to compare with."""


class Ordering(StrEnum):
    """Who is next inside a queue, of gangs of equal priority; between queues the tree rules."""

    FAIR = "fair"
    """The user who has and had least, then the oldest."""
    FIRST_COME = "first-come"
    """The oldest."""
    SHORTEST = "shortest"
    """Whoever needs least GPU time until its expected end; it may stop those that need far more."""
    LEAST_SERVED = "least-served"
    """Whoever has had least GPU time; it may stop those that have had far more."""


class Packing(StrEnum):
    """How tasks are laid out."""

    PACK = "pack"
    """Fill what is in use first, so that large gangs still find whole nodes."""
    SPREAD = "spread"
    """Use the emptiest first, so that tasks disturb each other least."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's settings; part of a snapshot, so that a plan can be repeated."""

    nodes: Packing = Packing.PACK
    gpus: Packing = Packing.PACK
    half_life_s: int = 7 * 24 * 3600
    """After this time, past usage counts half."""
    usage_effect: int = 1000
    """How strongly usage bends the surplus weights, in thousandths; 0 turns it off."""
    epoch_s: int = 60
    """Usage changes shares only this often, so that order does not flicker."""
    reserve_after_s: int = 1800
    """The head of the line gets a reservation after waiting this long."""
    order: Ordering = Ordering.FAIR
    """Who is next inside a queue."""
    age_s: int = 0
    """Each time a gang has waited so long it counts as one level better; 0: it never does."""
    displacing: tuple[Displacing, ...] = tuple(Displacing)
    """What may be done for a gang that finds no room."""
    victims: Victims = Victims.LEAST_HARM
    min_run_s: int = 0
    """Nothing is displaced before it has run so long, unless its queue says otherwise."""
    dwell_s: int = 600
    """What runs for less is neither moved nor reclaimed towards shares: queues whose shares sway
    exchange nothing more often than this. Guarantees and priorities do not wait for it."""
    patience_s: int = 1800
    """So long a gang waits for a gentler way, before others lose far more than it needs."""
    stale_after_s: int = 60
    """A gang that has run below its minimum for so long is given back."""
    stuck_after_s: int = 600
    """What has been terminating for so long is not expected to come free."""
    longest_grace_s: int = 600
    """No pod has longer than this between SIGTERM and SIGKILL, whatever it asks for."""
    lost_after_s: int = 60
    """Gangs on a node that has not answered for so long are started elsewhere; negative: never."""
    heed_notices: bool = True
    """Gangs on a node that is about to go are started elsewhere before it does."""
    delete_from_lost: bool = False
    """Pods that hang in termination on such a node are deleted, as if it were gone for certain."""
    quarantine_after: int = 3
    """A node on which so many different gangs failed takes nobody new; 0: it always does."""
    quarantine_s: int = 3600
    """For so long."""
    give_up_after: int = 6
    """A gang that failed so often, on three nodes or more, is not tried again; 0: it always is."""
    failure_window_s: int = 3600
    """For so long a failure counts."""
    search_again_s: int = 30
    """After a search in vain a gang waits at least so long for the next, up to ten times that as it
    grows old; changed nodes and queues are looked at at once."""
    search_steps: int = 20_000
    """How much a cycle may try for gangs that found no room; the next one goes on from there."""
