"""The job kinds that users add to the built-in table: `kinds:` in the configuration file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, TypeAlias

from pydantic import Field, field_validator

from windlass.config.strict_section import ConfigSection, Text
from windlass.workloads.kinds import KINDS, DeclaredKind, Kinds, Survives, row_of

PATH = r"^spec(\.([A-Za-z_][A-Za-z0-9_-]*|\*))+$"
Path: TypeAlias = Annotated[str, Field(max_length=253)]
MOST = 100_000
"""The most pods that a number of `size` may name."""


class OwnKind(ConfigSection):
    """One job kind: the API that its objects are read from, and the paths that describe a gang."""

    kind: Annotated[Text, Field(pattern="^[A-Z][A-Za-z0-9]*$")]
    """The kind as `ownerReferences` of pods name it."""
    group: Annotated[Text, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
    """The API group of the kind."""
    version: Annotated[Text, Field(pattern="^v[0-9][a-z0-9]*$")]
    """The API version in which it is read."""
    plural: Annotated[Text, Field(pattern="^[a-z0-9]+$")]
    """The plural name of the resource, as in its URL."""
    size: list[int | str] = Field(default=[], max_length=16)
    """Paths into its spec, and numbers, whose sum is the number of pods that start together; empty:
    each pod is a gang by itself."""
    minimum: Path = ""
    """A path that replaces the size if it leads to a number."""
    part: Annotated[str, Field(max_length=317)] = ""
    """A label of its pods: pods with different values form different gangs."""
    alone: dict[Text, str] = Field(default={})
    """Pods with all of these labels are gangs by themselves, such as a later launcher."""
    priority: Path = ""
    """A path to the name of a PriorityClass that replaces the one of its pods."""
    survives: Annotated[Survives, Field(strict=False)] = Survives.RECREATED
    """The fate of an evicted pod: recreated, or lost (then the gang is not preemptible unless it
    opts in)."""
    suspend: Path = ""
    """A path to a boolean field that makes its controller delete the pods while it is true; empty:
    there is none. The daemon must be allowed to `get` and `patch` the kind."""

    @field_validator("size")
    @classmethod
    def _check_size(cls, parts: list[int | str]) -> list[int | str]:
        for part in parts:
            if isinstance(part, int) and not 0 <= part <= MOST:
                raise ValueError(f"{part} is no number of pods; write one from 0 to {MOST}")
            if isinstance(part, str):
                _check_path(part)
        return parts

    @field_validator("minimum", "priority", "suspend")
    @classmethod
    def _check_optional_path(cls, path: str) -> str:
        if path:
            _check_path(path)
        return path

    @field_validator("suspend")
    @classmethod
    def _check_one_field(cls, path: str) -> str:
        if "*" in path:
            raise ValueError(f'"{path[:40]}" leads to several fields; name one like spec.suspend')
        return path

    def declared(self) -> DeclaredKind:
        """Return the declaration from which a row of the table of job kinds is made."""
        return DeclaredKind(
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


def _check_path(path: str) -> None:
    if not re.fullmatch(PATH, path):
        raise ValueError(f'"{path[:40]}" is no path; write one like spec.groups.*.replicas')


def kinds_of(own: Iterable[OwnKind]) -> Kinds:
    """Return the table of job kinds with the declared ones, which replace built-in ones."""
    return KINDS | dict(row_of(kind.declared()) for kind in own)
