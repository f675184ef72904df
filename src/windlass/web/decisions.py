"""What one cycle did and why: told right after it, before the cluster moves on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from windlass.engine.plan import Plan, Verdict
from windlass.model.actions import Bind, Evict, Hold
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster
from windlass.web.asked import is_waiting
from windlass.web.documents import CycleDocument, EvictedRow, HeldRow, PlacedRow, WhyCount
from windlass.web.jobs import given_milli, reason_rows


def cycle_document(
    number: int, cluster: Cluster, plan: Plan, held_before: Collection[GangId] = ()
) -> CycleDocument:
    """A cycle in full; of the holds only those that are new with it."""
    return CycleDocument(
        cycle=number,
        at=cluster.now,
        placed=_placed(cluster, plan),
        evicted=_evicted(cluster, plan),
        held=[
            _held(cluster, each)
            for each in plan.holds
            if each.gang not in held_before and each.gang in cluster.gangs
        ],
        waiting=_waiting(plan),
    )


def _placed(cluster: Cluster, plan: Plan) -> list[PlacedRow]:
    binds: dict[GangId, list[Bind]] = {}
    for bind in plan.binds:
        binds.setdefault(cluster.tasks[bind.task].gang, []).append(bind)
    grew = {each.gang for each in plan.decisions if each.verdict is Verdict.GREW}
    return [
        PlacedRow(
            gang=gang,
            queue=cluster.gangs[gang].queue,
            verdict=Verdict.GREW if gang in grew else Verdict.PLACED,
            tasks=len(some),
            milli=sum(each.milli for bind in some for each in bind.devices),
            nodes=sorted({bind.node for bind in some}),
        )
        for gang, some in binds.items()
    ]


def _evicted(cluster: Cluster, plan: Plan) -> list[EvictedRow]:
    evictions: dict[GangId, list[Evict]] = {}
    for each in plan.evictions:
        evictions.setdefault(cluster.tasks[each.task].gang, []).append(each)
    reasons = {e.gang: e.reasons for e in plan.decisions if e.verdict is Verdict.DISPLACED}
    return [
        EvictedRow(
            gang=gang,
            queue=cluster.gangs[gang].queue,
            tasks=len(some),
            milli=sum(given_milli(cluster.tasks[each.task]) for each in some),
            rule=some[0].rule,
            gainer=some[0].gainer,
            moves_to=sorted({each.moves_to for each in some} - {""}),
            reasons=reason_rows(reasons.get(gang, ())),
        )
        for gang, some in evictions.items()
    ]


def _held(cluster: Cluster, hold: Hold) -> HeldRow:
    return HeldRow(
        gang=hold.gang,
        queue=cluster.gangs[hold.gang].queue,
        milli=sum(each.milli for claim in hold.claims for each in claim.devices),
        nodes=sorted({claim.node for claim in hold.claims}),
        starts_at=hold.starts_at if hold.starts_at > cluster.now else None,
    )


def _waiting(plan: Plan) -> list[WhyCount]:
    """By the first reason of each: the one that decided."""
    counts = Counter(
        str(each.reasons[0].why) for each in plan.decisions if is_waiting(each) and each.reasons
    )
    return [WhyCount(why, gangs) for why, gangs in counts.most_common()]
