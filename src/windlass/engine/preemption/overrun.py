"""Gangs that have run for as long as they may: they save their work, and stop.

The time counts from when the minimum of a gang last came up: growth does not begin it anew, and a
member that was lost and replaced does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from windlass.model.jobs import ACTIVE, COUNTED, Gang, GangId, Task
from windlass.state.cluster import Cluster


def overrun(cluster: Cluster, others: Collection[GangId]) -> Iterator[Task]:
    """The tasks of gangs that have run for too long; not of those about which it is decided."""
    for name in sorted(cluster.timed - set(others)):
        at = stops_at(cluster, cluster.gangs[name])
        if at is not None and at <= cluster.now:
            active = (task for task in cluster.members(name) if task.state in ACTIVE)
            yield from sorted(active, key=lambda task: task.id)


def overrun_at(cluster: Cluster) -> Iterator[int]:
    """The instants at which gangs will have run for too long."""
    for name in cluster.timed:
        at = stops_at(cluster, cluster.gangs[name])
        if at is not None and at > cluster.now:
            yield at


def stops_at(cluster: Cluster, gang: Gang) -> int | None:
    """When the gang has run for as long as it may; None if it does not run, or may for ever."""
    there = [task for task in cluster.members(gang.id) if task.state in COUNTED]
    began = sorted(task.started_at for task in there if task.started_at is not None)
    if gang.max_run_s is None or not began or len(began) < gang.needed():
        return None
    return began[max(gang.needed(), 1) - 1] + gang.max_run_s
