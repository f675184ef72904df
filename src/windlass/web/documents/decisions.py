"""What one cycle did and why: told right after it, before the cluster moves on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from windlass.engine.plan import Plan, Verdict
from windlass.model.actions import Hold
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster
from windlass.state.queue_accounts import charged_milli
from windlass.web.documents.before_after import bound_milli, evicted_milli, share_rows
from windlass.web.documents.jobs import reason_rows
from windlass.web.documents.requested_gpus import is_waiting
from windlass.web.schema.cycles import (
    ChangedGpu,
    ChangedNode,
    CycleDocument,
    EvictedRow,
    HeldRow,
    PlacedRow,
    WhyCount,
)

MOST_NODES = 48
"""So many are told of in full: cycles are kept by the hundred."""
MOST_NAMED = 3
"""So many gangs are named in short; the page shows two, and by the third that there are more."""


def cycle_document(
    number: int, cluster: Cluster, plan: Plan, held_before: Collection[GangId] = ()
) -> CycleDocument:
    """A cycle in full; of the holds only those that are new with it."""
    holds = [
        each for each in plan.holds if each.gang not in held_before and each.gang in cluster.gangs
    ]
    changed = _changed(cluster, plan, holds)
    return CycleDocument(
        cycle=number,
        at=cluster.now,
        placed=_placed(cluster, plan),
        evicted=_evicted(cluster, plan),
        held=[_held(cluster, each) for each in holds],
        waiting=_waiting(plan),
        shares=share_rows(cluster, plan),
        changed=[
            _changed_node(cluster, name, changed[name]) for name in sorted(changed)[:MOST_NODES]
        ],
        changed_in_all=len(changed),
    )


def first_gangs(document: CycleDocument) -> list[str]:
    """The first few that a cycle did something with."""
    rows = (*document.placed, *document.evicted, *document.held)
    return list(dict.fromkeys(row.gang for row in rows))[:MOST_NAMED]


def _placed(cluster: Cluster, plan: Plan) -> list[PlacedRow]:
    grew = {each.gang for each in plan.decisions if each.verdict is Verdict.GREW}
    return [
        PlacedRow(
            gang=gang,
            queue=cluster.gangs[gang].queue,
            verdict=Verdict.GREW if gang in grew else Verdict.PLACED,
            tasks=len(some),
            milli=sum(bound_milli(cluster, bind) for bind in some),
            nodes=sorted({bind.node for bind in some}),
        )
        for gang, some in cluster.by_gang(plan.binds).items()
    ]


def _evicted(cluster: Cluster, plan: Plan) -> list[EvictedRow]:
    reasons = {e.gang: e.reasons for e in plan.decisions if e.verdict is Verdict.DISPLACED}
    return [
        EvictedRow(
            gang=gang,
            queue=cluster.gangs[gang].queue,
            tasks=len(some),
            milli=sum(evicted_milli(cluster, each) for each in some),
            rule=some[0].rule,
            gainer=some[0].gainer,
            moves_to=sorted({each.moves_to for each in some} - {""}),
            reasons=reason_rows(reasons.get(gang, ())),
        )
        for gang, some in cluster.by_gang(plan.evictions).items()
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


def _changed(cluster: Cluster, plan: Plan, holds: Iterable[Hold]) -> dict[str, list[ChangedGpu]]:
    """What happened to GPUs, by node."""
    found: dict[str, list[ChangedGpu]] = {}

    def note(what: str, name: GangId, node: str, devices: Iterable[Slice]) -> None:
        queue = cluster.gangs[name].queue
        for each in devices:
            cell = ChangedGpu(each.device, each.milli, what, name, queue)
            found.setdefault(node, []).append(cell)

    for bind in plan.binds:
        note("bound", cluster.tasks[bind.task].gang, bind.node, bind.devices)
    for each in plan.evictions:
        task = cluster.tasks[each.task]
        note("evicted", task.gang, task.node, task.devices)
    for hold in holds:
        for claim in hold.claims:
            note("held", hold.gang, claim.node, claim.devices)
    return found


def _changed_node(cluster: Cluster, name: str, cells: list[ChangedGpu]) -> ChangedNode:
    there = cluster.nodes.get(name)
    gpus = len(there.gpus) if there else 1 + max(each.device for each in cells)
    return ChangedNode(name, gpus, cells)


def _waiting(plan: Plan) -> list[WhyCount]:
    """By the first reason of each: the one that decided."""
    counts = Counter(
        str(each.reasons[0].why) for each in plan.decisions if is_waiting(each) and each.reasons
    )
    return [WhyCount(why, gangs) for why, gangs in counts.most_common()]
