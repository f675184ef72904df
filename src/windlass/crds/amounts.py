"""The pydantic types of amounts in custom resources.

    Thousandths    8 or "0.5"            thousandths
    Cpus           64, "0.5" or "500m"   thousandths
    MemoryMib      "512Gi", "1.5Ti"      MiB

The units are those of scenario files, the grammar is narrower: the API server accepts a whole
number or text, but no bare 0.5, so a decimal stands in quotes. The patterns below are part of the
published schemas; `windlass.model.units` does the arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, PlainSerializer, WithJsonSchema

from windlass.crds.base import CrdModel
from windlass.model.gpus import WHOLE
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX, of_model
from windlass.model.units import (
    exact_amount,
    format_memory,
    format_thousandths,
    parse_memory,
    unreadable_value,
)

PLAIN = (GPU, CPU, MEMORY)
"""The dimensions that are fields of their own; GPU models are the keys of one more field."""

MOST_MODELS = 32
LONGEST = 16
"""The most characters of an amount; the API server estimates the cost of CEL rules by it."""

MOST_WRITTEN = 10 ** (LONGEST - 1) - 1
"""The largest amount written to a status: larger ones, which no cluster has, are cut to it."""

_THOUSANDTHS = r"[0-9]+(\.[0-9]{1,3})?"
_GPUS = rf"^{_THOUSANDTHS}$"
_CPUS = rf"^({_THOUSANDTHS}|[0-9]+m)$"
_MEMORY = r"^([0-9]+Mi|[0-9]+(\.[0-9]{1,3})?(Gi|Ti)|0)$"
_MODEL = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"


def _parse_thousandths(value: object) -> int:
    """Return the thousandths of a whole number or decimal text."""
    return _parse_number(value, _GPUS, 'a number, like 8 or "0.5"')


def _parse_cpus(value: object) -> int:
    """Return the thousandths of a number of CPUs."""
    expected = 'a number of CPUs, like 64, "0.5" or "500m"'
    if isinstance(value, str) and re.fullmatch(_CPUS, value) and value.endswith("m"):
        return exact_amount(Decimal(value[:-1]), value, expected)
    return _parse_number(value, _CPUS, expected)


def _parse_memory(value: object) -> int:
    """Return the MiB of an amount of memory; zero needs no unit."""
    if not isinstance(value, str) or not re.fullmatch(_MEMORY, value):
        raise unreadable_value(value, "an amount of memory with its unit, like 512Gi or 300Mi")
    return 0 if value == "0" else parse_memory(value)


def write_thousandths(milli: int) -> str:
    """Return thousandths as a status shows them, in at most LONGEST characters."""
    return format_thousandths(min(milli, MOST_WRITTEN))


def write_memory(mib: int) -> str:
    """Return MiB as a status shows them, in at most LONGEST characters."""
    return format_memory(min(mib, MOST_WRITTEN // WHOLE))


def _parse_number(value: object, pattern: str, expected: str) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and re.fullmatch(pattern, value)):
        raise unreadable_value(value, expected)
    return exact_amount(Decimal(str(value)) * WHOLE, value, expected)


def _number_or_text(pattern: str) -> WithJsonSchema:
    schema: dict[str, Any] = {"x-kubernetes-int-or-string": True}
    return WithJsonSchema(schema | {"pattern": pattern, "maxLength": LONGEST, "minimum": 0})


Thousandths: TypeAlias = Annotated[
    int,
    BeforeValidator(_parse_thousandths),
    PlainSerializer(write_thousandths),
    _number_or_text(_GPUS),
]
Cpus: TypeAlias = Annotated[
    int, BeforeValidator(_parse_cpus), PlainSerializer(write_thousandths), _number_or_text(_CPUS)
]
MemoryMib: TypeAlias = Annotated[
    int,
    BeforeValidator(_parse_memory),
    PlainSerializer(write_memory),
    WithJsonSchema({"type": "string", "pattern": _MEMORY, "maxLength": LONGEST}),
]

_NAMED: JsonValue = {
    "rule": f"self.all(model, model.matches('{_MODEL}'))",
    "message": "a GPU model is named by letters, digits, dots and dashes, such as H100-80GB",
}


class DimensionAmounts(CrdModel):
    """Amounts by dimension; a dimension that is not named is not counted."""

    gpu: Thousandths | None = None
    """GPUs of all models together: 8 or "0.5"."""
    gpu_models: dict[str, Thousandths] = Field(
        default={},
        max_length=MOST_MODELS,
        json_schema_extra={"x-kubernetes-validations": [_NAMED]},
    )
    """GPUs of one model each, such as H100-80GB: 8."""
    cpu: Cpus | None = None
    """CPUs: 64, "0.5" or "500m"."""
    memory: MemoryMib | None = None
    """Memory with its unit: 512Gi, 300Mi or 1.5Ti."""


def dimensions(amounts: DimensionAmounts) -> dict[str, int]:
    """Return the amounts by dimension, as the model counts them."""
    plain = {GPU: amounts.gpu, CPU: amounts.cpu, MEMORY: amounts.memory}
    named = {dimension: value for dimension, value in plain.items() if value is not None}
    return named | {of_model(model): milli for model, milli in sorted(amounts.gpu_models.items())}


def amounts_of(dimensions: Mapping[str, int]) -> DimensionAmounts:
    """Return amounts by dimension as the field of a status."""
    models = {
        dimension.removeprefix(MODEL_PREFIX): value
        for dimension, value in sorted(dimensions.items())
        if dimension.startswith(MODEL_PREFIX) and dimension != MODEL_PREFIX
    }
    fields: dict[str, Any] = {name: dimensions[name] for name in PLAIN if name in dimensions}
    if models:
        fields["gpu_models"] = models
    return DimensionAmounts.model_construct(**fields)
