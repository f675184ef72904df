"""Amounts as people write them, and what they are inside: integers with the unit in the name.

    GPUs      8, 0.5           thousandths
    CPUs      64, 0.5, 500m    thousandths
    memory    512Gi, 1.5Ti     MiB
    times     90s, 20m, 1h30m  seconds

Each type carries its JSON schema, so that editors know the same forms.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from windlass.model import durations
from windlass.model.queues import CPU, MEMORY
from windlass.model.validation.amounts import bounded, refused
from windlass.model.validation.problems import is_dimension, unknown_dimension

_NUMBER = r"[0-9]+(\.[0-9]+)?"
_MEMORY = re.compile(rf"({_NUMBER})(Mi|Gi|Ti)")
_MILLICORES = re.compile(r"([0-9]+)m")
NEVER = -1
"""A time that does not come."""

_MIB = {"Mi": 1, "Gi": 2**10, "Ti": 2**20}


def gpus(value: object) -> int:
    """A number of GPUs in thousandths."""
    return _thousandths(value, "a number of GPUs, like 8 or 0.5")


def cpus(value: object) -> int:
    """A number of CPUs in thousandths."""
    expected = "a number of CPUs, like 64, 0.5 or 500m"
    if isinstance(value, str):
        found = _MILLICORES.fullmatch(value)
        if not found:
            raise refused(value, expected)
        return bounded(Decimal(found[1]), value, expected)
    return _thousandths(value, expected)


def memory(value: object) -> int:
    """An amount of memory in MiB."""
    expected = "an amount of memory with its unit, like 512Gi or 300Mi"
    if value == 0 and not isinstance(value, bool):
        return 0
    found = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise refused(value, expected)
    return bounded(Decimal(found[1]) * _MIB[found[3]], value, expected)


def seconds(value: object) -> int:
    """A time in seconds."""
    expected = "a time with its unit, like 90s, 20m, 1h30m or 2d"
    if value == 0 and not isinstance(value, bool):
        return 0
    found = durations.seconds(value) if isinstance(value, str) else None
    if found is None:
        raise refused(value, expected)
    return bounded(Decimal(found), value, expected)


def seconds_or_rest(value: object) -> int | None:
    """A time, or None for the moment after which nothing happens any more."""
    return None if value == "rest" else seconds(value)


def seconds_or_never(value: object) -> int:
    """A time, or NEVER."""
    return NEVER if value == "never" else seconds(value)


def amounts(value: object) -> dict[str, int]:
    """Amounts per dimension, each in its own unit."""
    if not isinstance(value, dict):
        raise refused(value, "amounts by name, like {gpu: 8, memory: 512Gi}")
    found = cast(dict[str, object], value)
    return {dimension: _amount(dimension, part) for dimension, part in found.items()}


def printable(name: str) -> str:
    """A name as it is, if a terminal can show it."""
    if not name.isprintable():
        raise ValueError(f"{name!r} cannot be printed; use letters and digits")
    return name


def _amount(dimension: str, value: object) -> int:
    if not is_dimension(dimension):
        raise ValueError(unknown_dimension(dimension))
    if dimension == CPU:
        return cpus(value)
    return memory(value) if dimension == MEMORY else gpus(value)


def _thousandths(value: object, expected: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused(value, expected)
    return bounded(Decimal(repr(value)) * 1000, value, expected)


def _written(about: str, *forms: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"description": about, "anyOf": list(forms)})


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$"}


_ZERO: dict[str, Any] = {"const": 0}
_COUNTED: dict[str, Any] = {"type": "number", "minimum": 0}
_TIMES = r"(?=[0-9])([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?"

Gpus: TypeAlias = Annotated[
    int, BeforeValidator(gpus), _written("GPUs: 8, or 0.5 for half of one", _COUNTED)
]
Cpus: TypeAlias = Annotated[
    int, BeforeValidator(cpus), _written("CPUs: 64, 0.5 or 500m", _COUNTED, _text("[0-9]+m"))
]
MemoryMib: TypeAlias = Annotated[
    int,
    BeforeValidator(memory),
    _written("Memory: 512Gi, 300Mi, 1.5Ti", _text(rf"{_NUMBER}(Mi|Gi|Ti)"), _ZERO),
]
Seconds: TypeAlias = Annotated[
    int,
    BeforeValidator(seconds),
    _written("A time: 90s, 20m, 1h30m, 2d; 0 is the start", _text(_TIMES), _ZERO),
]
SecondsOrRest: TypeAlias = Annotated[
    int | None,
    BeforeValidator(seconds_or_rest),
    _written("A time, or rest: nothing happens any more", _text(rf"(rest|{_TIMES})"), _ZERO),
]
SecondsOrNever: TypeAlias = Annotated[
    int,
    BeforeValidator(seconds_or_never),
    _written("A time: 90s, 20m, 1h30m; or never", _text(rf"(never|{_TIMES})"), _ZERO),
]
Amounts: TypeAlias = Annotated[
    dict[str, int],
    BeforeValidator(amounts),
    WithJsonSchema(
        {
            "type": "object",
            "description": "Amounts by dimension: gpu, gpu/MODEL, cpu, memory",
            "propertyNames": {"pattern": "^(gpu|gpu/.+|cpu|memory)$"},
            "additionalProperties": {"type": ["number", "string"]},
        }
    ),
]
Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)]
