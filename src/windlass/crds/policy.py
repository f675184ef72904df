"""`Policy`: the engine's settings, field by field (`model/settings.py`)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from windlass.crds.amounts import Thousandths
from windlass.crds.base import AS_SET, CrdModel

NAME = "default"
"""One policy counts for the whole cluster, and this is its name."""

Seconds: TypeAlias = Annotated[int, Field(ge=0, le=10**9)]
FromOneSecond: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
Never: TypeAlias = Annotated[int, Field(ge=-1, le=10**9)]


class PolicySpec(CrdModel):
    """The numbers behind sharing, packing and waiting; what is not given keeps its default."""

    nodes: Literal["pack", "spread"] = "pack"
    """Fill used nodes first, so that large gangs still find whole ones, or use the emptiest
    first."""
    gpus: Literal["pack", "spread"] = "pack"
    """The same for GPUs inside a node."""
    half_life_seconds: FromOneSecond = 7 * 24 * 3600
    """After this time, past usage counts half."""
    usage_effect: Annotated[Thousandths, Field(json_schema_extra={"default": 1})] = 1000
    """How strongly usage bends the shares of the surplus: 1, "0.5"; 0 turns it off."""
    epoch_seconds: FromOneSecond = 60
    """Usage changes shares only this often, so that order does not flicker."""
    reserve_after_seconds: Seconds = 1800
    """The head of the line gets a reservation after waiting this long."""
    order: Literal["fair", "first-come", "shortest", "least-served"] = "fair"
    """Who is next inside a queue, of equal priority: the user who has and had least; the oldest;
    whoever needs least GPU time until its expected end; whoever has had least GPU time."""
    age_seconds: Seconds = 0
    """Each time a gang has waited so long, `shortest` and `least-served` count it as one level
    better; 0: never."""
    displacing: list[Literal["consolidate", "reclaim", "preempt"]] = Field(
        default=["consolidate", "reclaim", "preempt"], max_length=3, json_schema_extra=AS_SET
    )
    """What may be done for a gang that finds no room: move running gangs, take back from another
    queue, stop lower priorities of its own queue. An empty list: nothing."""
    victims: Literal["least-harm", "youngest", "lowest-priority"] = "least-harm"
    """Whom to displace, of those that may be: whoever loses least GPU time, the youngest, or by
    priority alone."""
    min_run_seconds: Seconds = 0
    """Nothing is displaced before it has run so long, unless its queue says otherwise."""
    dwell_seconds: Seconds = 600
    """What runs for less is neither moved nor reclaimed towards shares; guarantees and priorities
    do not wait for it."""
    patience_seconds: Seconds = 1800
    """So long a gang waits for a gentler way, before others lose far more than it needs."""
    stale_after_seconds: Never = 60
    """A gang that has run below its minimum for so long is given back; -1: never."""
    stuck_after_seconds: Seconds = 600
    """What has been terminating for so long is not expected to come free."""
    longest_grace_seconds: FromOneSecond = 600
    """No pod that we place has longer than this to end after it is told to, whatever its
    terminationGracePeriodSeconds says."""
    lost_after_seconds: Never = 60
    """Gangs on a node that has not answered for so long start elsewhere; -1: not before its pods
    are gone."""
    heed_notices: bool = True
    """Gangs on a node that is about to go (spot, maintenance, an autoscaler) start elsewhere before
    it does."""
    delete_from_lost: bool = False
    """Pods that hang in termination on a node that is lost by that time are deleted without
    waiting for it, as they are where it is gone or tainted out-of-service."""
    quarantine_after: Annotated[int, Field(ge=0, le=10**6)] = 3
    """A node on which so many different gangs failed, and nothing ended well since, takes nobody
    new; 0: it always does."""
    quarantine_seconds: FromOneSecond = 3600
    """For so long."""
    give_up_after: Annotated[int, Field(ge=0, le=10**6)] = 6
    """A gang that failed so often, on three nodes or more, is not tried again while these failures
    count; 0: it always is."""
    failure_window_seconds: FromOneSecond = 3600
    """For so long a failure counts, against a node or a gang."""
    search_again_seconds: Seconds = 30
    """After a search in vain a gang waits at least so long for the next one, up to ten times that
    as it grows old; changed nodes and queues are looked at at once."""
    search_steps: Annotated[int, Field(ge=1, le=10**9)] = 20_000
    """How much one cycle may try for gangs that found no room; the next goes on from there."""
