"""The signing key of a term: its leader reads it, or makes it, and publishes its public half."""

from __future__ import annotations

import asyncio

from windlass.daemon.serving.context import DaemonContext
from windlass.daemon.serving.leader_info import public_key_of, read_lease
from windlass.kube.client.errors import ApiError, Forbidden, Invalid, NotAllowed, NotFound
from windlass.kube.writers.signing import PUBLIC_KEY, UnreadableKey, private_key

TRIES = 5
AGAIN_AFTER_S = 1.0
NO_KEY = (
    "without it no owner is suspended: all pods are evicted one by one, and owners that were "
    "suspended before are not resumed; let the scheduler's account get and patch Secret "
)


async def take_up(parts: DaemonContext) -> None:
    """Sign and check with the key of this cluster from now on; without one, tell so and go on."""
    if parts.config.shadow:
        await _only_check(parts)
        return
    lease = parts.config.lease
    name = f"{lease.name}-signing-key"
    try:
        key = await _key(parts, lease.namespace, name)
    except NotAllowed:
        return  # the lease was lost meanwhile, and another term begins with this
    except (ApiError, UnreadableKey) as error:
        advice = f"{NO_KEY}{lease.namespace}/{name}"
        parts.log.line("no signing key", level="error", why=str(error), advice=advice)
        key = None
    parts.signing.use(key)
    parts.election.annotations[PUBLIC_KEY] = parts.signing.public


async def _key(parts: DaemonContext, namespace: str, name: str) -> bytes:
    for left in reversed(range(TRIES)):
        try:
            return await private_key(parts.api, namespace, name)
        except (Forbidden, NotFound, Invalid):
            raise
        except ApiError:
            if not left:
                raise
        await asyncio.sleep(AGAIN_AFTER_S)
    raise AssertionError("unreachable")


async def _only_check(parts: DaemonContext) -> None:
    try:
        lease = await read_lease(parts.api, parts.config)
    except ApiError as error:
        parts.log.line("no signing key", level="warning", why=error.message)
    else:
        parts.signing.only_check(public_key_of(lease))
