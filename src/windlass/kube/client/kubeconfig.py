"""Read a kubeconfig or the service account of a pod once, by the official client's loaders.

These know the format: lists of files, contexts, certificates, tokens, token files, exec plug-ins,
the old auth providers. They are imported only when needed, since that costs 0.3 s and 16 MiB
(docs/decisions/0009-kubernetes-client.md). They carry no types, hence `Any` here.
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
FILE_GOOD_FOR_S = 60.0
"""Seconds after which a token file is read again: kubelet replaces a token long before it expires,
so once a minute is soon enough."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The result of reading a kubeconfig or a service account."""

    server: str
    ssl: ssl.SSLContext | None
    headers: Mapping[str, str]
    good_for_s: float | None
    """Seconds after which to read again; None: only when the server refuses the credentials."""
    server_name: str | None = None
    proxy: str | None = None


def from_kubeconfig(paths: str, context: str | None) -> Identity:
    """Read a kubeconfig, or a list of them, and run the exec plug-in that it names."""
    try:
        return _read_kubeconfig(paths, context)
    except NoAccess:
        raise
    except Exception as error:  # the library raises any exception that a malformed file causes
        raise _unusable(paths, error) from error


def _unusable(paths: str, error: Exception) -> NoAccess:
    """Return the error for a kubeconfig that cannot be used.

    The text of an internal error of the library, such as a KeyError, is of no use to a reader.
    """
    is_internal = isinstance(error, TypeError | AttributeError | KeyError | IndexError)
    why = "it is not a kubeconfig" if is_internal else str(error)
    return NoAccess(f"The kubeconfig {paths} cannot be used: {why}")


def from_service_account(folder: str = ACCOUNT) -> Identity:
    """Read the service account that kubelet mounts into a pod."""
    library = import_module("kubernetes.config.incluster_config")
    configuration = _configuration()
    try:
        library.InClusterConfigLoader(f"{folder}/token", f"{folder}/ca.crt").load_and_set(
            configuration
        )
        return _identity(configuration, FILE_GOOD_FOR_S)
    except Exception as error:
        raise NoAccess(f"The service account in {folder} cannot be used: {error}") from error


def namespace_of_kubeconfig(paths: str, context: str | None) -> str:
    """Return the namespace of a context, `default` if it names none, as kubectl does."""
    try:
        files = _merged(paths)
        chosen = context or _current_context(files.config_files.values())
        section = files.config["contexts"].get_with_name(chosen)["context"]
        return section.safe_get("namespace") or "default"
    except NoAccess:
        raise
    except Exception as error:
        raise _unusable(paths, error) from error


def namespace_of_service_account(folder: str = ACCOUNT) -> str:
    """Return the namespace of the pod in which we run; `default` if it cannot be read."""
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
    # An auth provider may give a new refresh token, which must be saved to the file.
    persist = files.save_changes
    if user and "exec" in user and not {"token", "tokenFile", "auth-provider"} & user.value.keys():
        good_for_s = _run_plugin(user, cluster)
        persist = None
    loader = library.KubeConfigLoader(
        files.config, active_context=chosen, config_base_path=None, config_persister=persist
    )
    configuration = _configuration()
    loader.load_and_set(configuration)
    return _identity(configuration, good_for_s, cluster.safe_get("proxy-url"))


def _merged(paths: str) -> Any:
    files = import_module("kubernetes.config.kube_config").KubeConfigMerger(paths)
    if files.config is None:
        raise NoAccess(f"The kubeconfig {paths} does not exist. Name one that does.")
    return files


def _current_context(files: Iterable[dict[str, Any]]) -> str:
    """Return the first current-context, as kubectl does; the library would take the last one."""
    for content in files:
        if name := content.get("current-context"):
            return name
    raise NoAccess("The kubeconfig names no current context. Name one with --context.")


def _sections(config: Any, context: str) -> tuple[Any, Any]:
    """Return the user section (or None) and the cluster section that a context refers to."""
    chosen = config["contexts"].get_with_name(context)["context"]
    cluster = config["clusters"].get_with_name(chosen["cluster"])["cluster"]
    name = chosen.safe_get("user")
    user = config["users"].get_with_name(name, safe=True) if name else None
    return (user["user"] if user else None), cluster


def _run_plugin(user: Any, cluster: Any) -> float | None:
    """Run the exec plug-in and write its credentials into the user section, in place of `exec`.

    Return for how many seconds they are valid; None if the plug-in does not say. The library could
    run it too, but does not report its errors or the time at which certificates expire.
    """
    library = import_module("kubernetes.config.exec_provider")
    folder = os.path.dirname(os.path.abspath(user.path))
    status = library.ExecProvider(user["exec"], folder, cluster).run()
    credentials = {
        "token": status.get("token"),
        "client-certificate-data": _base64(status.get("clientCertificateData")),
        "client-key-data": _base64(status.get("clientKeyData")),
    }
    command = user["exec"]["command"]
    user.value.clear()
    user.value.update({key: value for key, value in credentials.items() if value})
    if not user.value:
        raise NoAccess(f"The exec plug-in {command} gave neither a token nor a certificate.")
    return _seconds_until(status.get("expirationTimestamp"))


def _base64(text: str | None) -> str | None:
    return base64.b64encode(text.encode()).decode() if text else None


def _seconds_until(instant: str | None) -> float | None:
    return datetime.fromisoformat(instant).timestamp() - time.time() if instant else None


def _configuration() -> Any:
    return import_module("kubernetes.client").Configuration()


def _identity(
    configuration: Any, good_for_s: float | None, proxy_url: str | None = None
) -> Identity:
    proxy = proxy_url or _proxy_of_environment(configuration)
    if proxy and not proxy.startswith(("http://", "https://")):
        raise NoAccess(f"The proxy {proxy} cannot be used: only http:// and https:// can.")
    return Identity(
        server=configuration.host.rstrip("/"),
        ssl=_ssl_context(configuration) if configuration.host.startswith("https") else None,
        headers=_headers(configuration.api_key.get("BearerToken", "")),
        good_for_s=good_for_s,
        server_name=configuration.tls_server_name,
        proxy=proxy,
    )


def _headers(token: str) -> dict[str, str]:
    """Return the Authorization header; the library writes its scheme in different cases."""
    scheme, _, secret = token.strip().partition(" ")
    return {"Authorization": f"{scheme.capitalize()} {secret.strip()}"} if secret else {}


def _proxy_of_environment(configuration: Any) -> str | None:
    """Return `$HTTPS_PROXY` or `$HTTP_PROXY`; None for loopback and for hosts in `$NO_PROXY`."""
    host = urlsplit(str(configuration.host)).hostname or ""
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    return None if is_local or proxy_bypass(host) else configuration.proxy


def _ssl_context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Python 3.13 requires extensions that the certificate authorities of many clusters lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
