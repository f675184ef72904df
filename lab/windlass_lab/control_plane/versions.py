"""The programs that the lab builds, at the versions that its go.mod files pin.

No other file names a version: `PROGRAMS` says where each program comes from, and the go.mod of that
folder pins its version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PLANE = HERE / "controlplane"
HELM = HERE / "helm"
"""Helm needs other versions of the same libraries, so it has a module of its own."""
CONTROLLERS = HERE / "controllers"
"""One module for all controllers, so that they share compiled libraries: four of them cost little
more CPU time to build than one."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that the lab builds from a Go module."""

    name: str
    folder: Path
    """The folder with the go.mod and go.sum that pin the build."""
    module: str
    """The Go module whose version is the program's."""
    package: str
    """The package to build, a part of `module`."""
    manifests: tuple[str, ...] = ()
    """Folders of `module` with the manifests that a cluster needs before the program can run:
    custom resource definitions and webhook configurations. Copied beside the built program."""

    @property
    def version(self) -> str:
        """The pinned version, such as v1.36.4."""
        found = _requirements(self.folder).get(self.module)
        if not found:
            raise LookupError(f"{self.folder / 'go.mod'} does not require {self.module}")
        return found

    @property
    def go_version(self) -> str:
        """The oldest Go that can build it, such as 1.26."""
        return _go_version(self.folder)

    @property
    def file_name(self) -> str:
        """The name of the built program in the cache folder.

        The name of that folder says the version of Kubernetes alone, so controllers say their own.
        """
        return f"{self.name}-{self.version}" if self.manifests else self.name


def _kubernetes(name: str) -> Program:
    return Program(name, PLANE, "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}")


_ALL = (
    Program("etcd", PLANE, "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
    Program("helm", HELM, "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm"),
    Program(
        "jobset",
        CONTROLLERS,
        "sigs.k8s.io/jobset",
        "sigs.k8s.io/jobset",
        ("config/components/crd/bases", "config/components/webhook"),
    ),
    Program(
        "lws",
        CONTROLLERS,
        "sigs.k8s.io/lws",
        "sigs.k8s.io/lws/cmd",
        ("config/crd/bases", "config/webhook"),
    ),
    Program(
        "trainer",
        CONTROLLERS,
        "github.com/kubeflow/trainer/v2",
        "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
        ("manifests/base/crds", "manifests/base/webhook"),
    ),
    Program(
        "karpenter",
        CONTROLLERS,
        "sigs.k8s.io/karpenter",
        "sigs.k8s.io/karpenter/kwok",
        ("pkg/apis/crds", "kwok/apis/crds"),
    ),
)
PROGRAMS = {program.name: program for program in _ALL}


@cache
def _requirements(folder: Path) -> dict[str, str]:
    """Return the version of each Go module that the go.mod in this folder requires."""
    text = (folder / "go.mod").read_text()
    return dict(re.findall(r"^\s*(?:require )?(\S+) (v\S+)(?: //.*)?$", text, re.MULTILINE))


@cache
def _go_version(folder: Path) -> str:
    text = (folder / "go.mod").read_text()
    found = re.search(r"^go (\d+\.\d+(?:\.[1-9]\d*)?)", text, re.MULTILINE)
    if not found:
        raise LookupError(f"{folder / 'go.mod'} does not say which Go it needs")
    return found[1]


KUBERNETES_VERSION = PROGRAMS["kubectl"].version
ETCD_VERSION = PROGRAMS["etcd"].version
