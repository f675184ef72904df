"""Tolerant readers of decoded specs: a value of an unexpected type counts as missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard, cast

Spec: TypeAlias = Mapping[str, Any]
MOST = 1 << 31
"""The largest count of pods; larger numbers are cut."""


def inner(spec: Spec, key: str) -> Spec:
    """Return the mapping under a key; empty if there is none."""
    value = spec.get(key)
    return cast(Spec, value) if isinstance(value, dict) else {}


def items(spec: Spec, key: str) -> list[Spec]:
    """Return the mappings in the list under a key; other items are left out."""
    value = spec.get(key)
    listed = cast(list[object], value) if isinstance(value, list) else []
    return [cast(Spec, item) for item in listed if isinstance(item, dict)]


def count(spec: Spec, key: str, otherwise: int) -> int:
    """Return the whole number under a key, cut to 0..MOST; `otherwise` if there is none."""
    value = spec.get(key)
    return as_count(value) if is_number(value) else otherwise


def text(spec: Spec, key: str) -> str:
    """Return the text under a key; "" if there is none."""
    value = spec.get(key)
    return value if isinstance(value, str) else ""


def is_number(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_count(number: Any) -> int:
    """Return a number as a count of pods, cut to 0..MOST."""
    return min(MOST, max(0, number))


def roles(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """Yield the roles of a training job: those in `pytorchReplicaSpecs`, `mpiReplicaSpecs` etc."""
    for key in spec:
        if key.endswith("ReplicaSpecs"):
            for name in inner(spec, key):
                yield name, inner(inner(spec, key), name)
