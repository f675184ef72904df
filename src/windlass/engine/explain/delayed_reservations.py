"""Whose reservation a plan may spoil that another plan keeps; for people, like `would.py`.

A reservation stands until its time comes, also if its places have been given away meanwhile by
right. So it is not enough that it still stands: whoever gets its places must be gone by then.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.engine.plan import Plan, Verdict
from windlass.engine.queueing.runtime_estimate import Estimates
from windlass.model.actions import Hold
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster


def delayed(cluster: Cluster, gang: GangId, without: Plan, found: Plan) -> Iterator[GangId]:
    """The gangs that may start later than reserved if a gang starts by the plan that was found."""
    placed = {each.gang for each in found.decisions if each.verdict is Verdict.PLACED}
    after = {hold.gang: hold for hold in found.holds}
    for hold in sorted(without.holds, key=lambda hold: hold.gang):
        name = hold.gang
        if hold.firm or name == gang or name in placed or name not in cluster.gangs:
            continue
        now = after.get(name)
        if now is None or (not now.firm and _is_worse(cluster, gang, found, (hold, now))):
            yield name


def _is_worse(cluster: Cluster, gang: GangId, found: Plan, holds: tuple[Hold, Hold]) -> bool:
    before, now = holds
    return now.starts_at > before.starts_at or _takes(cluster, gang, found, now)


def _takes(cluster: Cluster, gang: GangId, found: Plan, hold: Hold) -> bool:
    """Does the gang get a place of the hold, and may it still have that when it is due?"""
    lasts = Estimates(cluster).of(cluster.gangs[gang])
    if lasts is not None and cluster.now + lasts <= hold.starts_at:
        return False
    places = _places(cluster, gang, found)
    return any(claim.meets(*place) for place in places for claim in hold.claims)


def _places(cluster: Cluster, gang: GangId, found: Plan) -> Iterator[tuple[str, tuple[Slice, ...]]]:
    for bind in found.binds:
        if cluster.tasks[bind.task].gang == gang:
            yield bind.node, bind.devices
    for hold in found.holds:
        if hold.gang == gang and hold.firm:
            yield from ((claim.node, claim.devices) for claim in hold.claims)
