"""The chart as files, and the objects of an installation that the chart does not make.

Helm reads the templates. Here is what is known without Helm: the folder of the chart, the kinds of
objects that it makes, the rights that it grants to the scheduler, and the namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from windlass.crds.manifest import as_yaml, manifests
from windlass.install.values import files

Object: TypeAlias = dict[str, Any]
"""An object of Kubernetes."""
Rule: TypeAlias = dict[str, list[str]]
"""A rule of a role: verbs, resources, their API groups and, if it is limited to some, their
names."""

NAME = "windlass"
"""The usual name of a release, and the name of the chart."""
NAMESPACE = "windlass-system"
MANAGER = "windlass"
"""The value of the label `managed-by` on a namespace that `windlass install` made. Versions that
did not call Helm gave it to all objects; objects of the chart now have `Helm`."""
PART_OF = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
MANAGED_BY = "app.kubernetes.io/managed-by"
DEFINITION = "CustomResourceDefinition"
RIGHTS = "rights/scheduler.yaml"
RELEASE_WORD = "RELEASE"
"""The placeholder for the name of the release in the file of rights."""

CLUSTER_KINDS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
)
NAMESPACE_KINDS = (
    ("apps/v1", "Deployment"),
    ("coordination.k8s.io/v1", "Lease"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
)
"""With `CLUSTER_KINDS`, all kinds of objects that the chart can make, except definitions."""


@dataclass(frozen=True, slots=True)
class Release:
    """One installation: its name, and the namespace of its objects."""

    name: str = NAME
    namespace: str = NAMESPACE


def folder() -> Path:
    """Return the folder of the chart: inside the installed package, or in the checkout."""
    inside = Path(__file__).parent / "helm"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "deploy" / "chart"


def definitions() -> list[Object]:
    """Return the definitions of our custom resources."""
    return [yaml.safe_load(text) for _, text in sorted(manifests().items())]


def namespace(release: Release) -> Object:
    """Return the namespace object of an installation, with the restricted pod security standard."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": release.namespace,
            "labels": {
                PART_OF: "windlass",
                INSTANCE: release.name,
                MANAGED_BY: MANAGER,
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    }


def scheduler_rules(release_name: str) -> dict[str, list[Rule]]:
    """Return the rules that the chart grants to the scheduler of a release.

    The keys are `cluster`, `dashboard` (also for the whole cluster, if the dashboard is enabled)
    and `namespace` (for the namespace of the release).
    """
    text = (folder() / RIGHTS).read_text(encoding="utf-8")
    return yaml.safe_load(text.replace(RELEASE_WORD, release_name))


def as_text(objects: Iterable[Object], release: Release) -> str:
    """Return the objects of a release as one YAML text, in an order in which it can be applied."""
    definitions_first = sorted(objects, key=lambda thing: thing["kind"] != DEFINITION)
    return "---\n".join(as_yaml(thing) for thing in (namespace(release), *definitions_first))


def chart_files() -> dict[str, str]:
    """Return the texts of all files of the chart of this version, by path."""
    kept = {
        str(path.relative_to(folder())): path.read_text(encoding="utf-8")
        for path in sorted(folder().rglob("*"))
        if path.is_file() and path.parent.name != "definitions"
    }
    made = {f"definitions/{name}": text for name, text in manifests().items()}
    return kept | made | files()
