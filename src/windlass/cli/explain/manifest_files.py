"""A file with jobs that are not submitted yet: its documents, and the problems in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from windlass.cli.files import display_name, read_bytes
from windlass.model.errors import InputError

if TYPE_CHECKING:
    from windlass.sim.scenario import Spot
    from windlass.workloads.kinds import Kinds
    from windlass.workloads.manifests import ClusterDefaults, ExpandedManifests

_SEPARATOR = re.compile(rb"^---.*$", re.MULTILINE)
ADVICE = "write a manifest of a kind that makes pods, or a job of a scenario"


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The documents of a file with jobs."""

    file: str
    """The name of the file as error messages give it."""
    documents: Sequence[Spot]

    @property
    def is_kubernetes(self) -> bool:
        """True if the documents are Kubernetes manifests, not jobs as in scenario files."""
        return any({"apiVersion", "kind"} & {*mapping} for mapping in self.mappings)

    @property
    def mappings(self) -> list[dict[str, Any]]:
        """The documents as plain values; an empty mapping for a document that is not one."""
        values = (document.value for document in self.documents)
        return [cast(dict[str, Any], value) if isinstance(value, dict) else {} for value in values]


def read_manifest_file(file: str) -> ManifestFile:
    """Read the documents of a file, or of stdin for "-"."""
    from windlass.sim.scenario import MOST_BYTES, read_yaml

    data, name = read_bytes(file, MOST_BYTES), display_name(file)
    documents: list[Spot] = []
    begin = 0
    for end in (*(separator.start() for separator in _SEPARATOR.finditer(data)), len(data)):
        part = _SEPARATOR.sub(b"", data[begin:end])
        if any(not line.lstrip().startswith(b"#") for line in part.splitlines() if line.strip()):
            # Empty lines in front, so that line numbers are those of the whole file.
            above = b"\n" * data.count(b"\n", 0, begin)
            documents.append(read_yaml(above + part, name))
        begin = end
    if not documents:
        raise InputError(name, None, f"it is empty; {ADVICE}")
    return ManifestFile(name, documents)


def expand_manifests(manifests: ManifestFile, defaults: ClusterDefaults) -> ExpandedManifests:
    """Return the owners and pods that controllers would create from the manifests.

    Raise an InputError for the first thing that the API server would refuse.
    """
    from windlass.workloads.manifests import CannotMake, expand_manifests

    problems = sorted(_problems(manifests, defaults))
    if problems:
        line, problem = problems[0]
        raise InputError(manifests.file, line, problem, more=len(problems) - 1)
    try:
        objects = expand_manifests(manifests.mappings, defaults)
    except CannotMake as error:
        raise InputError(manifests.file, None, str(error)) from None
    if not objects.pods:
        problem = kinds_without_pods(manifests, defaults.kinds) or "its objects make no pods now"
        raise InputError(manifests.file, manifests.documents[0].line, f"{problem}; {ADVICE}")
    return objects


def kinds_without_pods(manifests: ManifestFile, kinds: Kinds) -> str:
    """Return a clause that names the kinds that cannot be explained; empty if there are none."""
    from windlass.model.validation import join_names
    from windlass.workloads.manifests import is_read, key_of

    keys = [key_of(mapping) for mapping in manifests.mappings if not is_read(mapping, kinds)]
    names = list(dict.fromkeys(str(key).rstrip(".") for key in keys))
    verb = "makes" if len(names) == 1 else "make"
    return f"{join_names(names)} {verb} no pods that can be explained" if names else ""


def _problems(manifests: ManifestFile, defaults: ClusterDefaults) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of everything that the API server would refuse."""
    from windlass.crds.read import read_gang
    from windlass.workloads.manifests import (
        COUNTS,
        GANG,
        ROWS,
        is_read,
        key_of,
        name_of,
        problems,
        repeated_names,
    )

    for spot, mapping in zip(manifests.documents, manifests.mappings, strict=True):
        key, name = key_of(mapping), name_of(mapping, defaults)
        if not key.kind or not mapping.get("apiVersion"):
            yield spot.line, "this document does not say what it is; give it apiVersion and kind"
        if is_read(mapping, defaults.kinds):
            counts = COUNTS if key in ROWS else frozenset[str]()
            for problem in problems(mapping, counts):
                yield spot.line_of(problem.path), str(problem)
        if key == GANG:
            for complaint in read_gang(name, mapping.get("spec") or {}).complaints:
                yield spot.line_of(("spec",)), complaint
    names = [(str(key_of(mapping)), name_of(mapping, defaults)) for mapping in manifests.mappings]
    for index, problem in repeated_names(names):
        yield manifests.documents[index].line_of(problem.path), str(problem)
