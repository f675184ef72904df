"""The versions that the go.mod files in `controlplane/` and `helm/` pin, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

MODULE = Path(__file__).parent / "controlplane"
"""The Go module whose tools are the control plane."""
HELM_MODULE = Path(__file__).parent / "helm"
"""Helm stands on other versions of the same libraries, so it has a module of its own."""


def _pinned(pattern: str, module: Path = MODULE) -> str:
    found = re.search(pattern, (module / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise LookupError(f"{module / 'go.mod'} has no line like {pattern}")
    return found[1]


KUBERNETES_VERSION = _pinned(r"^\s*k8s\.io/kubernetes (v\S+)")
ETCD_VERSION = _pinned(r"^\s*go\.etcd\.io/etcd/server/v3 (v\S+)")
GO_VERSION = _pinned(r"^go (\d+\.\d+)")
HELM_VERSION = _pinned(r"^\s*helm\.sh/helm/v3 (v\S+)", HELM_MODULE)
