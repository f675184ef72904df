"""The CustomResourceDefinitions, generated from the table of kinds; deploy/crds holds a copy."""

from __future__ import annotations

from typing import Any

import yaml

from windlass.crds.definitions import API_VERSION, GROUP, KINDS, VERSION, Column, CustomResource
from windlass.crds.structural_schema import Schema, structural

KEPT = {"helm.sh/resource-policy": "keep"}
"""The annotation by which Helm keeps a definition: deleting it would delete all its objects."""


def manifests() -> dict[str, str]:
    """Return the YAML of each definition, by file name."""
    return {f"{kind.plural}.yaml": as_yaml(definition(kind)) for kind in KINDS.values()}


def definition(kind: CustomResource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one kind."""
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
    """Return a value as YAML; equal values give equal text."""
    return yaml.dump(value, Dumper=_NoAliasDumper, sort_keys=False, width=100, allow_unicode=True)


class _NoAliasDumper(yaml.SafeDumper):
    """A dumper that repeats equal parts instead of writing anchors and aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _version(kind: CustomResource) -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _schema(kind)},
    }


def _column(column: Column) -> dict[str, Any]:
    printed = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return printed | ({"priority": column.priority} if column.priority else {})


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
