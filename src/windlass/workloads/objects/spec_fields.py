"""Reading specs that others wrote: whatever is not as expected is as if it were not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard, cast

Spec: TypeAlias = Mapping[str, Any]
MOST = 1 << 31


def inner(spec: Spec, key: str) -> Spec:
    """The mapping under a key."""
    found = spec.get(key)
    return cast(Spec, found) if isinstance(found, dict) else {}


def items(spec: Spec, key: str) -> list[Spec]:
    """The mappings in the list under a key."""
    found = spec.get(key)
    listed = cast(list[object], found) if isinstance(found, list) else []
    return [cast(Spec, each) for each in listed if isinstance(each, dict)]


def count(spec: Spec, key: str, otherwise: int) -> int:
    """The whole number under a key, at least zero."""
    found = spec.get(key)
    return as_count(found) if is_number(found) else otherwise


def text(spec: Spec, key: str) -> str:
    """The text under a key."""
    found = spec.get(key)
    return found if isinstance(found, str) else ""


def is_number(found: object) -> TypeGuard[int]:
    """Is it a whole number? True and False are not."""
    return isinstance(found, int) and not isinstance(found, bool)


def as_count(found: Any) -> int:
    """A number as a count of pods."""
    return min(MOST, max(0, found))


def roles(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """The roles of a training job: `pytorchReplicaSpecs`, `mpiReplicaSpecs` and the like."""
    for key in spec:
        if key.endswith("ReplicaSpecs"):
            for name in inner(spec, key):
                yield name, inner(inner(spec, key), name)
