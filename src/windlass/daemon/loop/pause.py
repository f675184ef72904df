"""Pause and resume evictions by an annotation of the lease, which the leader reads to renew it."""

from __future__ import annotations

import msgspec

from windlass.config import Config
from windlass.daemon.loop.read_cluster import ClusterUnreadable, open_api
from windlass.daemon.serving import lease_path
from windlass.kube.client import PAUSED, LeaseRecord, NotFound

_lease = msgspec.json.Decoder(LeaseRecord)


async def set_paused(config: Config, paused: bool) -> str:
    """Pause or resume evictions; return the identity of the leader, empty if there is none."""
    body = {"metadata": {"annotations": {PAUSED: "true" if paused else None}}}
    async with open_api(config) as api:
        path = await lease_path(api, config)
        try:
            lease = _lease.decode(await api.patch(path, body))
        except NotFound:
            found = f"there is no lease {config.lease.name}, so nobody has ever led here"
            raise ClusterUnreadable(
                f"{found}; start `windlass run`, or name its --config"
            ) from None
    return lease.spec.holder_identity or ""
