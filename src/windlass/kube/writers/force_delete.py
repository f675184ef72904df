"""Delete pods that are terminating and do not end in time.

A pod that has a longer grace than the Policy allows is deleted again, with a shorter grace. The API
server counts the grace from the first deletion on, and a second deletion can only shorten it.

A pod whose kubelet cannot end it is deleted with grace 0, but only if none of its processes can
still run: its node object is gone, a person has set the out-of-service taint, or the Policy counts
a node as dead that has been silent for too long. The node is read again right before: our own view
of it may be old.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from windlass.kube.client import Api, ApiError, NotAllowed, NotFound, Urgency, WriteQueue
from windlass.kube.refs import PodRef
from windlass.kube.writers.binder import Binder
from windlass.kube.writes import StuckPod, is_dead
from windlass.workloads.nodes import trouble_of
from windlass.workloads.objects import NodeObject

_node = msgspec.json.Decoder(NodeObject)


class ForceDeleter:
    """Deletes stuck pods, and shortens the grace of pods that take too long."""

    def __init__(self, api: Api, workers: WriteQueue, binder: Binder) -> None:
        self._api, self._workers, self._binder = api, workers, binder

    def delete(self, stranded: StuckPod) -> None:
        """Delete a pod without waiting for its kubelet, if its node is dead when read again."""

        async def write() -> None:
            if await self._is_dead(stranded):
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": stranded.pod.uid}}
                await self._api.delete(stranded.pod.path, options)

        self._workers.put(
            Urgency.EVICT, self._binder.repeated(Urgency.EVICT, write, _ignore_failure)
        )

    def shorten(self, pod: PodRef, grace_s: int) -> None:
        """Limit the grace of a terminating pod to `grace_s` seconds after its first deletion."""

        async def write() -> None:
            options = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": pod.uid}}
            with suppress(ApiError, NotAllowed):  # a later step orders it again if it is still due
                await self._api.delete(pod.path, options)

        self._workers.put(Urgency.EVICT, write)

    async def _is_dead(self, stranded: StuckPod) -> bool:
        try:
            node = _node.decode(await self._api.get(f"/api/v1/nodes/{stranded.node}"))
        except NotFound:
            return True
        return is_dead(trouble_of(node), stranded.silent_before)


def _ignore_failure(_error: ApiError) -> None:
    """Do nothing: the pod is gone, or a later step orders the deletion again."""
