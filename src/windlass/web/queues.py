"""The tree of queues: what each should have, has, borrows, lends and waits for.

The numbers are those that the status of a Queue gets, from the same function; but only gangs in
line count as waiting here, as on the page of jobs, and not those that run and would like to grow.
"""

from __future__ import annotations

from windlass.controllers.queue_status import queue_numbers
from windlass.engine.plan import Plan
from windlass.model.gpus import WHOLE
from windlass.model.queues import GPU, guaranteed
from windlass.state.cluster import Cluster
from windlass.web.asked import Asked
from windlass.web.documents import Past, QueueRow, QueuesDocument, Stamp
from windlass.web.tree import in_order


def queues_document(stamp: Stamp, cluster: Cluster, plan: Plan, past: Past) -> QueuesDocument:
    """All queues, parents before their children, and what they had before."""
    healthy = (gpu for node in cluster.nodes.values() for gpu in node.gpus if gpu.healthy)
    return QueuesDocument(
        stamp=stamp,
        capacity=sum(WHOLE for _ in healthy),
        free=cluster.columns.free_gpu() if cluster.nodes else 0,
        queues=queue_rows(cluster, plan),
        past=past,
    )


def queue_rows(cluster: Cluster, plan: Plan) -> list[QueueRow]:
    """A row per queue."""
    numbers, waiting = queue_numbers(cluster, plan), Asked(cluster).by_queue(plan)
    return [
        QueueRow(
            name=queue.name,
            parent=queue.parent,
            depth=depth,
            guarantee=guaranteed(queue, GPU),
            share=numbers[queue.name].share.get(GPU, 0),
            allocated=numbers[queue.name].allocated.get(GPU, 0),
            borrowed=numbers[queue.name].borrowed.get(GPU, 0),
            lent=numbers[queue.name].lent.get(GPU, 0),
            limit=queue.limit.get(GPU),
            weight=queue.weight,
            waiting_gangs=waiting.get(queue.name, (0, 0))[0],
            waiting=waiting.get(queue.name, (0, 0))[1],
            usage=numbers[queue.name].milli_seconds,
        )
        for queue, depth in in_order(cluster.queues)
    ]
