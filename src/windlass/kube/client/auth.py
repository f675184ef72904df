"""How the API server is reached: its address, its certificate authority, and who we are.

Sought in this order: the kubeconfig that was named, `$KUBECONFIG` (a list of files),
`~/.kube/config`, and the service account of the pod we run in. An `Access` can also be made by
hand, as tests do.
"""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from windlass.kube.client import kubeconfig as identity
from windlass.kube.client.credentials import Credentials
from windlass.kube.client.errors import NoAccess
from windlass.kube.client.kubeconfig import Identity


async def _never(stale: Mapping[str, str]) -> bool:
    return False


@dataclass(slots=True)
class Access:
    """Where the API server is, and the credentials to send with the next request."""

    server: str
    ssl: ssl.SSLContext | None
    headers: Callable[[], Awaitable[Mapping[str, str]]]
    renew: Callable[[Mapping[str, str]], Awaitable[bool]] = _never
    """Told which headers were refused; true if there are others to try."""
    server_name: str | None = None
    """The name in the server's certificate, where it is not that of the address."""
    proxy: str | None = None


def load(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """Find the way to the API server; runs an exec plug-in if the kubeconfig names one."""
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
        # Another context means other connections: those made with the old certificate are left.
        access.ssl = fresh.ssl

    credentials.renewed = take_certificates
    return access


def namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace that is meant where none is named: the context's, or the pod's own."""
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
    """The kubeconfig to read, or a list of them; empty if there is none."""
    named = kubeconfig or os.environ.get("KUBECONFIG") or ""
    return named or (str(_usual()) if _usual().exists() else "")


def _usual() -> Path:
    return Path.home() / ".kube" / "config"
