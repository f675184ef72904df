"""The view of one viewer: the cluster at one moment, without what the viewer may not see.

Documents are made of this view by the functions that make them of the whole one. All names in them
come from the view, so a document that is added later cannot show a hidden name.

    gangs, tasks, decisions, holds, finished jobs    those of namespaces in the scope
    queues, balances, shares, past                   those in the scope, as a tree of their own
    nodes                                            all, or those on which the viewer's gangs are
    reasons                                          with redacted sentences (`text.py`)

Numbers that count hidden work stay visible where the scope allows it: the sums of a visible queue,
and, for viewers who may list nodes, that a GPU is occupied (`documents/queues.py`,
`documents/gpu_map.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from threading import Lock

from windlass.controllers.queue_status import QueueNumbers
from windlass.engine.plan import Decision, Plan
from windlass.model.jobs import Gang, GangId
from windlass.model.queues import ROOT, Queue
from windlass.web.auth import Names, VisibleScope, namespace_of
from windlass.web.documents import ShownMoment, in_tree_order
from windlass.web.feed import ClusterView, Hardware, TimeseriesSample, ViewExtras
from windlass.web.redact.text import redact_reasons, redact_sentence
from windlass.web.schema import FinishedJob


def names_in_view(view: ClusterView) -> Names:
    """Return the namespaces of all gangs that exist or have ended, and all queues."""
    namespaces = {gang.namespace for gang in view.gangs.values()}
    ended = {namespace_of(job.gang) for job in view.beside.finished}
    return Names(frozenset(namespaces | ended), frozenset(view.queues))


class ViewRedactor:
    """Redacts moments, one after the other, in any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._without_queue: dict[GangId, tuple[Gang, Gang]] = {}
        """A cache of gangs in hidden queues, each with its copy without a queue. It rests on gangs
        being immutable: an entry holds as long as the gang in the view is the same object."""

    def redact_shown(self, whole: ShownMoment, scope: VisibleScope) -> ShownMoment:
        """Return the part of a moment that is in the scope, without its cycles (`cycles.py`)."""
        return ShownMoment(
            view=self.redact_view(whole.view, scope),
            samples=[_sample(sample, scope) for sample in whole.samples],
            cycles=(),
        )

    def redact_view(self, view: ClusterView, scope: VisibleScope) -> ClusterView:
        """Return the part of a whole view that is in the scope.

        All fields are named here and in the functions below: a field that is added to the view,
        the plan or the facts beside it later is left out until somebody decides that it may be
        seen.
        """
        gangs = self._gangs(view, scope)
        tasks = {name: task for name, task in view.tasks.items() if task.gang in gangs}
        own_nodes = set[str]() if scope.nodes else {task.node for task in tasks.values()}
        return ClusterView(
            stamp=view.stamp,
            plan=_plan(view, scope, gangs),
            hardware=view.hardware if scope.nodes else _hardware(view.hardware, own_nodes),
            queues=_queues(view.queues, scope),
            topologies=view.topologies,
            gangs=gangs,
            tasks=tasks,
            balances=_balances(view.balances, scope),
            free=view.free if scope.nodes else 0,
            beside=_beside(view.beside, scope, own_nodes),
            has_all_gangs=scope.namespaces is None,
            has_all_queues=scope.queues is None,
            has_all_nodes=scope.nodes,
        )

    def _gangs(self, view: ClusterView, scope: VisibleScope) -> Mapping[GangId, Gang]:
        """Return the gangs in the scope; those in hidden queues without their queue."""
        if scope.namespaces is None and scope.queues is None:
            return view.gangs
        sees = scope.sees_gang
        gangs = {name: gang for name, gang in view.gangs.items() if sees(name)}
        with self._lock:
            copies = self._without_queue
            for name, gang in gangs.items():
                if not scope.sees_queue(gang.queue):
                    if name not in copies or copies[name][0] is not gang:
                        copies[name] = gang, replace(gang, queue="")
                    gangs[name] = copies[name][1]
            if len(copies) > len(view.gangs):  # some have ended
                kept = copies.keys() & view.gangs.keys()
                self._without_queue = {name: copies[name] for name in kept}
        return gangs


def _queues(queues: Mapping[str, Queue], scope: VisibleScope) -> dict[str, Queue]:
    """Return the visible queues, each below its nearest visible ancestor.

    They are in tree order, so that siblings whose common parent is hidden keep their places.
    """
    nearest: dict[str, str] = {}
    """The nearest visible queue of each queue, from itself upwards; ROOT if there is none."""
    visible: dict[str, Queue] = {}
    for queue, _ in in_tree_order(queues):
        parent = nearest.get(queue.parent, ROOT)
        nearest[queue.name] = parent
        if scope.sees_queue(queue.name):
            nearest[queue.name] = queue.name
            visible[queue.name] = replace(queue, parent=parent)
    return visible


def _balances(
    balances: Mapping[str, QueueNumbers], scope: VisibleScope
) -> Mapping[str, QueueNumbers]:
    """Return the numbers of visible queues; the usage by user only if all gangs are visible."""
    visible = {name: numbers for name, numbers in balances.items() if scope.sees_queue(name)}
    if scope.namespaces is None:
        return visible
    return {name: replace(numbers, used=()) for name, numbers in visible.items()}


def _plan(view: ClusterView, scope: VisibleScope, gangs: Mapping[GangId, Gang]) -> Plan:
    """Return the decisions, holds and shares of a plan; cycles, not views, tell its actions."""
    hidden = frozenset(name for name in view.queues if not scope.sees_queue(name))
    redact = partial(redact_sentence, scope=scope, hidden=hidden)

    def redacted(decision: Decision) -> Decision:
        queue = decision.queue if scope.sees_queue(decision.queue) else ""
        reasons = redact_reasons(decision.reasons, redact)
        if queue == decision.queue and reasons is decision.reasons:
            return decision
        return Decision(decision.gang, queue, decision.verdict, reasons, decision.position)

    plan = view.plan
    return Plan(
        decisions=tuple(redacted(entry) for entry in plan.decisions if entry.gang in gangs),
        holds=tuple(hold for hold in plan.holds if hold.gang in gangs),
        shares={name: share for name, share in plan.shares.items() if scope.sees_queue(name)},
    )


def _hardware(whole: Hardware, names: set[str]) -> Hardware:
    return Hardware({name: node for name, node in whole.nodes.items() if name in names}, whole)


def _beside(beside: ViewExtras, scope: VisibleScope, own_nodes: set[str]) -> ViewExtras:
    def sees_node(name: str) -> bool:
        return scope.nodes or name in own_nodes

    measured = beside.utilisation
    # Nodes without figures stay in: they tell "not known here" from "nothing is measured at all".
    utilisation = measured if scope.nodes else {name: measured.get(name, ()) for name in own_nodes}
    return ViewExtras(
        away=[node for node in beside.away if sees_node(node.name)],
        finished=[_finished(job, scope) for job in beside.finished if scope.sees_gang(job.gang)],
        utilisation=utilisation if measured else {},
        etas={gang: eta for gang, eta in beside.etas.items() if scope.sees_gang(gang)},
    )


def _finished(job: FinishedJob, scope: VisibleScope) -> FinishedJob:
    return job if scope.sees_queue(job.queue) else replace(job, queue="")


def _sample(sample: TimeseriesSample, scope: VisibleScope) -> TimeseriesSample:
    def visible(amounts: dict[str, int]) -> dict[str, int]:
        return {queue: milli for queue, milli in amounts.items() if scope.sees_queue(queue)}

    has_all_gangs = scope.namespaces is None
    return TimeseriesSample(
        at=sample.at,
        allocated=visible(sample.allocated),
        share=visible(sample.share),
        waiting=sample.waiting if has_all_gangs else 0,
        running=sample.running if has_all_gangs else 0,
    )
