"""Pausing evictions: a word on the lease, which the leader reads with every renewal."""

from __future__ import annotations

import msgspec

from windlass.config import Config
from windlass.kube.access import load
from windlass.kube.client import connect
from windlass.kube.election import PAUSED, Lease, Terms

_lease = msgspec.json.Decoder(Lease)


async def set_paused(config: Config, paused: bool) -> str:
    """Pause or resume; answers who leads."""
    terms = Terms(config.lease.name, config.lease.namespace)
    access = load(config.kubeconfig or None, config.context or None)
    body = {"metadata": {"annotations": {PAUSED: "true" if paused else None}}}
    async with connect(access) as api:
        lease = _lease.decode(await api.patch(terms.path, body))
    return lease.spec.holder_identity or ""
