"""The actions of one cycle and their reasons, and the remembered cycles in short.

The document of a cycle is written right after the cycle, before the cluster moves on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from windlass.engine.plan import Plan, Verdict
from windlass.model.actions import Bind, Evict, Hold
from windlass.model.gpus import Slice
from windlass.model.jobs import OCCUPYING, GangId, TaskId
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster
from windlass.state.queue_accounts import charged_milli
from windlass.web.documents.jobs import reason_rows
from windlass.web.feed import is_waiting
from windlass.web.schema import (
    ChangedGpu,
    ChangedNode,
    CycleDocument,
    Cycles,
    DecisionsDocument,
    EvictedRow,
    HeldRow,
    PlacedRow,
    ShareRow,
    Stamp,
    WhyCount,
)

# Cycles are kept by the hundred, so the document of each is bounded.
MOST_NODES = 48
"""The largest number of changed nodes in a document."""
MOST_QUEUES = 8
"""The largest number of top queues in a document."""
MOST_NAMED = 3
"""The gangs named in a summary; the page shows two, and by the third that there are more."""


@dataclass(frozen=True, slots=True)
class CycleSummary:
    """A remembered cycle in numbers; GPUs in thousandths."""

    cycle: int
    at: int
    bound: int
    evicted: int
    held: int
    waiting: int
    gangs: list[str]
    """The first few gangs that it placed, evicted or held GPUs for."""


def cycle_document(
    number: int, cluster: Cluster, plan: Plan, held_before: Collection[GangId] = ()
) -> CycleDocument:
    """Return a cycle in full; of the holds only those that are new with it."""
    holds = [
        hold for hold in plan.holds if hold.gang not in held_before and hold.gang in cluster.gangs
    ]
    changed = _changed(cluster, plan, holds)
    return CycleDocument(
        cycle=number,
        at=cluster.now,
        placed=_placed(cluster, plan),
        evicted=_evicted(cluster, plan),
        held=[_held(cluster, hold) for hold in holds],
        waiting=_waiting(plan),
        shares=_share_rows(cluster, plan),
        changed=[
            _changed_node(cluster, name, changed[name]) for name in sorted(changed)[:MOST_NODES]
        ],
        changed_in_all=len(changed),
    )


def first_gangs(document: CycleDocument) -> list[str]:
    """Return the first few gangs that a cycle placed, evicted or held GPUs for."""
    rows = (*document.placed, *document.evicted, *document.held)
    return list(dict.fromkeys(row.gang for row in rows))[:MOST_NAMED]


def summarize(cycle: CycleDocument, waiting: int) -> CycleSummary:
    """Return a cycle in numbers, with the number of gangs that waited."""
    return CycleSummary(
        cycle=cycle.cycle,
        at=cycle.at,
        bound=sum(row.milli for row in cycle.placed),
        evicted=sum(row.milli for row in cycle.evicted),
        held=sum(row.milli for row in cycle.held),
        waiting=waiting,
        gangs=first_gangs(cycle),
    )


def decisions_document(
    stamp: Stamp, cycles: Sequence[CycleSummary], is_recorded: bool
) -> DecisionsDocument:
    """Return the remembered cycles in short."""
    columns = Cycles(
        cycle=[short.cycle for short in cycles],
        at=[short.at for short in cycles],
        bound=[short.bound for short in cycles],
        evicted=[short.evicted for short in cycles],
        held=[short.held for short in cycles],
        waiting=[short.waiting for short in cycles],
        gangs=[short.gangs for short in cycles],
    )
    return DecisionsDocument(stamp, columns, is_recorded)


def _placed(cluster: Cluster, plan: Plan) -> list[PlacedRow]:
    grew = {decision.gang for decision in plan.decisions if decision.verdict is Verdict.GREW}
    return [
        PlacedRow(
            gang=gang,
            queue=cluster.gangs[gang].queue,
            verdict=Verdict.GREW if gang in grew else Verdict.PLACED,
            tasks=len(binds),
            milli=sum(_bound_milli(cluster, bind) for bind in binds),
            nodes=sorted({bind.node for bind in binds}),
        )
        for gang, binds in cluster.by_gang(plan.binds).items()
    ]


def _evicted(cluster: Cluster, plan: Plan) -> list[EvictedRow]:
    reasons = {d.gang: d.reasons for d in plan.decisions if d.verdict is Verdict.DISPLACED}
    return [
        EvictedRow(
            gang=gang,
            queue=cluster.gangs[gang].queue,
            tasks=len(evictions),
            milli=sum(_evicted_milli(cluster, eviction) for eviction in evictions),
            rule=evictions[0].rule,
            gainer=evictions[0].gainer,
            moves_to=sorted({eviction.moves_to for eviction in evictions} - {""}),
            reasons=reason_rows(reasons.get(gang, ())),
        )
        for gang, evictions in cluster.by_gang(plan.evictions).items()
    ]


def _held(cluster: Cluster, hold: Hold) -> HeldRow:
    return HeldRow(
        gang=hold.gang,
        queue=cluster.gangs[hold.gang].queue,
        milli=sum(
            charged_milli(claim.request, claim.devices, cluster.nodes.get(claim.node))
            for claim in hold.claims
        ),
        nodes=sorted({claim.node for claim in hold.claims}),
        starts_at=hold.starts_at if hold.starts_at > cluster.now else None,
    )


def _waiting(plan: Plan) -> list[WhyCount]:
    """Count the gangs that wait by the first reason of each, which is the one that decided."""
    counts = Counter(
        str(decision.reasons[0].why)
        for decision in plan.decisions
        if is_waiting(decision) and decision.reasons
    )
    return [WhyCount(why, gangs) for why, gangs in counts.most_common()]


# -- changed GPUs


def _changed(cluster: Cluster, plan: Plan, holds: Iterable[Hold]) -> dict[str, list[ChangedGpu]]:
    """Return the GPUs that were bound, evicted or held, by node."""
    changed: dict[str, list[ChangedGpu]] = {}

    def add(what: str, name: GangId, node: str, devices: Iterable[Slice]) -> None:
        queue = cluster.gangs[name].queue
        for part in devices:
            cell = ChangedGpu(part.device, part.milli, what, name, queue)
            changed.setdefault(node, []).append(cell)

    for bind in plan.binds:
        add("bound", cluster.tasks[bind.task].gang, bind.node, bind.devices)
    for eviction in plan.evictions:
        task = cluster.tasks[eviction.task]
        add("evicted", task.gang, task.node, task.devices)
    for hold in holds:
        for claim in hold.claims:
            add("held", hold.gang, claim.node, claim.devices)
    return changed


def _changed_node(cluster: Cluster, name: str, cells: list[ChangedGpu]) -> ChangedNode:
    node = cluster.nodes.get(name)
    gpus = len(node.gpus) if node else 1 + max(cell.device for cell in cells)
    return ChangedNode(name, gpus, cells)


# -- shares before and after


def _share_rows(cluster: Cluster, plan: Plan) -> list[ShareRow]:
    """Return the top queues before and after the cycle, as if evicted tasks were gone already.

    The cluster may have assumed the plan or not: tasks that it has bound already are subtracted
    again to get the amount before.
    """
    bound: Counter[str] = Counter()
    evicted: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    """The part of `bound` that the cluster counts as allocated already."""
    for bind in plan.binds:
        queue, milli = _top_queue(cluster, bind.task), _bound_milli(cluster, bind)
        bound[queue] += milli
        counted[queue] += milli if cluster.tasks[bind.task].state in OCCUPYING else 0
    for eviction in plan.evictions:
        evicted[_top_queue(cluster, eviction.task)] += _evicted_milli(cluster, eviction)
    rows = [
        ShareRow(
            queue=name,
            before=(before := cluster.allocated(name, GPU) - counted[name]),
            after=before + bound[name] - evicted[name],
            share=plan.shares.get(name, {}).get(GPU, 0),
        )
        for name, queue in cluster.queues.items()
        if queue.parent not in cluster.queues
    ]
    first = sorted(rows, key=lambda row: (row.before == row.after, -max(row.before, row.share)))
    listed = {row.queue for row in first[:MOST_QUEUES]}
    return [row for row in rows if row.queue in listed]


def _top_queue(cluster: Cluster, task: TaskId) -> str:
    path = cluster.accounts.path(cluster.gangs[cluster.tasks[task].gang].queue)
    return path[-1] if path else ""


def _bound_milli(cluster: Cluster, bind: Bind) -> int:
    """Return the GPU thousandths for which a bind charges the queue of its task."""
    request = cluster.tasks[bind.task].shape.request
    return charged_milli(request, bind.devices, cluster.nodes.get(bind.node))


def _evicted_milli(cluster: Cluster, eviction: Evict) -> int:
    """Return the GPU thousandths that an eviction gives back."""
    task = cluster.tasks[eviction.task]
    return charged_milli(task.shape.request, task.devices, cluster.nodes.get(task.node))
