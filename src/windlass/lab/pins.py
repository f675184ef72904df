"""The versions that the go.mod in `controlplane/` pins: stated there, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

MODULE = Path(__file__).parent / "controlplane"
"""The Go module whose tools are the control plane."""


def _pinned(pattern: str) -> str:
    found = re.search(pattern, (MODULE / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise LookupError(f"{MODULE / 'go.mod'} has no line like {pattern}")
    return found[1]


KUBERNETES_VERSION = _pinned(r"^\s*k8s\.io/kubernetes (v\S+)")
ETCD_VERSION = _pinned(r"^\s*go\.etcd\.io/etcd/server/v3 (v\S+)")
GO_VERSION = _pinned(r"^go (\d+\.\d+)")
