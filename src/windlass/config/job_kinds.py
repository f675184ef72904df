"""Job kinds that users add to the table: `kinds:` in the configuration file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, TypeAlias

from pydantic import Field, field_validator

from windlass.config.strict_section import ConfigSection, Text
from windlass.workloads.kinds.declared import Declared, row_of
from windlass.workloads.kinds.eviction_survival import Survives
from windlass.workloads.kinds.table import KINDS, Kinds

PATH = r"^spec(\.([A-Za-z_][A-Za-z0-9_-]*|\*))+$"
Path: TypeAlias = Annotated[str, Field(max_length=253)]
MOST = 100_000


class OwnKind(ConfigSection):
    """One row: where owners of a kind are read, and what they say about their pods."""

    kind: Annotated[Text, Field(pattern="^[A-Z][A-Za-z0-9]*$")]
    """As `ownerReferences` of pods name it."""
    group: Annotated[Text, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
    """Of its API."""
    version: Annotated[Text, Field(pattern="^v[0-9][a-z0-9]*$")]
    """In which it is read."""
    plural: Annotated[Text, Field(pattern="^[a-z0-9]+$")]
    """As in its path."""
    size: list[int | str] = Field(default=[], max_length=16)
    """Paths into its spec, and numbers, that add up to the pods that start together; none: each pod
    by itself."""
    minimum: Path = ""
    """A path that counts instead of the size, where it leads to a number."""
    part: Annotated[str, Field(max_length=317)] = ""
    """A label of its pods: those with different values are different gangs."""
    alone: dict[Text, str] = Field(default={})
    """Pods with all of these labels stand for themselves, such as a launcher that comes later."""
    priority: Path = ""
    """A path to the name of a PriorityClass that counts instead of its pods' own."""
    survives: Annotated[Survives, Field(strict=False)] = Survives.RECREATED
    """What becomes of an evicted pod: recreated, or lost (then it is not preemptible unless it opts
    in)."""
    suspend: Path = ""
    """A path to the field that, set to true, has its controller delete its pods, until it is false
    again; empty: there is none. The daemon must be allowed to `get` and `patch` the kind."""

    @field_validator("size")
    @classmethod
    def _adds_up(cls, found: list[int | str]) -> list[int | str]:
        for each in found:
            if isinstance(each, int) and not 0 <= each <= MOST:
                raise ValueError(f"{each} is no number of pods; write one from 0 to {MOST}")
            if isinstance(each, str):
                _check_path(each)
        return found

    @field_validator("minimum", "priority", "suspend")
    @classmethod
    def _leads_somewhere(cls, found: str) -> str:
        _check_path(found or "spec.x")
        return found

    @field_validator("suspend")
    @classmethod
    def _is_one_field(cls, found: str) -> str:
        if "*" in found:
            raise ValueError(f'"{found[:40]}" leads to several fields; name one like spec.suspend')
        return found

    def declared(self) -> Declared:
        """The same, for the table."""
        return Declared(
            kind=self.kind,
            group=self.group,
            version=self.version,
            plural=self.plural,
            size=tuple(self.size),
            minimum=self.minimum,
            part=self.part,
            alone=self.alone,
            priority=self.priority,
            survives=self.survives,
            suspend=self.suspend,
        )


def _check_path(found: str) -> None:
    if not re.fullmatch(PATH, found):
        raise ValueError(f'"{found[:40]}" is no path; write one like spec.groups.*.replicas')


def kinds_of(own: Iterable[OwnKind]) -> Kinds:
    """The table of job kinds with rows of one's own; these replace those that are built in."""
    return KINDS | dict(row_of(each.declared()) for each in own)
