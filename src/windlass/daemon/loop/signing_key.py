"""Load the signing key at the start of a term, and publish its public half on the lease."""

from __future__ import annotations

import asyncio

from windlass.daemon.serving import DaemonContext, public_key_of, read_lease
from windlass.kube.client import ApiError, Forbidden, Invalid, NotAllowed, NotFound
from windlass.kube.writers import PUBLIC_KEY, UnreadableKey, private_key

TRIES = 5
AGAIN_AFTER_S = 1.0
"""Attempts to read the Secret, and the pause between them. They are few: the first decision waits
for the key, and a term without one works, but suspends and resumes no owner."""
NO_KEY = (
    "without it no owner is suspended: all pods are evicted one by one, and owners that were "
    "suspended before are not resumed; let the scheduler's account get and patch Secret "
)


async def load_signing_key(context: DaemonContext) -> None:
    """Sign and verify with the key of this cluster from now on; without a key, log an error.

    Shadow mode reads the public key from the lease and only verifies.
    """
    if context.config.shadow:
        await _load_public_key(context)
        return
    lease = context.config.lease
    name = f"{lease.name}-signing-key"
    try:
        key = await _key(context, lease.namespace, name)
    except NotAllowed:
        return  # the lease was lost meanwhile: the next term loads the key again
    except (ApiError, UnreadableKey) as error:
        advice = f"{NO_KEY}{lease.namespace}/{name}"
        context.log.line("no signing key", level="error", why=str(error), advice=advice)
        key = None
    context.signing.use(key)
    context.election.annotations[PUBLIC_KEY] = context.signing.public


async def _key(context: DaemonContext, namespace: str, name: str) -> bytes:
    for tries_left in reversed(range(TRIES)):
        try:
            return await private_key(context.api, namespace, name)
        except (Forbidden, NotFound, Invalid):  # a retry would fail in the same way
            raise
        except ApiError:
            if not tries_left:
                raise
        await asyncio.sleep(AGAIN_AFTER_S)
    raise AssertionError("unreachable")


async def _load_public_key(context: DaemonContext) -> None:
    try:
        lease = await read_lease(context.api, context.config)
    except ApiError as error:
        context.log.line("no signing key", level="warning", why=error.message)
    else:
        context.signing.verify_with(public_key_of(lease))
