"""What the top queues had before a cycle and have after it, beside their shares."""

from __future__ import annotations

from collections import Counter

from windlass.engine.plan import Plan
from windlass.model.actions import Bind, Evict
from windlass.model.jobs import OCCUPYING, TaskId
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster
from windlass.state.queue_accounts import charged_milli
from windlass.web.schema.cycles import ShareRow

MOST_QUEUES = 8
"""So many are told of: cycles are kept by the hundred."""


def bound_milli(cluster: Cluster, bind: Bind) -> int:
    """The GPU thousandths for which a bind charges the queue of its task."""
    request = cluster.tasks[bind.task].shape.request
    return charged_milli(request, bind.devices, cluster.nodes.get(bind.node))


def evicted_milli(cluster: Cluster, evict: Evict) -> int:
    """The GPU thousandths that an eviction gives back."""
    task = cluster.tasks[evict.task]
    return charged_milli(task.shape.request, task.devices, cluster.nodes.get(task.node))


def share_rows(cluster: Cluster, plan: Plan) -> list[ShareRow]:
    """The top queues, as if what is evicted were gone already.

    The plan may have been assumed by the cluster or not: a task counts as the cluster has it.
    """
    bound: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    """What of the bound is part of what the cluster says that its queue has."""
    for bind in plan.binds:
        queue, milli = _top(cluster, bind.task), bound_milli(cluster, bind)
        bound[queue] += milli
        counted[queue] += milli if cluster.tasks[bind.task].state in OCCUPYING else 0
    for each in plan.evictions:
        gone[_top(cluster, each.task)] += evicted_milli(cluster, each)
    rows = [
        ShareRow(
            queue=name,
            before=(before := cluster.allocated(name, GPU) - counted[name]),
            after=before + bound[name] - gone[name],
            share=plan.shares.get(name, {}).get(GPU, 0),
        )
        for name, queue in cluster.queues.items()
        if queue.parent not in cluster.queues
    ]
    first = sorted(rows, key=lambda row: (row.before == row.after, -max(row.before, row.share)))
    told = {row.queue for row in first[:MOST_QUEUES]}
    return [row for row in rows if row.queue in told]


def _top(cluster: Cluster, task: TaskId) -> str:
    path = cluster.accounts.path(cluster.gangs[cluster.tasks[task].gang].queue)
    return path[-1] if path else ""
