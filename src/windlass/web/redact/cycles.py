"""Remembered cycles without the gangs and queues that a viewer may not see.

A cycle is kept as the document that was written right after it, because the cluster has moved on
since. So cycles are redacted as records, both for the list of decisions and one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from windlass.web.auth import Names, VisibleScope, namespace_of
from windlass.web.redact.text import namespaces_in, redact_sentence
from windlass.web.schema import ChangedNode, CycleDocument, EvictedRow, ReasonRow


def names_in_cycles(cycles: Iterable[CycleDocument]) -> Names:
    """Return all namespaces and queues that the cycles name, also in sentences."""
    namespaces, queues = set[str](), set[str]()
    for cycle in cycles:
        rows = (*cycle.placed, *cycle.evicted, *cycle.held)
        gangs = (*(row.gang for row in rows), *(row.gainer for row in cycle.evicted))
        namespaces.update(namespace_of(gang) for gang in gangs)
        sentences = (reason.sentence for row in cycle.evicted for reason in row.reasons)
        namespaces |= namespaces_in(sentences)
        queues.update(row.queue for row in (*rows, *cycle.shares))
    return Names(frozenset(namespaces), frozenset(queues))


def redact_cycle(
    cycle: CycleDocument, scope: VisibleScope, hidden: Collection[str]
) -> CycleDocument:
    """Return the rows about gangs and queues in the scope.

    The reasons for which all gangs waited are left out unless the viewer may list all gangs.
    The fields of the result are named one by one: a field that is added to the document later is
    missing here, which the type checker reports.
    """
    changed = list(_changed(cycle, scope))
    return CycleDocument(
        cycle=cycle.cycle,
        at=cycle.at,
        placed=[
            replace(row, queue=_queue(row.queue, scope))
            for row in cycle.placed
            if scope.sees_gang(row.gang)
        ],
        evicted=[
            _evicted(row, scope, hidden) for row in cycle.evicted if scope.sees_gang(row.gang)
        ],
        held=[
            replace(row, queue=_queue(row.queue, scope))
            for row in cycle.held
            if scope.sees_gang(row.gang)
        ],
        waiting=cycle.waiting if scope.namespaces is None else [],
        shares=[row for row in cycle.shares if scope.sees_queue(row.queue)],
        changed=changed,
        changed_in_all=cycle.changed_in_all if scope.namespaces is None else len(changed),
    )


def _evicted(row: EvictedRow, scope: VisibleScope, hidden: Collection[str]) -> EvictedRow:
    return replace(
        row,
        queue=_queue(row.queue, scope),
        gainer=row.gainer if scope.sees_gang(row.gainer) else "",
        reasons=[
            ReasonRow(reason.why, redact_sentence(reason.sentence, scope, hidden))
            for reason in row.reasons
        ],
    )


def _changed(cycle: CycleDocument, scope: VisibleScope) -> Iterator[ChangedNode]:
    """Yield the nodes on which GPUs of visible gangs changed, with these GPUs only."""
    for node in cycle.changed:
        cells = [
            replace(cell, queue=_queue(cell.queue, scope))
            for cell in node.cells
            if scope.sees_gang(cell.gang)
        ]
        if cells:
            yield replace(node, cells=cells)


def _queue(name: str, scope: VisibleScope) -> str:
    return name if scope.sees_queue(name) else ""
