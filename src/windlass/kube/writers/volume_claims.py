"""Claims that wait for their pod's node: they are told it, and then make their volumes.

Whoever makes the volume and cannot takes the node off the claim again: that is how it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from windlass.kube.client.client import Api
from windlass.workloads.objects.storage_wire import PersistentVolumeClaim
from windlass.workloads.pods.volumes import SELECTED, is_bound

_claim = msgspec.json.Decoder(PersistentVolumeClaim)


class Volumes(Enum):
    """How far the volumes of some claims have come."""

    THERE = auto()
    UNDER_WAY = auto()
    FAILED = auto()


async def select(api: Api, namespace: str, claims: Sequence[str], node: str) -> None:
    """Tell claims for which node they are to have volumes."""
    for name in claims:
        body = {"metadata": {"annotations": {SELECTED: node}}}
        await api.patch(_path(namespace, name), body)


async def look(api: Api, namespace: str, claims: Sequence[str], node: str) -> Volumes:
    """See whether all claims have volumes for the node."""
    for name in claims:
        claim = _claim.decode(await api.get(_path(namespace, name)))
        if (claim.metadata.annotations or {}).get(SELECTED, "") != node:
            return Volumes.FAILED
        if not is_bound(claim):
            return Volumes.UNDER_WAY
    return Volumes.THERE


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
