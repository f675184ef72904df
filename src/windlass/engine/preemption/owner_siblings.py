"""Gangs of one owner stop together: suspending the owner deletes the pods of all of them.

A JobSet that starts its jobs in order, or an MPIJob with a launcher, has several gangs. When one of
them is evicted whole, the others that run go with it, by the same rule and for the same gang.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.model.actions import Action, Bind, Evict
from windlass.model.jobs import ACTIVE
from windlass.state.cluster import Cluster


def siblings_that_go(cluster: Cluster, actions: Iterable[Action]) -> list[Evict]:
    """Return the evictions of running gangs whose owner is stopped by the actions of a plan.

    A gang that the same plan starts is left out; its owner is then stopped by a later plan.
    """
    planned = list(actions)
    gone = {each.task: each for each in planned if isinstance(each, Evict)}
    starting = {cluster.tasks[each.task].gang for each in planned if isinstance(each, Bind)}
    found: list[Evict] = []
    for gang, evictions in cluster.by_gang(gone.values()).items():
        siblings = [each for each in cluster.siblings(cluster.gangs[gang]) if each not in starting]
        stays = (task for task in cluster.members(gang) if task.state in ACTIVE)
        if not siblings or any(task.id not in gone for task in stays):
            continue
        for task in (task for name in siblings for task in cluster.members(name)):
            if task.state in ACTIVE and task.id not in gone:
                gone[task.id] = Evict(task.id, evictions[0].rule, evictions[0].gainer)
                found.append(gone[task.id])
    return found
