"""The pydantic types of amounts, times and names in scenario files.

    Gpus           8, 0.5           thousandths
    Cpus           64, 0.5, 500m    thousandths
    MemoryMib      512Gi, 1.5Ti     MiB
    Seconds        90s, 20m, 1h30m  seconds

`windlass.model.units` reads them. Each type carries its JSON schema, so that editors accept the
same forms.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from windlass.model.queues import CPU, MEMORY
from windlass.model.units import (
    parse_cpus,
    parse_gpus,
    parse_memory,
    parse_seconds,
    unreadable_value,
)
from windlass.model.validation import is_dimension, unknown_dimension

NEVER = -1
"""The value of a `SecondsOrNever` that says never."""


def _seconds_or_rest(value: object) -> int | None:
    """Return seconds; None for `rest`, the time after which nothing happens any more."""
    return None if value == "rest" else parse_seconds(value)


def _seconds_or_never(value: object) -> int:
    """Return seconds, or NEVER."""
    return NEVER if value == "never" else parse_seconds(value)


def _parse_amounts(value: object) -> dict[str, int]:
    """Return amounts by dimension, each in the unit of its dimension."""
    if not isinstance(value, dict):
        raise unreadable_value(value, "amounts by name, like {gpu: 8, memory: 512Gi}")
    return {
        dimension: _parse_amount(dimension, amount)
        for dimension, amount in cast(dict[str, object], value).items()
    }


def _parse_amount(dimension: str, value: object) -> int:
    if not is_dimension(dimension):
        raise ValueError(unknown_dimension(dimension))
    if dimension == CPU:
        return parse_cpus(value)
    return parse_memory(value) if dimension == MEMORY else parse_gpus(value)


def _check_printable(name: str) -> str:
    """Return the name; raise ValueError if a terminal cannot show it."""
    if not name.isprintable():
        raise ValueError(f"{name!r} cannot be printed; use letters and digits")
    return name


def _any_of(description: str, *forms: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"description": description, "anyOf": list(forms)})


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$"}


_ZERO: dict[str, Any] = {"const": 0}
_NUMBER: dict[str, Any] = {"type": "number", "minimum": 0}
_DURATION = r"(?=[0-9])([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?"

Gpus: TypeAlias = Annotated[
    int, BeforeValidator(parse_gpus), _any_of("GPUs: 8, or 0.5 for half of one", _NUMBER)
]
Cpus: TypeAlias = Annotated[
    int, BeforeValidator(parse_cpus), _any_of("CPUs: 64, 0.5 or 500m", _NUMBER, _text("[0-9]+m"))
]
MemoryMib: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_memory),
    _any_of("Memory: 512Gi, 300Mi, 1.5Ti", _text(r"[0-9]+(\.[0-9]+)?(Mi|Gi|Ti)"), _ZERO),
]
Seconds: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_seconds),
    _any_of("A time: 90s, 20m, 1h30m, 2d; 0 is the start", _text(_DURATION), _ZERO),
]
SecondsOrRest: TypeAlias = Annotated[
    int | None,
    BeforeValidator(_seconds_or_rest),
    _any_of("A time, or rest: nothing happens any more", _text(rf"(rest|{_DURATION})"), _ZERO),
]
SecondsOrNever: TypeAlias = Annotated[
    int,
    BeforeValidator(_seconds_or_never),
    _any_of("A time: 90s, 20m, 1h30m; or never", _text(rf"(never|{_DURATION})"), _ZERO),
]
Amounts: TypeAlias = Annotated[
    dict[str, int],
    BeforeValidator(_parse_amounts),
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
Name: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200), AfterValidator(_check_printable)
]
