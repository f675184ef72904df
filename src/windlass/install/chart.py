"""The chart and its values -> the objects of an installation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from windlass import __version__
from windlass.crds.manifest import as_yaml, manifests
from windlass.install.template import lines_of, render
from windlass.install.values import Tree, files

NAME = "windlass"
NAMESPACE = "windlass-system"
MANAGER = "windlass"
"""Who installed it, as a label; `Helm` if Helm did."""
INSTANCE = "app.kubernetes.io/instance"
MANAGED_BY = "app.kubernetes.io/managed-by"
DEFINITIONS = "definitions.yaml"
"""Helm's way to the definitions; here they are made directly."""


@dataclass(frozen=True, slots=True)
class Release:
    """One installation: what it is called and where its own objects lie."""

    name: str = NAME
    namespace: str = NAMESPACE


def folder() -> Path:
    """Where the chart lies: inside the installed package, or in the checkout."""
    inside = Path(__file__).parent / "helm"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "deploy" / "chart"


def objects(values: Tree, release: Release, manager: str = MANAGER) -> list[dict[str, Any]]:
    """Everything but definitions, in the order of the templates."""
    found: list[dict[str, Any]] = []
    for text in _rendered(values, release, manager).values():
        found += [each for each in yaml.safe_load_all(text) if each]
    return found


def definitions(values: Tree) -> list[dict[str, Any]]:
    """The definitions of our custom resources, if they are wanted."""
    made = manifests() if values["crds"]["install"] else {}
    return [yaml.safe_load(text) for _, text in sorted(made.items())]


def namespace(release: Release) -> dict[str, Any]:
    """The namespace of an installation, under the strictest standard for pods."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": release.namespace,
            "labels": {
                "app.kubernetes.io/name": "windlass",
                INSTANCE: release.name,
                MANAGED_BY: MANAGER,
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    }


def as_text(values: Tree, release: Release) -> str:
    """Everything as one YAML text, in an order in which it can be applied."""
    first = [namespace(release), *definitions(values)]
    texts = [as_yaml(each) for each in first] + [as_yaml(e) for e in objects(values, release)]
    return "---\n".join(texts)


def chart_files() -> dict[str, str]:
    """The whole chart as it belongs to this version, by path."""
    kept = {
        str(path.relative_to(folder())): path.read_text(encoding="utf-8")
        for path in sorted(folder().rglob("*"))
        if path.is_file() and path.parent.name != "definitions"
    }
    made = {f"definitions/{name}": text for name, text in manifests().items()}
    return kept | made | files()


def _rendered(values: Tree, release: Release, manager: str) -> dict[str, str]:
    scope = {
        "Values": values,
        "Release": {"Name": release.name, "Namespace": release.namespace, "Service": manager},
        "Chart": {"AppVersion": __version__},
    }
    templates = folder() / "templates"
    lines = lines_of((templates / "_lines.tpl").read_text(encoding="utf-8"))
    return {
        path.name: render(path.read_text(encoding="utf-8"), scope, lines)
        for path in sorted(templates.glob("*.yaml"))
        if path.name != DEFINITIONS
    }
