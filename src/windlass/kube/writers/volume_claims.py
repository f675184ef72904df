"""Have volumes provisioned for claims with the binding mode WaitForFirstConsumer.

The scheduler writes the node on the claim (`volume.kubernetes.io/selected-node`), and the
provisioner makes the volume for that node. A provisioner that cannot removes the annotation again:
that is how it reports a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from windlass.kube.client import Api
from windlass.workloads.objects import PersistentVolumeClaim
from windlass.workloads.pods import SELECTED, is_bound

_claim = msgspec.json.Decoder(PersistentVolumeClaim)


class Volumes(Enum):
    """The state of the volumes of some claims."""

    THERE = auto()
    UNDER_WAY = auto()
    FAILED = auto()


async def select(api: Api, namespace: str, claims: Sequence[str], node: str) -> None:
    """Write the node on each of the claims, so that their volumes are provisioned for it."""
    for name in claims:
        body = {"metadata": {"annotations": {SELECTED: node}}}
        await api.patch(_path(namespace, name), body)


async def look(api: Api, namespace: str, claims: Sequence[str], node: str) -> Volumes:
    """Return the state of the volumes: THERE only if all claims have one for the node."""
    for name in claims:
        claim = _claim.decode(await api.get(_path(namespace, name)))
        if (claim.metadata.annotations or {}).get(SELECTED, "") != node:
            return Volumes.FAILED
        if not is_bound(claim):
            return Volumes.UNDER_WAY
    return Volumes.THERE


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
