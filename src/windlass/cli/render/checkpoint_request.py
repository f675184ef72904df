"""A gang that is asked to save its work before it goes, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.cli.render.evictions import for_whom
from windlass.model.validation.problems import listed

if TYPE_CHECKING:
    from windlass.engine.plan import Plan
    from windlass.model.jobs import GangId
    from windlass.state.cluster import Cluster


def asked_as_json(cluster: Cluster, plan: Plan, gang: GangId) -> dict[str, Any] | None:
    """What was asked of a gang, or is with this plan, and how far it is; None if nothing was."""
    withdrawn = {each.id for each in plan.withdrawals}
    partings = {each.gang: each for each in (*cluster.partings.now(), *plan.asks)}
    parting = partings.get(gang)
    if parting is None or parting.id in withdrawn:
        return None
    return {
        "id": parting.id,
        "asked_at": parting.asked_at,
        "deadline": parting.deadline,
        "tasks": len(parting.evictions),
        "saved": len(parting.saved),
        "refused": parting.refused,
        "for": list(dict.fromkeys(for_whom(e.rule, e.gainer) for e in parting.evictions)),
    }


def asked_told(asked: dict[str, Any]) -> str:
    """The same as a sentence."""
    from windlass.cli.times import instant

    begin, until = instant(asked["asked_at"]), instant(asked["deadline"])
    whom, count = listed(asked["for"]), asked["tasks"]
    far = f"{asked['saved']} of {count} task{'s' if count > 1 else ''} have"
    refused = "; one of them will not" if asked["refused"] else ""
    return f"asked at {begin} to save by {until} at the latest, {whom}; {far}{refused}"
