"""The way to the API server: its address, its certificate authority, and our credentials.

Sources, in this order: the kubeconfig that was named, `$KUBECONFIG` (a list of files),
`~/.kube/config`, and the service account of the pod in which we run. An `Access` can also be made
by hand, as tests do.

Credentials are read again before they expire, when their file may have changed, and after a 401.
`kubeconfig.py` reads them; that blocks and may run a plug-in, so it is done in a thread, by one
request on behalf of all that wait. If a renewal fails, the old credentials stay in use for as long
as the server accepts them.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from windlass.kube.client import kubeconfig as identity
from windlass.kube.client.errors import NoAccess
from windlass.kube.client.kubeconfig import Identity

RETRY_S = 5.0
"""Seconds until the next attempt after a renewal that failed."""
GAP_S = 1.0
"""Seconds between two renewals after refusals: a plug-in must not run for each refused request."""


async def _never(stale: Mapping[str, str]) -> bool:
    return False


@dataclass(slots=True)
class Access:
    """The address of the API server, and the credentials to send with the next request."""

    server: str
    ssl: ssl.SSLContext | None
    headers: Callable[[], Awaitable[Mapping[str, str]]]
    renew: Callable[[Mapping[str, str]], Awaitable[bool]] = _never
    """Called with the headers that were refused; returns whether there are others to try."""
    server_name: str | None = None
    """The host name in the server's certificate, if it differs from the host of the address."""
    proxy: str | None = None
    """The URL of an HTTP proxy, if one is to be used."""


def load(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """Return the access to the API server; runs an exec plug-in if the kubeconfig names one.

    Raises `NoAccess` if no source is there, or if it cannot be used.
    """
    read = _reader(kubeconfig, context)
    first = read()
    credentials = Credentials(read, first)
    access = Access(
        server=first.server,
        ssl=first.ssl,
        headers=credentials.headers,
        renew=credentials.renew,
        server_name=first.server_name,
        proxy=first.proxy,
    )

    def take_certificates(fresh: Identity) -> None:
        # aiohttp keeps connections by SSL context: with a new one, connections that were made with
        # the old certificate are not used again.
        access.ssl = fresh.ssl

    credentials.renewed = take_certificates
    return access


def namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """Return the default namespace: that of the kubeconfig context, or that of our own pod."""
    if paths := _files(kubeconfig):
        return identity.namespace_of_kubeconfig(paths, context)
    return identity.namespace_of_service_account()


def _reader(kubeconfig: str | None, context: str | None) -> Callable[[], Identity]:
    if paths := _files(kubeconfig):
        return partial(identity.from_kubeconfig, paths, context)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return identity.from_service_account
    raise NoAccess(
        "No way to an API server was found: there is no --kubeconfig, no $KUBECONFIG, no"
        f" {_usual()}, and this is no pod of a cluster. Name a kubeconfig."
    )


def _files(kubeconfig: str | None) -> str:
    """Return the path of the kubeconfig, or a list of paths; empty if there is none."""
    named = kubeconfig or os.environ.get("KUBECONFIG") or ""
    return named or (str(_usual()) if _usual().exists() else "")


def _usual() -> Path:
    return Path.home() / ".kube" / "config"


class Credentials:
    """The headers that authenticate us, renewed in time."""

    def __init__(self, read: Callable[[], Identity], first: Identity) -> None:
        self.renewed: Callable[[Identity], None] = _ignore
        """Called after each successful renewal, with what was read."""
        self._read = read
        self._headers = first.headers
        """Replaced as a whole, never changed: `renew` compares it by identity."""
        self._renew_at = _renew_at(first)
        """Monotonic seconds."""
        self._last_forced: float | None = None
        """Monotonic seconds of the last renewal that a refusal caused; None before the first."""
        self._lock = asyncio.Lock()
        """Held while renewing, so that many waiting requests cause one renewal."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate us, after renewing them if they are due."""
        if time.monotonic() >= self._renew_at:
            async with self._lock:
                if time.monotonic() >= self._renew_at:
                    await self._renew_if_possible()
        return self._headers

    async def renew(self, stale: Mapping[str, str]) -> bool:
        """Renew headers that were refused; return whether another attempt may succeed."""
        async with self._lock:
            if stale is not self._headers:
                return True  # another request has renewed them meanwhile
            now = time.monotonic()
            if self._last_forced is not None and now < self._last_forced + GAP_S:
                return False
            self._last_forced = now
            return await self._renew_if_possible()

    def wait_s(self) -> float:
        """Return the seconds until the credentials will be read again."""
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
    """Return when to renew, in monotonic seconds, so that a jump of the wall clock does no harm."""
    if identity.good_for_s is None:
        return float("inf")
    # A fifth of the life time, at most a minute: short-lived tokens are not renewed all the time.
    margin_s = min(60.0, identity.good_for_s / 5)
    return time.monotonic() + max(GAP_S, identity.good_for_s - margin_s)
