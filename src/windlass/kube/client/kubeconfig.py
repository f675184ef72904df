"""Reads a kubeconfig or a pod's service account once, by the official client's configuration code.

That code knows the format: lists of files, contexts, certificates, tokens, token files, exec
plug-ins, the old auth providers. It is imported only when needed, since it costs 0.3 s and 16 MiB
(docs/decisions/0009-kubernetes-client.md). It carries no types, hence `Any` here.
"""

import base64
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from windlass.kube.client.errors import NoAccess

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
FILE_GOOD_FOR_S = 60.0  # kubelet renews a token well before it expires; a minute is soon enough


@dataclass(frozen=True, slots=True)
class Identity:
    """What one reading gave."""

    server: str
    ssl: ssl.SSLContext | None
    headers: Mapping[str, str]
    good_for_s: float | None
    """When to read again; None means when the server refuses it."""
    server_name: str | None = None
    proxy: str | None = None


def from_kubeconfig(paths: str, context: str | None) -> Identity:
    """Read a kubeconfig, or a list of them; runs the exec plug-in that it names."""
    try:
        return _read_kubeconfig(paths, context)
    except NoAccess:
        raise
    except Exception as error:  # the library raises whatever the file makes it stumble over
        raise _unusable(paths, error) from error


def _unusable(paths: str, error: Exception) -> NoAccess:
    """What is wrong with a kubeconfig; a stumble of the library says nothing to a reader."""
    is_stumble = isinstance(error, TypeError | AttributeError | KeyError | IndexError)
    why = "it is not a kubeconfig" if is_stumble else str(error)
    return NoAccess(f"The kubeconfig {paths} cannot be used: {why}")


def from_service_account(folder: str = ACCOUNT) -> Identity:
    """Read the service account that a pod is given."""
    library = import_module("kubernetes.config.incluster_config")
    found = _configuration()
    try:
        library.InClusterConfigLoader(f"{folder}/token", f"{folder}/ca.crt").load_and_set(found)
        return _identity(found, FILE_GOOD_FOR_S)
    except Exception as error:
        raise NoAccess(f"The service account in {folder} cannot be used: {error}") from error


def namespace_of_kubeconfig(paths: str, context: str | None) -> str:
    """The namespace that a context is for, as kubectl takes it."""
    try:
        files = _merged(paths)
        chosen = context or _current_context(files.config_files.values())
        found = files.config["contexts"].get_with_name(chosen)["context"]
        return found.safe_get("namespace") or "default"
    except NoAccess:
        raise
    except Exception as error:
        raise _unusable(paths, error) from error


def namespace_of_service_account(folder: str = ACCOUNT) -> str:
    """The namespace of the pod that we run in."""
    try:
        with open(f"{folder}/namespace", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "default"


def _read_kubeconfig(paths: str, context: str | None) -> Identity:
    library = import_module("kubernetes.config.kube_config")
    files = _merged(paths)
    chosen = context or _current_context(files.config_files.values())
    user, cluster = _sections(files.config, chosen)
    good_for_s = FILE_GOOD_FOR_S if user and "tokenFile" in user else None
    persist = files.save_changes  # an auth provider's next refresh token must not be lost
    if user and "exec" in user and not {"token", "tokenFile", "auth-provider"} & user.value.keys():
        good_for_s = _run_plugin(user, cluster)
        persist = None
    loader = library.KubeConfigLoader(
        files.config, active_context=chosen, config_base_path=None, config_persister=persist
    )
    found = _configuration()
    loader.load_and_set(found)
    return _identity(found, good_for_s, cluster.safe_get("proxy-url"))


def _merged(paths: str) -> Any:
    files = import_module("kubernetes.config.kube_config").KubeConfigMerger(paths)
    if files.config is None:
        raise NoAccess(f"The kubeconfig {paths} does not exist. Name one that does.")
    return files


def _current_context(files: Iterable[dict[str, Any]]) -> str:
    """Take the first that is named, as kubectl does; the library would take the last."""
    for content in files:
        if name := content.get("current-context"):
            return name
    raise NoAccess("The kubeconfig names no current context. Name one with --context.")


def _sections(config: Any, context: str) -> tuple[Any, Any]:
    """Return what the context says of the user (or None) and of the cluster."""
    chosen = config["contexts"].get_with_name(context)["context"]
    cluster = config["clusters"].get_with_name(chosen["cluster"])["cluster"]
    name = chosen.safe_get("user")
    user = config["users"].get_with_name(name, safe=True) if name else None
    return (user["user"] if user else None), cluster


def _run_plugin(user: Any, cluster: Any) -> float | None:
    """Run the exec plug-in, put what it gives in its place, and return how long that is good for.

    The loader would run it too, but keeps its errors and the end of its certificates to itself.
    """
    library = import_module("kubernetes.config.exec_provider")
    folder = os.path.dirname(os.path.abspath(user.path))
    status = library.ExecProvider(user["exec"], folder, cluster).run()
    given = {
        "token": status.get("token"),
        "client-certificate-data": _base64(status.get("clientCertificateData")),
        "client-key-data": _base64(status.get("clientKeyData")),
    }
    command = user["exec"]["command"]
    user.value.clear()
    user.value.update({key: value for key, value in given.items() if value})
    if not user.value:
        raise NoAccess(f"The exec plug-in {command} gave neither a token nor a certificate.")
    return _seconds_until(status.get("expirationTimestamp"))


def _base64(text: str | None) -> str | None:
    return base64.b64encode(text.encode()).decode() if text else None


def _seconds_until(instant: str | None) -> float | None:
    return datetime.fromisoformat(instant).timestamp() - time.time() if instant else None


def _configuration() -> Any:
    return import_module("kubernetes.client").Configuration()


def _identity(found: Any, good_for_s: float | None, proxy_url: str | None = None) -> Identity:
    proxy = proxy_url or _proxy_of_environment(found)
    if proxy and not proxy.startswith(("http://", "https://")):
        raise NoAccess(f"The proxy {proxy} cannot be used: only http:// and https:// can.")
    return Identity(
        server=found.host.rstrip("/"),
        ssl=_ssl_context(found) if found.host.startswith("https") else None,
        headers=_headers(found.api_key.get("BearerToken", "")),
        good_for_s=good_for_s,
        server_name=found.tls_server_name,
        proxy=proxy,
    )


def _headers(token: str) -> dict[str, str]:
    """Write the scheme as everyone expects it: the library's differs from source to source."""
    scheme, _, secret = token.strip().partition(" ")
    return {"Authorization": f"{scheme.capitalize()} {secret.strip()}"} if secret else {}


def _proxy_of_environment(found: Any) -> str | None:
    """Return `$HTTPS_PROXY` or `$HTTP_PROXY`, but none for loopback or what `$NO_PROXY` names."""
    host = urlsplit(str(found.host)).hostname or ""
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    return None if is_local or proxy_bypass(host) else found.proxy


def _ssl_context(found: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    # Python 3.13 asks for extensions that the authorities of many clusters do not carry.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if found.cert_file:
        context.load_cert_chain(found.cert_file, found.key_file)
    if not found.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
