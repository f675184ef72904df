"""What the models of all custom resources share: camel case, strictness, conditions."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from windlass.model.validation.problems import LONGEST_NAME

Instant: TypeAlias = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]
"""A moment as Kubernetes writes it: 2026-11-16T04:10:00Z."""

LABEL = "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
LabelKey: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=317, pattern=f"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?{LABEL}$")
]
LabelValue: TypeAlias = Annotated[str, Field(max_length=63, pattern=f"^({LABEL})?$")]
QueueName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=63, pattern="^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
]
"""Short enough to be the value of a label, which is how a pod names its queue."""
ObjectName: TypeAlias = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_NAME, pattern="^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"),
]


class CrdModel(BaseModel):
    """Strict about what is known; what a newer version may add is passed over."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    def as_json(self) -> dict[str, Any]:
        """The object as it is written into the API server; what was not said is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


class StatusCondition(CrdModel):
    """One thing that is so or not, since when and why."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What it is about, such as Ready."""
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern="^[A-Za-z][A-Za-z0-9_]*$")]
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in a sentence for people."""
    last_transition_time: Instant
    """Since when the status is what it is."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that this is about."""


def keyed_by(field: str) -> dict[str, JsonValue]:
    """The extension that makes a list a map: each value of the field occurs once."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [field]}


AS_SET: dict[str, JsonValue] = {"x-kubernetes-list-type": "set"}
"""The extension that makes a list a set."""


class ObjectStatus(CrdModel):
    """What Windlass says of an object."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that this status is about."""
    conditions: list[StatusCondition] = Field(default=[], json_schema_extra=keyed_by("type"))
    """Ready: the object makes sense and is used; else the message says what to do."""
