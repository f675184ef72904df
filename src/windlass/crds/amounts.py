"""Amounts in custom resources: the same words and units as in scenario files.

    gpu, gpuModels   8 or "0.5"            thousandths inside
    cpu              64, "0.5" or "500m"   thousandths inside
    memory           "512Gi", "1.5Ti"      MiB inside

The API server takes a whole number or text there, but no bare 0.5: a decimal stands in quotes.
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
from windlass.model.validation.amounts import bounded, refused

PLAIN = (GPU, CPU, MEMORY)
MOST_MODELS = 32
LONGEST = 16
"""Characters of an amount; the API server counts what a rule may cost by it."""

MOST_WRITTEN = 10 ** (LONGEST - 1) - 1
"""Larger amounts, which somebody may ask for and nobody has, are written as this one."""

_THOUSANDTHS = r"[0-9]+(\.[0-9]{1,3})?"
_GPUS = rf"^{_THOUSANDTHS}$"
_CPUS = rf"^({_THOUSANDTHS}|[0-9]+m)$"
_MEMORY = r"^([0-9]+Mi|[0-9]+(\.[0-9]{1,3})?(Gi|Ti)|0)$"
_MIB = {"Mi": 1, "Gi": 2**10, "Ti": 2**20}
_MODEL = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"


def thousandths(value: object) -> int:
    """Whole or decimal numbers, such as 8 or "0.5", in thousandths."""
    return _decimal(value, _GPUS, 'a number, like 8 or "0.5"')


def cpus(value: object) -> int:
    """A number of CPUs in thousandths."""
    expected = 'a number of CPUs, like 64, "0.5" or "500m"'
    if isinstance(value, str) and re.match(_CPUS, value) and value.endswith("m"):
        return bounded(Decimal(value[:-1]), value, expected)
    return _decimal(value, _CPUS, expected)


def memory(value: object) -> int:
    """An amount of memory in MiB."""
    expected = "an amount of memory with its unit, like 512Gi or 300Mi"
    if not isinstance(value, str) or not re.match(_MEMORY, value):
        raise refused(value, expected)
    return bounded(Decimal(value.rstrip("MGTi")) * _MIB.get(value[-2:], 1), value, expected)


def written(milli: int) -> str:
    """Thousandths as they are written: 8, 0.5."""
    milli = min(milli, MOST_WRITTEN)
    return f"{milli // WHOLE}.{milli % WHOLE:03}".rstrip("0").rstrip(".")


def written_memory(mib: int) -> str:
    """MiB as they are written: 512Gi where it is whole, else 300Mi."""
    mib = min(mib, MOST_WRITTEN // WHOLE)
    return f"{mib // 1024}Gi" if mib and mib % 1024 == 0 else f"{mib}Mi"


def _decimal(value: object, pattern: str, expected: str) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and re.match(pattern, value)):
        raise refused(value, expected)
    return bounded(Decimal(str(value)) * WHOLE, value, expected)


def _number_or_text(pattern: str) -> WithJsonSchema:
    schema: dict[str, Any] = {"x-kubernetes-int-or-string": True}
    return WithJsonSchema(schema | {"pattern": pattern, "maxLength": LONGEST, "minimum": 0})


Thousandths: TypeAlias = Annotated[
    int, BeforeValidator(thousandths), PlainSerializer(written), _number_or_text(_GPUS)
]
Cpus: TypeAlias = Annotated[
    int, BeforeValidator(cpus), PlainSerializer(written), _number_or_text(_CPUS)
]
MemoryMib: TypeAlias = Annotated[
    int,
    BeforeValidator(memory),
    PlainSerializer(written_memory),
    WithJsonSchema({"type": "string", "pattern": _MEMORY, "maxLength": LONGEST}),
]

_NAMED: JsonValue = {
    "rule": f"self.all(model, model.matches('{_MODEL}'))",
    "message": "a GPU model is named by letters, digits, dots and dashes, such as H100-80GB",
}


class DimensionAmounts(CrdModel):
    """Amounts by dimension; what is not named is not counted."""

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
    """Amounts as the model counts them."""
    plain = {GPU: amounts.gpu, CPU: amounts.cpu, MEMORY: amounts.memory}
    named = {dimension: value for dimension, value in plain.items() if value is not None}
    return named | {of_model(model): milli for model, milli in sorted(amounts.gpu_models.items())}


def amounts_of(dimensions: Mapping[str, int]) -> DimensionAmounts:
    """Amounts as they are written into a status."""
    models = {
        dimension.removeprefix(MODEL_PREFIX): value
        for dimension, value in sorted(dimensions.items())
        if dimension.startswith(MODEL_PREFIX) and dimension != MODEL_PREFIX
    }
    said: dict[str, Any] = {each: dimensions[each] for each in PLAIN if each in dimensions}
    if models:
        said["gpu_models"] = models
    return DimensionAmounts.model_construct(**said)
