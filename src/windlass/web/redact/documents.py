"""What is left of a document for somebody who may not see all of it: pure, document in and out.

What may not be listed has no name, no user, no priority and no time: on the map it is one
nameless gang per queue that may be seen, and one for all others (`veil_map`). Elsewhere it is left
out, and sums count only what is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from windlass.web.auth.authorization import Names, VisibleScope, namespace_of
from windlass.web.feed.view import ClusterView
from windlass.web.redact.text import namespaces_in, spoken
from windlass.web.schema.cycles import ChangedNode, CycleDocument
from windlass.web.schema.documents import (
    JobDocument,
    JobsDocument,
    Past,
    QueueRow,
    QueuesDocument,
    ReasonRow,
    RoomDocument,
    WaitingJob,
)

# -- queues


def veil_queues(document: QueuesDocument, view: VisibleScope) -> QueuesDocument:
    """The queues that may be seen, as a tree of their own; totals only for who may list nodes."""
    rows = _tree(document.queues, view)
    past = Past(
        document.past.at,
        {name: had for name, had in document.past.allocated.items() if view.sees_queue(name)},
        {name: had for name, had in document.past.share.items() if view.sees_queue(name)},
        waiting=document.past.waiting if view.namespaces is None else [],
        running=document.past.running if view.namespaces is None else [],
    )
    flows = [
        each
        for each in document.flows
        if view.sees_queue(each.borrower) and (not each.lender or view.sees_queue(each.lender))
    ]
    tops = [each for each in rows if not each.parent]
    known = sum(max(each.guarantee, each.allocated) for each in tops)
    # all that is passed on is named here: what is added to the document later is not
    return QueuesDocument(
        stamp=document.stamp,
        capacity=document.capacity if view.nodes else known,
        free=document.free if view.nodes else 0,
        queues=rows,
        flows=flows,
        past=past,
    )


def _tree(rows: Sequence[QueueRow], view: VisibleScope) -> list[QueueRow]:
    """Below its nearest parent that may be seen; parents stand before their children."""
    above: dict[str, tuple[str, int]] = {"": ("", -1)}
    """For each queue: the nearest visible one, from itself upwards, and its depth."""
    found: list[QueueRow] = []
    for row in rows:
        parent, depth = above.get(row.parent, above[""])
        above[row.name] = (parent, depth)
        if view.sees_queue(row.name):
            above[row.name] = (row.name, depth + 1)
            found.append(replace(row, parent=parent, depth=depth + 1))
    return found


# -- jobs


def names_in_look(look: ClusterView) -> Names:
    """The namespaces of all gangs that are there or have ended, and all queues."""
    there = {each.namespace for each in look.gangs.values()}
    ended = {namespace_of(each.gang) for each in look.beside.finished}
    return Names(frozenset(there | ended), frozenset(look.queues))


def veil_look(look: ClusterView, view: VisibleScope) -> ClusterView:
    """The moment as if there were no gangs but those that may be seen."""
    decisions = tuple(each for each in look.plan.decisions if view.sees_gang(each.gang))
    finished = [each for each in look.beside.finished if view.sees_gang(each.gang)]
    gangs = {name: gang for name, gang in look.gangs.items() if view.sees_gang(name)}
    return replace(
        look,
        plan=replace(look.plan, decisions=decisions),
        gangs=gangs,
        tasks={name: task for name, task in look.tasks.items() if task.gang in gangs},
        beside=replace(look.beside, finished=finished),
    )


def veil_jobs(document: JobsDocument, view: VisibleScope, hidden: Collection[str]) -> JobsDocument:
    """Lists of gangs that may be seen, without the names of hidden queues and of other gangs."""
    return replace(
        document,
        waiting=[_waiting(row, view, hidden) for row in document.waiting],
        running=[replace(row, queue=_queue(row.queue, view)) for row in document.running],
        finished=[replace(row, queue=_queue(row.queue, view)) for row in document.finished],
    )


def veil_job(document: JobDocument, view: VisibleScope, hidden: Collection[str]) -> JobDocument:
    """One of them."""
    waiting, running, finished = document.waiting, document.running, document.finished
    return replace(
        document,
        waiting=waiting and _waiting(waiting, view, hidden),
        running=running and replace(running, queue=_queue(running.queue, view)),
        finished=finished and replace(finished, queue=_queue(finished.queue, view)),
        # positions are those in the whole line, of which this viewer's list is a part
        waiting_in_all=document.waiting_in_all if view.namespaces is None else None,
    )


def _waiting(row: WaitingJob, view: VisibleScope, hidden: Collection[str]) -> WaitingJob:
    return replace(row, queue=_queue(row.queue, view), reasons=_reasons(row.reasons, view, hidden))


# -- decisions


def names_in_cycle(document: CycleDocument) -> Names:
    """Also those that others had to make room for."""
    rows = (*document.placed, *document.evicted, *document.held)
    gangs = [each.gang for each in rows] + [each.gainer for each in document.evicted]
    reasons = (each for row in document.evicted for each in row.reasons)
    return _names(gangs, (each.queue for each in (*rows, *document.shares)), reasons)


def veil_cycle(
    document: CycleDocument, view: VisibleScope, hidden: Collection[str]
) -> CycleDocument:
    """What it did with gangs and queues that may be seen; what all waited for is not told."""

    return replace(
        document,
        placed=[
            replace(row, queue=_queue(row.queue, view))
            for row in document.placed
            if view.sees_gang(row.gang)
        ],
        evicted=[
            replace(
                row,
                queue=_queue(row.queue, view),
                gainer=row.gainer if view.sees_gang(row.gainer) else "",
                reasons=_reasons(row.reasons, view, hidden),
            )
            for row in document.evicted
            if view.sees_gang(row.gang)
        ],
        held=[
            replace(row, queue=_queue(row.queue, view))
            for row in document.held
            if view.sees_gang(row.gang)
        ],
        waiting=document.waiting if view.namespaces is None else [],
        shares=[row for row in document.shares if view.sees_queue(row.queue)],
        changed=(changed := list(_changed(document, view))),
        changed_in_all=document.changed_in_all if view.namespaces is None else len(changed),
    )


def _changed(document: CycleDocument, view: VisibleScope) -> Iterator[ChangedNode]:
    """The nodes with something on them that may be seen."""
    for each in document.changed:
        cells = [
            replace(cell, queue=_queue(cell.queue, view))
            for cell in each.cells
            if view.sees_gang(cell.gang)
        ]
        if cells:
            yield replace(each, cells=cells)


def veil_short(document: CycleDocument) -> tuple[int, int, int]:
    """What was bound, evicted and held, in thousandths, of what is left of a cycle."""
    return (
        sum(each.milli for each in document.placed),
        sum(each.milli for each in document.evicted),
        sum(each.milli for each in document.held),
    )


# -- room


def names_in_room(document: RoomDocument) -> Names:
    """Whatever the sentences speak of."""
    starts = (each.sentence for each in document.starts)
    told = namespaces_in((*document.sentences, *starts, *document.notes))
    return Names(told | {namespace_of(document.gang)})


def veil_room(document: RoomDocument, view: VisibleScope, hidden: Collection[str]) -> RoomDocument:
    """Only sentences that name nothing hidden: their numbers would tell as much as the names."""

    def is_told(sentence: str) -> bool:
        return spoken(sentence, view, hidden) == sentence

    sentences = [each for each in document.sentences if is_told(each)]
    starts = [each for each in document.starts if is_told(each.sentence)]
    notes = [each for each in document.notes if is_told(each)]
    others = len(document.starts) - len(starts) + len(document.notes) - len(notes)
    # all that is passed on is named here: what is added to the document later is not
    return RoomDocument(
        gang=document.gang,
        cycle=document.cycle,
        sentences=[*sentences, *_left_out(len(document.sentences) - len(sentences))],
        starts=starts,
        notes=[*notes, *_left_out(others)],
    )


def _left_out(count: int) -> list[str]:
    """How many sentences are missing, if any."""
    more = "1 more sentence is" if count == 1 else f"{count} more sentences are"
    return [f"{more} about queues or jobs that you may not see"] if count else []


# -- what they share


def _names(gangs: Iterable[str], queues: Iterable[str], reasons: Iterable[ReasonRow]) -> Names:
    namespaces = namespaces_in(each.sentence for each in reasons)
    return Names(namespaces | {namespace_of(each) for each in gangs}, frozenset(queues))


def _queue(name: str, view: VisibleScope) -> str:
    return name if view.sees_queue(name) else ""


def _reasons(
    reasons: Iterable[ReasonRow], view: VisibleScope, hidden: Collection[str]
) -> list[ReasonRow]:
    """Without the names of others; the numbers stand in the conditions of the gang's own pods."""
    return [replace(each, sentence=spoken(each.sentence, view, hidden)) for each in reasons]
