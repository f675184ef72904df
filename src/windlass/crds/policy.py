"""The model of `Policy`: the settings of the engine, field by field (`model/settings.py`)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from windlass.crds.amounts import Thousandths
from windlass.crds.base import AS_SET, CrdModel

NAME = "default"
"""The name of the only policy of a cluster."""

Seconds: TypeAlias = Annotated[int, Field(ge=0, le=10**9)]
FromOneSecond: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
Never: TypeAlias = Annotated[int, Field(ge=-1, le=10**9)]
"""Seconds; -1 means never."""


class PolicySpec(CrdModel):
    """The settings of the scheduler; a field that is not given keeps its default."""

    nodes: Literal["pack", "spread"] = "pack"
    """pack: fill nodes in use first, so that whole nodes stay free for large gangs; spread: prefer
    the emptiest nodes."""
    gpus: Literal["pack", "spread"] = "pack"
    """The same choice for the GPUs inside a node."""
    half_life_seconds: FromOneSecond = 7 * 24 * 3600
    """The time after which past usage counts half."""
    usage_effect: Annotated[Thousandths, Field(json_schema_extra={"default": 1})] = 1000
    """The weight of past usage when the surplus is divided: 1, "0.5"; 0 ignores usage."""
    epoch_seconds: FromOneSecond = 60
    """The interval at which usage is applied to the shares; a short one lets the order of gangs
    fluctuate."""
    reserve_after_seconds: Seconds = 1800
    """The waiting time after which the first gang in the order gets a reservation."""
    order: Literal["fair", "first-come", "shortest", "least-served"] = "fair"
    """The order of gangs of equal priority inside a queue. fair: the user with the least current
    and past usage first; first-come: the oldest first; shortest: the least GPU time until the
    expected end first; least-served: the least GPU time so far first."""
    age_seconds: Seconds = 0
    """The waiting time after which the orders shortest and least-served raise a gang by one level,
    again and again; 0: never."""
    displacing: list[Literal["consolidate", "reclaim", "preempt"]] = Field(
        default=["consolidate", "reclaim", "preempt"], max_length=3, json_schema_extra=AS_SET
    )
    """The ways to make room for a gang that finds none. consolidate: move running gangs; reclaim:
    evict gangs of queues that hold more than they are entitled to; preempt: evict gangs of lower
    priority in the same queue. An empty list: running gangs are never displaced."""
    victims: Literal["least-harm", "youngest", "lowest-priority"] = "least-harm"
    """The order of victims among the gangs that may be displaced. least-harm: the least lost GPU
    time first; youngest: the latest start first; lowest-priority: by priority alone."""
    min_run_seconds: Seconds = 0
    """The time for which a gang runs before it may be displaced, unless its queue sets another."""
    dwell_seconds: Seconds = 600
    """The time for which a gang runs before it may be moved or reclaimed in favour of fairer
    shares. Reclaim for a guarantee and preemption by priority do not wait for it."""
    patience_seconds: Seconds = 1800
    """The time that a gang waits for a cheaper way before victims may lose far more than it
    needs."""
    stale_after_seconds: Never = 60
    """The time after which a gang that runs below its minimum is stopped and queued again; -1:
    never."""
    stuck_after_seconds: Seconds = 600
    """The time after which the room of a terminating pod is no longer expected to become free."""
    longest_grace_seconds: FromOneSecond = 600
    """The longest termination grace of a pod that Windlass places, whatever its
    terminationGracePeriodSeconds says."""
    lost_after_seconds: Never = 60
    """The time after which the gangs of a node that does not answer start elsewhere; -1: not before
    its pods are gone."""
    heed_notices: bool = True
    """True: gangs on a node that is about to be removed (spot, maintenance, an autoscaler) start
    elsewhere before that."""
    delete_from_lost: bool = False
    """True: pods that hang in termination on a node that is lost for lostAfterSeconds are force
    deleted. On a node that is gone or tainted out-of-service they always are."""
    quarantine_after: Annotated[int, Field(ge=0, le=10**6)] = 3
    """The number of different gangs that fail on a node, without a success since, before the node
    is quarantined and gets no new pods; 0: never."""
    quarantine_seconds: FromOneSecond = 3600
    """The duration of a quarantine."""
    give_up_after: Annotated[int, Field(ge=0, le=10**6)] = 6
    """The number of failures of a gang, on three nodes or more, after which it is not started again
    while these failures count; 0: without limit."""
    failure_window_seconds: FromOneSecond = 3600
    """The time for which a failure counts against its node and its gang."""
    search_again_seconds: Seconds = 30
    """The least time between two searches for victims for the same gang; it grows to ten times that
    as the gang waits. A change of nodes or queues starts a search at once."""
    search_steps: Annotated[int, Field(ge=1, le=10**9)] = 20_000
    """The budget of search steps of one cycle for gangs that found no room; the next cycle
    continues where it ended."""
