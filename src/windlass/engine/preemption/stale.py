"""Stale gangs: what is left of a gang that lost members and did not get them back in time.

Half a gang holds GPUs and does no work. After a grace it is given back whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from windlass.model.jobs import ACTIVE, Gang, GangId, Task
from windlass.state.cluster import Cluster


def stale(cluster: Cluster, repaired: Collection[GangId]) -> Iterator[Task]:
    """The tasks of gangs that have been below their minimum for too long."""
    for gang, since in sorted(cluster.broken.items()):
        grace = grace_of(cluster, cluster.gangs[gang])
        if gang not in repaired and grace is not None and cluster.now - since >= grace:
            yield from sorted(
                (task for task in cluster.members(gang) if task.state in ACTIVE),
                key=lambda task: task.id,
            )


def stale_at(cluster: Cluster) -> Iterator[int]:
    """The instants at which gangs become stale."""
    for gang, since in cluster.broken.items():
        grace = grace_of(cluster, cluster.gangs[gang])
        if grace is not None:
            yield since + grace


def grace_of(cluster: Cluster, gang: Gang) -> int | None:
    """Return how long, in seconds, a gang may run below its minimum; None: for ever.

    Its owner gets the time to make the lost member again.
    """
    said = gang.stale_after_s
    grace = cluster.settings.stale_after_s if said is None else said
    return None if grace < 0 else max(grace, gang.remade_within_s)
