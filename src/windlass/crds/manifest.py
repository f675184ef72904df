"""CustomResourceDefinitions, made from the table of kinds; deploy/crds holds the same text."""

from __future__ import annotations

from typing import Any

import yaml

from windlass.crds.definitions import API_VERSION, GROUP, KINDS, VERSION, Column, CustomResource
from windlass.crds.structural_schema import Schema, structural

KEPT = {"helm.sh/resource-policy": "keep"}
"""With a definition all its objects would go: Helm leaves it where it is."""


def manifests() -> dict[str, str]:
    """Per file name, the YAML of one definition."""
    return {f"{kind.plural}.yaml": as_yaml(definition(kind)) for kind in KINDS.values()}


def definition(kind: CustomResource) -> dict[str, Any]:
    """The definition of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "windlass"},
            "annotations": KEPT,
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
                "categories": ["windlass"],
            },
            "versions": [_version(kind)],
        },
    }


def as_yaml(value: dict[str, Any]) -> str:
    """The value as YAML, the same for the same value."""
    return yaml.dump(value, Dumper=_Plain, sort_keys=False, width=100, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Anchors are for people who write; a definition repeats itself instead."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _version(kind: CustomResource) -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(each) for each in kind.columns],
        "schema": {"openAPIV3Schema": _schema(kind)},
    }


def _column(column: Column) -> dict[str, Any]:
    said = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return said | ({"priority": column.priority} if column.priority else {})


def _schema(kind: CustomResource) -> Schema:
    spec = structural(kind.spec)
    if not kind.needs_spec:
        spec["default"] = {}
    schema: Schema = {
        "type": "object",
        "description": kind.about,
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {kind.name}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural(kind.status),
        },
    }
    if kind.needs_spec:
        schema["required"] = ["spec"]
    if kind.rules:
        schema["x-kubernetes-validations"] = list(kind.rules)
    return schema
