"""Evict or delete one pod by the Eviction API: the meaning of each answer.

    201                 the pod is terminated, with the grace that was sent
    404, 409            the pod is gone already, or another one has its name
    429 by a budget     Denied: a disruption budget forbids it
    500, by several     Denied: more than one disruption budget selects the pod. The Eviction API
    budgets             supports only one, whatever they allow: an immediate retry is of no use
    any other 5xx       retried, `MOST_FAULTS` times in all. If the pod can be read after that,
                        only the Eviction API fails: Denied. If not, the server is in trouble: the
                        count starts again
    any other 429,      retried: this says nothing about the pod
    no answer

So an outage of the API server never counts as a denial, and no pod is deleted because of it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field

from windlass.kube.client import Api, ApiError, ServerFault, TooMany
from windlass.kube.refs import PodRef

BUDGET = "DisruptionBudget"
"""The cause in the Status of a 429 that a disruption budget is responsible for."""
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""Part of the message for a pod that several budgets select: that answer has no reason or cause."""
MOST_FAULTS = 8
"""The number of consecutive 5xx answers for one pod after which they no longer count as temporary.
With the backoff between them they last about five seconds: by then etcd has elected another leader,
and a load balancer has removed an API server that restarts."""


class Denied(Exception):
    """The API server can be reached and does not allow the eviction of this pod.

    `by_budget` says whether a disruption budget is the cause.
    """

    def __init__(self, why: str, *, by_budget: bool) -> None:
        super().__init__(why)
        self.why, self.by_budget = why, by_budget


@dataclass(slots=True)
class EvictionApi:
    """Requests evictions and deletions, and counts the faults that answer them."""

    _api: Api
    _faults: dict[str, int] = field(default_factory=dict[str, int])
    """Consecutive 5xx answers by the uid of the pod; any other answer removes the entry."""

    async def ask(self, pod: PodRef, grace_s: int, *, dry_run: bool = False) -> None:
        """Request an eviction; raises `Denied`, or an `ApiError` that the caller may retry."""
        options = _options(pod, grace_s)
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        await self._counted(pod, self._api.post(f"{pod.path}/eviction", body))

    async def delete(self, pod: PodRef, grace_s: int) -> None:
        """Delete the pod regardless of disruption budgets; faults are counted in the same way."""
        await self._counted(pod, self._api.delete(pod.path, _options(pod, grace_s)))

    async def _counted(self, pod: PodRef, request: Awaitable[bytes]) -> None:
        before = self._faults.pop(pod.uid, 0)
        try:
            await request
        except ApiError as error:
            if _is_by_budget(error):
                raise Denied(error.message, by_budget=True) from error
            if isinstance(error, ServerFault):
                await self._count(pod, before + 1, error)
            raise

    async def _count(self, pod: PodRef, faults: int, error: ServerFault) -> None:
        if faults < MOST_FAULTS:
            self._faults[pod.uid] = faults
            return
        await self._api.get(pod.path)  # raises if the server is away: then the caller retries
        raise Denied(error.message, by_budget=False) from error


def _is_by_budget(error: ApiError) -> bool:
    if isinstance(error, TooMany):
        return BUDGET in error.causes
    return isinstance(error, ServerFault) and SEVERAL_BUDGETS in error.message


def _options(pod: PodRef, grace_s: int) -> dict[str, object]:
    return {"preconditions": {"uid": pod.uid}, "gracePeriodSeconds": grace_s}
