"""The command line of each program of the plane.

All programs listen on 127.0.0.1. The API server authorizes as in production (Node and RBAC); only
settings that would slow tests without testing anything are relaxed: etcd does not wait for the
disk, and the plane's own clients are not throttled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

HOST = "127.0.0.1"
MANY = (5000, 10_000)
"""Requests per second, and at once: more than a client can do, so that no limiter is measured."""


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """The paths and addresses of one plane."""

    folder: Path
    ports: Mapping[str, int]

    @property
    def users(self) -> Path:
        """The folder of all kubeconfigs but the administrator's."""
        return self.folder / "users"

    @property
    def etcd(self) -> str:
        """The address of etcd."""
        return f"http://{HOST}:{self.ports['etcd']}"

    def url(self, name: str) -> str:
        """Return the address of this server."""
        return self.etcd if name == "etcd" else f"https://{HOST}:{self.ports[name]}"

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of this user."""
        return self.users / f"{quote(user, safe='')}.kubeconfig"

    def secret(self, name: str) -> str:
        """Return the path of a certificate or key file."""
        return str(self.folder / "pki" / name)


def words_of(name: str, layout: PlaneLayout, audit: bool = False) -> list[str]:
    """Return the flags of this program, without those that the caller adds."""
    if name == "etcd":
        return _etcd(layout)
    serving = [
        f"--bind-address={HOST}",
        f"--secure-port={layout.ports[name]}",
        f"--tls-cert-file={layout.secret('serving.crt')}",
        f"--tls-private-key-file={layout.secret('serving.key')}",
    ]
    if name == "kube-apiserver":
        return [*serving, *_api_server(layout), *(_audit(layout) if audit else [])]
    own = layout.kubeconfig(f"system:{name}")
    trusting = [f"--authentication-kubeconfig={own}", f"--authorization-kubeconfig={own}"]
    rest = _controllers(layout) if name == "kube-controller-manager" else _scheduler(layout)
    return [*serving, *trusting, *rest]


def _etcd(layout: PlaneLayout) -> list[str]:
    peers = f"http://{HOST}:{layout.ports['etcd-peers']}"
    return [
        f"--data-dir={layout.folder / 'data'}",
        f"--listen-client-urls={layout.etcd}",
        f"--advertise-client-urls={layout.etcd}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(layout: PlaneLayout) -> list[str]:
    return [
        f"--etcd-servers={layout.etcd}",
        f"--advertise-address={HOST}",
        "--endpoint-reconciler-type=none",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={layout.secret('ca.crt')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.secret('tokens.pub')}",
        f"--service-account-signing-key-file={layout.secret('tokens.key')}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--delete-collection-workers=16",
        "--allow-privileged=true",
    ]


def _audit(layout: PlaneLayout) -> list[str]:
    """Return the flags that log every request once, when it is answered, without the objects."""
    policy = layout.folder / "audit-policy.json"
    rules = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
    policy.write_text(json.dumps(rules))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={layout.folder / 'audit.log'}"]


def _controllers(layout: PlaneLayout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig('system:kube-controller-manager')}",
        f"--root-ca-file={layout.secret('ca.crt')}",
        f"--service-account-private-key-file={layout.secret('tokens.key')}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--kube-api-qps={MANY[0]}",
        f"--kube-api-burst={MANY[1]}",
    ]


def _scheduler(layout: PlaneLayout) -> list[str]:
    config = layout.folder / "kube-scheduler.json"
    own = str(layout.kubeconfig("system:kube-scheduler"))
    words = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": own, "qps": MANY[0], "burst": MANY[1]},
        "leaderElection": {"leaderElect": False},
    }
    config.write_text(json.dumps(words))
    return [f"--config={config}"]
