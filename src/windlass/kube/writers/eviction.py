"""One pod and the Eviction API: how each answer is taken.

    201                 the pod goes, with the grace that was sent
    404, 409            the pod is gone already, or another one has its name
    429 by a budget     Denied: a disruption budget says no
    500, by several     Denied: more than one disruption budget selects the pod. The Eviction API
    budgets             supports only one, whatever they allow: to ask again at once is of no use
    any other 5xx       asked again, `MOST_FAULTS` times in all. If the pod can be read after that,
                        only the Eviction API fails: Denied. If not, the server is in trouble: the
                        count begins anew
    any other 429,      asked again: this says nothing about the pod
    no answer

So a server that is away denies nothing, and no pod is deleted because of it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field

from windlass.kube.client.client import Api
from windlass.kube.client.errors import ApiError, ServerFault, TooMany
from windlass.kube.refs import PodRef

BUDGET = "DisruptionBudget"
"""The cause of a refusal that a budget is behind."""
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""Words of the answer about a pod that several budgets select; it has neither reason nor cause."""
MOST_FAULTS = 8
"""So many 5xx in a row for one pod are taken as passing. With the backoff between them they last
about five seconds: by then etcd has elected another leader, and a load balancer has left out the
API server that restarts."""


class Denied(Exception):
    """The API server can be reached and does not let this pod go."""

    def __init__(self, why: str, *, by_budget: bool) -> None:
        super().__init__(why)
        self.why, self.by_budget = why, by_budget


@dataclass(slots=True)
class Evictions:
    """Asks for evictions and deletions, and counts the faults that answer them."""

    _api: Api
    _faults: dict[str, int] = field(default_factory=dict[str, int])
    """Faults in a row, by the uid of the pod."""

    async def ask(self, pod: PodRef, grace_s: int, *, dry_run: bool = False) -> None:
        """Ask for an eviction; raises Denied, or the ApiError after which to ask again or not."""
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
        """Delete the pod itself, past all budgets; faults are counted in the same way."""
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
        await self._api.get(pod.path)  # raises what is to be done instead, if the server is away
        raise Denied(error.message, by_budget=False) from error


def _is_by_budget(error: ApiError) -> bool:
    if isinstance(error, TooMany):
        return BUDGET in error.causes
    return isinstance(error, ServerFault) and SEVERAL_BUDGETS in error.message


def _options(pod: PodRef, grace_s: int) -> dict[str, object]:
    return {"preconditions": {"uid": pod.uid}, "gracePeriodSeconds": grace_s}
