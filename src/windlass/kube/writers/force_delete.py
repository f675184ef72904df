"""Deletions of pods that were told to go and do not end in time.

A pod that has more time to end than the Policy allows is deleted again, with a shorter grace. The
API server counts that from the first deletion on, and never lets a second one make it longer.

A pod without a kubelet that could end it is deleted without waiting, but only where nothing of it
can still run: its node is gone, a person has tainted it out of service, or the Policy takes a node
that was silent for too long for dead. That is asked of the node itself, right before: what we know
of it may be old.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import msgspec

from windlass.kube.client.client import Api
from windlass.kube.client.errors import ApiError, NotAllowed, NotFound
from windlass.kube.client.write_queue import Urgency, WriteQueue
from windlass.kube.refs import PodRef
from windlass.kube.writers.binder import Binder
from windlass.model.nodes import NodeStanding, NodeTrouble
from windlass.workloads.nodes.health import OUT_OF_SERVICE, trouble_of
from windlass.workloads.objects.wire import NodeObject

_node = msgspec.json.Decoder(NodeObject)


@dataclass(frozen=True, slots=True)
class Stranded:
    """A pod whose time to end is over, and the node that should have ended it."""

    pod: PodRef
    node: str
    silent_before: int | None = None
    """A node that is silent since before this second counts as dead; None: silence is no proof."""


def is_dead(trouble: NodeTrouble | None, silent_before: int | None) -> bool:
    """Can nothing run any more on a node that is there, by what is wrong with it?"""
    if trouble is None or trouble.stand is not NodeStanding.LOST:
        return False
    if not trouble.since:
        # shut down is not enough: its disks may be in use by a machine that comes up again
        return trouble.taint == OUT_OF_SERVICE
    return silent_before is not None and trouble.since <= silent_before


class Forcer:
    """Deletes what is stranded, and hastens what takes too long."""

    def __init__(self, api: Api, workers: WriteQueue, binder: Binder) -> None:
        self._api, self._workers, self._binder = api, workers, binder

    def delete(self, stranded: Stranded) -> None:
        """Delete a pod without waiting for its kubelet, if its node proves to be dead."""

        async def write() -> None:
            if await self._is_dead(stranded):
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": stranded.pod.uid}}
                await self._api.delete(stranded.pod.path, options)

        self._workers.put(
            Urgency.EVICT, self._binder.repeated(Urgency.EVICT, write, _it_is_gone_or_stays)
        )

    def shorten(self, pod: PodRef, grace_s: int) -> None:
        """Give a pod that terminates no more than so many seconds, from its deletion on."""

        async def write() -> None:
            options = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": pod.uid}}
            with suppress(ApiError, NotAllowed):  # if it is still due later, it is asked for again
                await self._api.delete(pod.path, options)

        self._workers.put(Urgency.EVICT, write)

    async def _is_dead(self, stranded: Stranded) -> bool:
        try:
            found = _node.decode(await self._api.get(f"/api/v1/nodes/{stranded.node}"))
        except NotFound:
            return True
        return is_dead(trouble_of(found), stranded.silent_before)


def _it_is_gone_or_stays(_error: ApiError) -> None:
    """Nothing depends on it; if it is still there later, it is tried again."""
