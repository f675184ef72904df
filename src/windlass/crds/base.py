"""The parts that the models of all custom resources share: strict parsing, names, conditions."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from windlass.model.validation import LONGEST_NAME

Instant: TypeAlias = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]
"""A time as Kubernetes writes it: 2026-11-16T04:10:00Z."""

LABEL = "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
LabelKey: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=317, pattern=f"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?{LABEL}$")
]
LabelValue: TypeAlias = Annotated[str, Field(max_length=63, pattern=f"^({LABEL})?$")]
QueueName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
]
"""The name of a queue; it must be a valid label value, because a pod names its queue by a label."""
ObjectName: TypeAlias = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_NAME, pattern="^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"),
]


class CrdModel(BaseModel):
    """The base of all models: known fields are parsed strictly, unknown fields are ignored.

    A newer version may have added the unknown ones.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    def as_json(self) -> dict[str, Any]:
        """Return the object as it is sent to the API server, without fields that were not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


class StatusCondition(CrdModel):
    """One aspect of the state of the object."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """The type of the condition, such as Ready."""
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern="^[A-Za-z][A-Za-z0-9_]*$")]
    """A word in CamelCase, for programs, that names the cause of the status."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """A sentence for people that explains the status."""
    last_transition_time: Instant
    """The time at which the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object for which the condition was computed."""


def keyed_by(field: str) -> dict[str, JsonValue]:
    """Return the schema extension of a list in which each value of the field occurs only once."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [field]}


AS_SET: dict[str, JsonValue] = {"x-kubernetes-list-type": "set"}
"""The schema extension of a list in which each item occurs only once."""


class ObjectStatus(CrdModel):
    """The status that Windlass writes."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object for which the status was computed."""
    conditions: list[StatusCondition] = Field(default=[], json_schema_extra=keyed_by("type"))
    """Ready: the object is valid and in use; otherwise the message says how to correct it."""
