"""The rows of job kinds that users declare in the configuration.

The size of a gang is a sum over paths into the owner's spec. `*` stands for every item of a list or
mapping: `spec.groups.*.replicas`. If only the last field of a path is missing it counts 1, which is
the default of most controllers; if a field before it is missing, the path counts 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from windlass.workloads.kinds.eviction_survival import Survives
from windlass.workloads.kinds.gang_sizes import ALONE, Answer, Link, OwnedGang
from windlass.workloads.kinds.table import JobKind, Key
from windlass.workloads.objects import Owner, Spec, as_count, is_number


@dataclass(frozen=True, slots=True)
class DeclaredKind:
    """The declaration of one kind of owner by a user."""

    kind: str
    group: str
    version: str
    plural: str
    size: tuple[str | int, ...] = ()
    """Paths and numbers whose sum is the number of pods that start together; empty: each pod
    alone."""
    minimum: str = ""
    """A path to a number that replaces the size, if it is set."""
    part: str = ""
    """A label of pods; pods of the owner with different values are different gangs."""
    alone: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of pods that are each a gang of their own."""
    priority: str = ""
    """A path to the name of a PriorityClass."""
    survives: Survives = Survives.RECREATED
    """The fate of an evicted pod."""
    suspend: str = ""
    """A path to the field that suspends the owner; empty if it has none."""


def row_of(declared: DeclaredKind) -> tuple[Key, JobKind]:
    """Return the key and the row of the table of kinds for a declaration."""
    path = f"/apis/{declared.group}/{declared.version}/{declared.plural}"
    row = JobKind(
        path,
        partial(_gang, declared),
        partial(_survives, declared.survives),
        partial(_priority, declared.priority),
        suspend=declared.suspend,
    )
    return Key(declared.kind, declared.group), row


def _gang(declared: DeclaredKind, link: Link) -> Answer:
    labels, spec = link.pod.metadata.labels or {}, link.owner.spec
    is_apart = all(labels.get(key) == value for key, value in declared.alone.items())
    if not declared.size or (declared.alone and is_apart):
        return ALONE
    minimums = [value for value in _values_at(spec, declared.minimum) if is_number(value)]
    sizes = (_count(spec, term) for term in declared.size)
    size = as_count(minimums[0]) if minimums else sum(sizes)
    return OwnedGang(max(1, size), labels.get(declared.part, "") if declared.part else "")


def _count(spec: Spec, term: str | int) -> int:
    if isinstance(term, int):
        return term
    return sum(as_count(value) if is_number(value) else 1 for value in _values_at(spec, term))


def _values_at(spec: Spec, path: str) -> Iterator[Any]:
    """Yield the values at a path; None where only its last field is missing."""
    steps = path.split(".")[1:]
    places: list[object] = [spec]
    for step in steps[:-1]:
        places = [part for place in places for part in _parts(place, step)]
    for place in places:
        if steps and steps[-1] == "*":
            yield from _parts(place, "*")
        elif steps and isinstance(place, dict):
            yield cast(Spec, place).get(steps[-1])


def _parts(place: object, step: str) -> list[object]:
    if step == "*" and isinstance(place, list):
        return cast(list[object], place)
    if not isinstance(place, dict):
        return []
    mapping = cast(dict[str, object], place)
    if step == "*":
        return list(mapping.values())
    return [mapping[step]] if step in mapping else []


def _survives(declared: Survives, _spec: Spec) -> Survives | None:
    return declared


def _priority(path: str, owner: Owner) -> str:
    return next((name for name in _values_at(owner.spec, path) if isinstance(name, str)), "")
