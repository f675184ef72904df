"""The tree of queues: the share, allocation and backlog of each, and who borrows from whom.

The numbers are those of the status of a Queue, from the same function, with two differences: only
gangs that wait to start count as waiting, as on the page of jobs, and not elastic gangs that run
and could grow; and what a queue lends to its siblings counts as lent.

The table of queues counts all gangs. It is computed once per moment, of the whole view; the
document for a viewer has only the rows of the queues in the viewer's own view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from windlass.model.queues import GPU, ROOT, Queue, guaranteed
from windlass.web.feed import ClusterView, GangMemberIndex, is_waiting
from windlass.web.schema import Flow, Past, QueueRow, QueuesDocument

NO_LENDER = ""
"""The lender of GPUs that are not part of any queue's guarantee."""


# -- the document


@dataclass(frozen=True, slots=True)
class QueueTable:
    """The numbers of all queues at one moment; they count the gangs of every namespace."""

    rows: Mapping[str, QueueRow]
    flows: Sequence[Flow]


def queue_table(view: ClusterView, members: GangMemberIndex) -> QueueTable:
    """Compute the numbers of all queues of a whole view."""
    rows = queue_rows(view, members)
    settled = flows(rows, view.free)
    lent = lent_by(rows, settled)
    return QueueTable({row.name: replace(row, lent=lent[row.name]) for row in rows}, settled)


def queues_document(view: ClusterView, table: QueueTable, past: Past) -> QueuesDocument:
    """Return the queues of a view, parents before their children, with what they had before.

    The table and `past` may be those of the whole cluster: only the queues of the view are taken
    from them. The view also decides which queue is the parent of which. All fields that pass
    from the table to the document are named here.
    """
    rows = [
        replace(table.rows[queue.name], parent=queue.parent, depth=depth)
        for queue, depth in in_tree_order(view.queues)
        if queue.name in table.rows
    ]
    visible = {row.name for row in rows}
    if view.has_all_nodes:
        capacity = view.hardware.capacity
    else:
        capacity = sum(max(row.guarantee, row.allocated) for row in rows if not row.depth)
    return QueuesDocument(
        stamp=view.stamp,
        capacity=capacity,
        free=view.free,
        queues=rows,
        flows=[
            flow
            for flow in table.flows
            if flow.borrower in visible and (flow.lender in visible or flow.lender == NO_LENDER)
        ],
        past=Past(
            at=past.at,
            allocated={row.name: past.allocated[row.name] for row in rows},
            share={row.name: past.share[row.name] for row in rows},
            waiting=past.waiting if view.has_all_gangs else [],
            running=past.running if view.has_all_gangs else [],
        ),
    )


def queue_rows(view: ClusterView, members: GangMemberIndex) -> list[QueueRow]:
    """Return a row for each queue of the view."""
    numbers, waiting = view.balances, _waiting(view, members)
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
        for queue, depth in in_tree_order(view.queues)
    ]


def _waiting(view: ClusterView, members: GangMemberIndex) -> dict[str, tuple[int, int]]:
    """Return the waiting gangs and their requested GPU thousandths, per queue with its subtree."""
    own: dict[str, tuple[int, int]] = {}
    for decision in view.plan.decisions:
        if is_waiting(decision) and decision.gang in view.gangs:
            gangs, milli = own.get(decision.queue, (0, 0))
            own[decision.queue] = gangs + 1, milli + members.requested.get(decision.gang, 0)
    sums: dict[str, tuple[int, int]] = {}
    for queue, (own_gangs, own_milli) in own.items():
        for ancestor in path_of(queue, view.queues):
            gangs, milli = sums.get(ancestor, (0, 0))
            sums[ancestor] = gangs + own_gangs, milli + own_milli
    return sums


# -- the tree


def in_tree_order(queues: Mapping[str, Queue]) -> list[tuple[Queue, int]]:
    """Return all queues with their depth, parents before their children.

    Siblings keep the order of the mapping. A queue whose parent is missing is a top queue.
    """
    children: dict[str, list[Queue]] = {}
    for queue in queues.values():
        parent = queue.parent if queue.parent in queues else ROOT
        children.setdefault(parent, []).append(queue)
    ordered: list[tuple[Queue, int]] = []
    stack = [(queue, 0) for queue in reversed(children.get(ROOT, []))]
    while stack:
        queue, depth = stack.pop()
        ordered.append((queue, depth))
        stack += [(child, depth + 1) for child in reversed(children.get(queue.name, []))]
    return ordered


class _HasParent(Protocol):
    """A queue, or a row about one."""

    @property
    def parent(self) -> str: ...


def path_of(name: str, queues: Mapping[str, _HasParent]) -> list[str]:
    """Return the queue and all queues above it, the lowest first."""
    path: list[str] = []
    while name in queues and name not in path:
        path.append(name)
        name = queues[name].parent
    return path


# -- borrowing
#
# The cluster does not record whose guarantee a GPU belongs to, so lenders are chosen evenly: what
# a queue has beyond its guarantee it borrows first from its siblings with an idle guarantee, each
# in proportion to what it leaves idle; then from the siblings of its parent, and so on to the top.
# At the top, GPUs that no queue is guaranteed come first, as in the status of queues: a guarantee
# is lent only as far as its GPUs are not free.


@dataclass(slots=True)
class _UnsettledFlows:
    """The borrowing and the idle guarantees below one queue that are not matched yet, by queue."""

    needs: dict[str, int] = field(default_factory=dict[str, int])
    idle: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: _UnsettledFlows) -> None:
        self.needs.update(other.needs)
        self.idle.update(other.idle)


def flows(rows: Sequence[QueueRow], free: int) -> list[Flow]:
    """Return every pair of a lender and a borrower with its amount, in GPU thousandths."""
    children: dict[str, list[QueueRow]] = {}
    names = {row.name for row in rows}
    for row in rows:
        children.setdefault(row.parent if row.parent in names else ROOT, []).append(row)
    settled: list[Flow] = []

    def settle(row: QueueRow) -> _UnsettledFlows:
        """Match borrowers and lenders below a queue; return what is left for the level above."""
        below = children.get(row.name, [])
        if not below:
            beyond = row.allocated - row.guarantee
            return _UnsettledFlows({row.name: max(0, beyond)}, {row.name: max(0, -beyond)})
        here = _UnsettledFlows()
        for child in below:
            here.add(settle(child))
        here.idle[row.name] = max(0, row.guarantee - sum(child.guarantee for child in below))
        settled.extend(_match(here, sum(here.idle.values())))
        return here

    top = _UnsettledFlows()
    for row in children.get(ROOT, []):
        top.add(settle(row))
    settled += _match(top, max(0, sum(top.idle.values()) - free))
    settled += [Flow(NO_LENDER, name, need) for name, need in top.needs.items() if need]
    return settled


def _match(here: _UnsettledFlows, most: int) -> list[Flow]:
    """Meet needs from idle guarantees, in proportion on both sides; reduce both by that."""
    total = min(sum(here.needs.values()), sum(here.idle.values()), most)
    matched: list[Flow] = []
    for borrower, part in _split(total, here.needs):
        for lender, milli in _split(part, here.idle):
            matched.append(Flow(lender, borrower, milli))
            here.needs[borrower] -= milli
            here.idle[lender] -= milli
    return matched


def _split(total: int, amounts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Divide a total in proportion to the amounts, exactly; no part exceeds its amount."""
    parts: list[tuple[str, int]] = []
    whole, so_far, given = max(1, sum(amounts.values())), 0, 0
    for name, amount in amounts.items():
        so_far += amount
        part = total * so_far // whole - given
        given += part
        if part:
            parts.append((name, part))
    return parts


def lent_by(rows: Sequence[QueueRow], flows: Sequence[Flow]) -> Mapping[str, int]:
    """Return the amount that each queue, with its subtree, lends to queues outside the subtree."""
    row_of = {row.name: row for row in rows}
    sums = dict.fromkeys(row_of, 0)
    for flow in flows:
        borrowers = path_of(flow.borrower, row_of)
        for lender in path_of(flow.lender, row_of):
            if lender not in borrowers:
                sums[lender] += flow.milli
    return sums
