"""From pydantic's JSON schema to the structural OpenAPI schema that the API server accepts.

It refuses references, nulls among alternatives, numeric exclusive bounds, constants, forbidden
extra properties, unique items and titles. Extensions (`x-kubernetes-...`) pass through as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]

_DROPPED = frozenset({"title", "uniqueItems", "propertyNames", "$defs", "const", "$ref", "allOf"})


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _converted(schema, schema.get("$defs", {}))


def _converted(schema: Mapping[str, Any], known: Mapping[str, Schema]) -> Schema:
    merged = _merged(schema, known)
    found: Schema = {key: value for key, value in merged.items() if key not in _DROPPED}
    if "const" in merged:
        found["enum"] = [merged["const"]]
    if "description" in found:
        found["description"] = " ".join(found["description"].split())
    _bounds(found)
    _inside(found, known)
    if "default" in found and not _is_worth_saying(found):
        del found["default"]
    return dict(sorted(found.items()))


def _merged(schema: Mapping[str, Any], known: Mapping[str, Schema]) -> Schema:
    """A schema with its reference, or its only alternative besides null, put in its place."""
    own = dict(schema)
    for word in ("anyOf", "allOf"):
        alternatives = [each for each in own.pop(word, []) if each != {"type": "null"}]
        if len(alternatives) > 1:
            raise TypeError(f"a structural schema has no alternatives: {alternatives}")
        own = {**alternatives[0], **own} if alternatives else own
    if "$ref" in own:
        referred = known[own.pop("$ref").rpartition("/")[2]]
        return _merged({**referred, **own}, known)
    return own


def _bounds(schema: Schema) -> None:
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if word in schema:
            schema[bound] = schema[word]
            schema[word] = True


def _inside(schema: Schema, known: Mapping[str, Schema]) -> None:
    if "properties" in schema:
        parts = cast(dict[str, Schema], schema["properties"])
        schema["properties"] = {name: _converted(part, known) for name, part in parts.items()}
    if "items" in schema:
        schema["items"] = _converted(schema["items"], known)
    more = schema.pop("additionalProperties", None)
    if isinstance(more, dict):
        schema["additionalProperties"] = _converted(cast(Schema, more), known)
    elif "properties" not in schema and schema.get("type") == "object":
        schema["x-kubernetes-preserve-unknown-fields"] = True


def _is_worth_saying(schema: Schema) -> bool:
    """An empty default only fills objects with noise, unless it opens the way for others."""
    default = schema["default"]
    if default is None:
        return False
    if isinstance(default, dict):
        parts = cast(dict[str, Schema], schema.get("properties", {}))
        schema["default"] = {}
        return any("default" in part for part in parts.values())
    return default != []
