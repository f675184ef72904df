"""Kubeconfig files that contain their certificates, so that they can be copied."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

from windlass.certificates import Pair, write_secret

CLUSTER = "windlass-lab"


def write_kubeconfig(path: Path, server: str, authority: bytes, user: Pair) -> None:
    """Write access to the server as this user; JSON, which is YAML that needs no library."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CLUSTER,
        "clusters": [
            {
                "name": CLUSTER,
                "cluster": {"server": server, "certificate-authority-data": _text(authority)},
            }
        ],
        "users": [
            {
                "name": CLUSTER,
                "user": {
                    "client-certificate-data": _text(user.certificate),
                    "client-key-data": _text(user.key),
                },
            }
        ],
        "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": CLUSTER}}],
    }
    write_secret(path, json.dumps(config, indent=2).encode() + b"\n")


def _text(data: bytes) -> str:
    return b64encode(data).decode()
