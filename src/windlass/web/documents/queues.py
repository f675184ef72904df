"""The tree of queues: what each should have, has, borrows, lends and waits for.

The numbers are those that the status of a Queue gets, from the same function; but only gangs in
line count as waiting here, as on the page of jobs, and not those that run and would like to grow;
and what a queue lends to its siblings counts as lent.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.model.queues import GPU, guaranteed
from windlass.web.documents.flows import flows, lent_by
from windlass.web.documents.requested_gpus import is_waiting
from windlass.web.documents.tree import in_order, path_of
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.view import ClusterView
from windlass.web.schema.documents import Past, QueueRow, QueuesDocument


def queues_document(look: ClusterView, members: GangMemberIndex, past: Past) -> QueuesDocument:
    """All queues, parents before their children, and what they had before."""
    rows = queue_rows(look, members)
    found = flows(rows, look.free)
    lent = lent_by(rows, found)
    return QueuesDocument(
        stamp=look.stamp,
        capacity=look.hardware.capacity,
        free=look.free,
        queues=[replace(row, lent=lent[row.name]) for row in rows],
        flows=found,
        past=past,
    )


def queue_rows(look: ClusterView, members: GangMemberIndex) -> list[QueueRow]:
    """A row per queue."""
    numbers, waiting = look.balances, _waiting(look, members)
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
        for queue, depth in in_order(look.queues)
    ]


def _waiting(look: ClusterView, members: GangMemberIndex) -> dict[str, tuple[int, int]]:
    """Per queue, with all below it: the gangs in line and the GPU thousandths they ask for."""
    sums: dict[str, tuple[int, int]] = {}
    for decision in look.plan.decisions:
        if is_waiting(decision) and decision.gang in look.gangs:
            gangs, milli = sums.get(decision.queue, (0, 0))
            sums[decision.queue] = gangs + 1, milli + members.asked.get(decision.gang, 0)
    above: dict[str, tuple[int, int]] = {}
    for queue, (some, asked) in sums.items():
        for each in path_of(queue, look.queues):
            gangs, milli = above.get(each, (0, 0))
            above[each] = gangs + some, milli + asked
    return above
