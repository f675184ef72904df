"""When credentials are read again: before they expire, when their file may be new, after a 401.

How they are read is the client library's business (`identity.py`). It blocks and may run a plug-in,
so it is done in a thread, by one request for all that wait. A failure to renew leaves the old ones
in use for as long as the server takes them.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

from windlass.kube.client.errors import NoAccess
from windlass.kube.client.kubeconfig import Identity

RETRY_S = 5.0  # after a renewal that failed
GAP_S = 1.0  # between renewals that refusals ask for: a plug-in is not run for each request


class Credentials:
    """The headers to send, kept fresh."""

    def __init__(self, read: Callable[[], Identity], first: Identity) -> None:
        self.renewed: Callable[[Identity], None] = _ignore
        self._read = read
        self._headers = first.headers
        self._renew_at = _renew_at(first)
        self._last_forced: float | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that say who we are, after renewing them if it is time."""
        if time.monotonic() >= self._renew_at:
            async with self._lock:
                if time.monotonic() >= self._renew_at:
                    await self._renew_if_possible()
        return self._headers

    async def renew(self, stale: Mapping[str, str]) -> bool:
        """Renew headers that were refused; false if there is no use in trying again."""
        async with self._lock:
            if stale is not self._headers:
                return True  # another request has renewed them meanwhile
            now = time.monotonic()
            if self._last_forced is not None and now < self._last_forced + GAP_S:
                return False
            self._last_forced = now
            return await self._renew_if_possible()

    def wait_s(self) -> float:
        """Return the seconds until they will be read again."""
        return self._renew_at - time.monotonic()

    async def _renew_if_possible(self) -> bool:
        try:
            fresh = await asyncio.to_thread(self._read)
        except NoAccess:
            self._renew_at = time.monotonic() + RETRY_S
            return False
        self._headers = fresh.headers
        self._renew_at = _renew_at(fresh)
        self.renewed(fresh)
        return True


def _ignore(fresh: Identity) -> None:
    pass


def _renew_at(identity: Identity) -> float:
    """In monotonic time, so that a clock that jumps later does no harm."""
    if identity.good_for_s is None:
        return float("inf")
    margin_s = min(60.0, identity.good_for_s / 5)
    return time.monotonic() + max(GAP_S, identity.good_for_s - margin_s)
