"""The conversion of pydantic's JSON schema to a structural OpenAPI schema.

The API server accepts only structural schemas. It refuses references, nulls among alternatives,
numeric exclusive bounds, constants, forbidden extra properties, unique items and titles. Extensions
(`x-kubernetes-...`) pass through as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]

_DROPPED = frozenset({"title", "uniqueItems", "propertyNames", "$defs", "const", "$ref", "allOf"})


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _converted(schema, schema.get("$defs", {}))


def _converted(schema: Mapping[str, Any], definitions: Mapping[str, Schema]) -> Schema:
    merged = _merged(schema, definitions)
    converted: Schema = {key: value for key, value in merged.items() if key not in _DROPPED}
    if "const" in merged:
        converted["enum"] = [merged["const"]]
    if "description" in converted:
        converted["description"] = " ".join(converted["description"].split())
    _convert_bounds(converted)
    _convert_parts(converted, definitions)
    if "default" in converted and not _is_default_useful(converted):
        del converted["default"]
    return dict(sorted(converted.items()))


def _merged(schema: Mapping[str, Any], definitions: Mapping[str, Schema]) -> Schema:
    """Return a schema in which a reference, or the only alternative besides null, is inlined."""
    own = dict(schema)
    for word in ("anyOf", "allOf"):
        alternatives = [option for option in own.pop(word, []) if option != {"type": "null"}]
        if len(alternatives) > 1:
            raise TypeError(f"a structural schema has no alternatives: {alternatives}")
        own = {**alternatives[0], **own} if alternatives else own
    if "$ref" in own:
        referred = definitions[own.pop("$ref").rpartition("/")[2]]
        return _merged({**referred, **own}, definitions)
    return own


def _convert_bounds(schema: Schema) -> None:
    """Replace exclusive bounds that are numbers by a bound and a boolean, in place."""
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if word in schema:
            schema[bound] = schema[word]
            schema[word] = True


def _convert_parts(schema: Schema, definitions: Mapping[str, Schema]) -> None:
    """Convert the properties and items of a schema, in place."""
    if "properties" in schema:
        parts = cast(dict[str, Schema], schema["properties"])
        schema["properties"] = {name: _converted(part, definitions) for name, part in parts.items()}
    if "items" in schema:
        schema["items"] = _converted(schema["items"], definitions)
    more = schema.pop("additionalProperties", None)
    if isinstance(more, dict):
        schema["additionalProperties"] = _converted(cast(Schema, more), definitions)
    elif "properties" not in schema and schema.get("type") == "object":
        schema["x-kubernetes-preserve-unknown-fields"] = True


def _is_default_useful(schema: Schema) -> bool:
    """Return whether the API server should fill in the default; reduce a default object to {}.

    An empty default would only add noise to stored objects. The exception is {} for an object whose
    properties have defaults: the API server applies these only if the object itself is there.
    """
    default = schema["default"]
    if default is None:
        return False
    if isinstance(default, dict):
        parts = cast(dict[str, Schema], schema.get("properties", {}))
        schema["default"] = {}
        return any("default" in part for part in parts.values())
    return default != []
