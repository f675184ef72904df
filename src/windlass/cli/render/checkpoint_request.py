"""A pending checkpoint: a gang that was asked to save its work before it is evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.cli.format import counted
from windlass.cli.render.evictions import eviction_cause
from windlass.model.validation import join_names

if TYPE_CHECKING:
    from windlass.engine.plan import Plan
    from windlass.model.jobs import GangId
    from windlass.state.cluster import Cluster


def checkpoint_as_json(cluster: Cluster, plan: Plan, gang: GangId) -> dict[str, Any] | None:
    """Return the checkpoint request of a gang and its progress; None if there is none.

    Requests that this plan makes count, requests that it withdraws do not.
    """
    withdrawn = {request.id for request in plan.withdrawals}
    requests = {request.gang: request for request in (*cluster.partings.now(), *plan.asks)}
    request = requests.get(gang)
    if request is None or request.id in withdrawn:
        return None
    causes = (eviction_cause(evict.rule, evict.gainer) for evict in request.evictions)
    return {
        "id": request.id,
        "asked_at": request.asked_at,
        "deadline": request.deadline,
        "tasks": len(request.evictions),
        "saved": len(request.saved),
        "refused": request.refused,
        "for": list(dict.fromkeys(causes)),
    }


def checkpoint_sentence(request: dict[str, Any]) -> str:
    """Return the JSON value of a checkpoint request as a clause."""
    from windlass.cli.options import format_time

    asked_at, deadline = format_time(request["asked_at"]), format_time(request["deadline"])
    causes, saved = join_names(request["for"]), request["saved"]
    progress = f"{saved} of {counted(request['tasks'], 'task')} {'has' if saved == 1 else 'have'}"
    refused = "; one of them refuses" if request["refused"] else ""
    return (
        f"it was asked at {asked_at} to save its work by {deadline} at the latest, {causes}; "
        f"{progress} done so{refused}"
    )
