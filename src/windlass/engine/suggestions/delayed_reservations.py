"""The reservations that a plan may delay and another plan keeps; for people, not for the cycle.

A reservation exists until its time comes, even if its places are meanwhile taken by a rule that
allows it. So its existence is not enough: the gang that gets its places must end before it starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.engine.plan import Plan, Verdict
from windlass.engine.queueing import Estimates
from windlass.model.actions import Hold
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster


def delayed_reservations(
    cluster: Cluster, gang: GangId, without: Plan, made: Plan
) -> Iterator[GangId]:
    """Yield the gangs that may start later than reserved if `gang` starts by the plan `made`.

    `without` is the plan without the change that starts the gang.
    """
    placed = {decision.gang for decision in made.decisions if decision.verdict is Verdict.PLACED}
    after = {hold.gang: hold for hold in made.holds}
    for hold in sorted(without.holds, key=lambda hold: hold.gang):
        name = hold.gang
        if hold.firm or name == gang or name in placed or name not in cluster.gangs:
            continue
        now = after.get(name)
        if now is None or (not now.firm and _is_worse(cluster, gang, made, (hold, now))):
            yield name


def _is_worse(cluster: Cluster, gang: GangId, made: Plan, holds: tuple[Hold, Hold]) -> bool:
    """Return whether the second hold starts later than the first, or the gang is in its way."""
    before, now = holds
    return now.starts_at > before.starts_at or _takes(cluster, gang, made, now)


def _takes(cluster: Cluster, gang: GangId, made: Plan, hold: Hold) -> bool:
    """Return whether the gang gets a place of the hold and may still occupy it when it starts."""
    lasts = Estimates(cluster).of(cluster.gangs[gang])
    if lasts is not None and cluster.now + lasts <= hold.starts_at:
        return False
    places = _places(cluster, gang, made)
    return any(claim.meets(*place) for place in places for claim in hold.claims)


def _places(cluster: Cluster, gang: GangId, made: Plan) -> Iterator[tuple[str, tuple[Slice, ...]]]:
    """Yield the nodes and devices that a plan gives to a gang, bound or firmly held."""
    for bind in made.binds:
        if cluster.tasks[bind.task].gang == gang:
            yield bind.node, bind.devices
    for hold in made.holds:
        if hold.gang == gang and hold.firm:
            yield from ((claim.node, claim.devices) for claim in hold.claims)
