"""Rows that users write for kinds of their own: data, made into rows of the table of kinds.

A size is a sum over paths into the owner's spec. `*` stands for every item of a list or mapping:
`spec.groups.*.replicas`. Where only the last field is missing it counts 1, as controllers take
it; where something on the way is missing there is nothing to count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from windlass.workloads.kinds.eviction_survival import Survives
from windlass.workloads.kinds.gang_sizes import ALONE, Answer, Link, OwnedGang
from windlass.workloads.kinds.table import JobKind, Key
from windlass.workloads.objects.spec_fields import Spec, as_count, is_number
from windlass.workloads.objects.wire import Owner


@dataclass(frozen=True, slots=True)
class Declared:
    """What a user says about a kind of owner."""

    kind: str
    group: str
    version: str
    plural: str
    size: tuple[str | int, ...] = ()
    """Paths and numbers that add up to the pods that start together; none: each by itself."""
    minimum: str = ""
    """A path that counts instead of the size, where it leads to a number."""
    part: str = ""
    """A label of pods: those with different values are different gangs of the owner."""
    alone: Mapping[str, str] = field(default_factory=dict[str, str])
    """Pods with these labels stand for themselves."""
    priority: str = ""
    """A path to the name of a PriorityClass."""
    survives: Survives = Survives.RECREATED
    suspend: str = ""
    """A path to the field that stops it whole."""


def row_of(declared: Declared) -> tuple[Key, JobKind]:
    """The row that a declaration describes."""
    path = f"/apis/{declared.group}/{declared.version}/{declared.plural}"
    row = JobKind(
        path,
        partial(_gang, declared),
        partial(_survives, declared.survives),
        partial(_priority, declared.priority),
        suspend=declared.suspend,
    )
    return Key(declared.kind, declared.group), row


def _gang(declared: Declared, link: Link) -> Answer:
    labels, spec = link.pod.metadata.labels or {}, link.owner.spec
    is_apart = all(labels.get(key) == value for key, value in declared.alone.items())
    if not declared.size or (declared.alone and is_apart):
        return ALONE
    said = [each for each in _found(spec, declared.minimum) if is_number(each)]
    size = as_count(said[0]) if said else sum(_counted(spec, each) for each in declared.size)
    return OwnedGang(max(1, size), labels.get(declared.part, "") if declared.part else "")


def _counted(spec: Spec, term: str | int) -> int:
    if isinstance(term, int):
        return term
    return sum(as_count(each) if is_number(each) else 1 for each in _found(spec, term))


def _found(spec: Spec, path: str) -> Iterator[Any]:
    """What a path leads to; None where only its last field is missing."""
    steps = path.split(".")[1:]
    places: list[object] = [spec]
    for step in steps[:-1]:
        places = [inside for place in places for inside in _inside(place, step)]
    for place in places:
        if steps and steps[-1] == "*":
            yield from _inside(place, "*")
        elif steps and isinstance(place, dict):
            yield cast(Spec, place).get(steps[-1])


def _inside(place: object, step: str) -> list[object]:
    if step == "*" and isinstance(place, list):
        return cast(list[object], place)
    if not isinstance(place, dict):
        return []
    held = cast(dict[str, object], place)
    return list(held.values()) if step == "*" else [held[step]] if step in held else []


def _survives(said: Survives, _spec: Spec) -> Survives | None:
    return said


def _priority(path: str, owner: Owner) -> str:
    return next((each for each in _found(owner.spec, path) if isinstance(each, str)), "")
