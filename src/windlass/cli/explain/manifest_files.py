"""A file with jobs that nobody has submitted yet: its documents, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from windlass.cli.files import name_of, read_bytes
from windlass.model.errors import InputError

if TYPE_CHECKING:
    from windlass.sim.scenario.yaml_lines import Spot
    from windlass.workloads.kinds.table import Kinds
    from windlass.workloads.manifests.expand import ClusterDefaults, Made

_SEPARATOR = re.compile(rb"^---.*$", re.MULTILINE)
ADVICE = "write a manifest of a kind that makes pods, or a job of a scenario"


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What a file asks for."""

    file: str
    documents: Sequence[Spot]

    @property
    def is_manifest(self) -> bool:
        """Is it for Kubernetes? Else it is in the words of scenarios."""
        return any({"apiVersion", "kind"} & {*each} for each in self.mappings)

    @property
    def mappings(self) -> list[dict[str, Any]]:
        """The documents as plain values; what is no mapping says nothing."""
        values = (each.value for each in self.documents)
        return [cast(dict[str, Any], each) if isinstance(each, dict) else {} for each in values]


def read_wanted(file: str) -> ManifestFile:
    """The documents of a file, or of stdin for "-"."""
    from windlass.sim.scenario.yaml_lines import MOST_BYTES, read_yaml

    data, name = read_bytes(file, MOST_BYTES), name_of(file)
    documents: list[Spot] = []
    begin = 0
    for end in (*(each.start() for each in _SEPARATOR.finditer(data)), len(data)):
        part = _SEPARATOR.sub(b"", data[begin:end])
        if any(not line.lstrip().startswith(b"#") for line in part.splitlines() if line.strip()):
            above = b"\n" * data.count(b"\n", 0, begin)  # so that lines are those of the file
            documents.append(read_yaml(above + part, name))
        begin = end
    if not documents:
        raise InputError(name, None, f"it is empty; {ADVICE}")
    return ManifestFile(name, documents)


def made_of(wanted: ManifestFile, terms: ClusterDefaults) -> Made:
    """What manifests would become, or the first thing for which they would be refused."""
    from windlass.workloads.manifests.expand import CannotMake, made

    wrong = sorted(_wrong(wanted, terms))
    if wrong:
        line, sentence = wrong[0]
        raise InputError(wanted.file, line, sentence, more=len(wrong) - 1)
    try:
        found = made(wanted.mappings, terms)
    except CannotMake as error:
        raise InputError(wanted.file, None, str(error)) from None
    if not found.pods:
        found_instead = left_out(wanted, terms.kinds) or "what it holds makes no pods now"
        raise InputError(wanted.file, wanted.documents[0].line, f"{found_instead}; {ADVICE}")
    return found


def left_out(wanted: ManifestFile, kinds: Kinds) -> str:
    """The kinds that are passed over, in a sentence; empty if none is."""
    from windlass.model.validation.problems import listed
    from windlass.workloads.manifests.expand import is_read, key_of

    others = [key_of(each) for each in wanted.mappings if not is_read(each, kinds)]
    names = list(dict.fromkeys(str(each).rstrip(".") for each in others))
    verb = "makes" if len(names) == 1 else "make"
    return f"{listed(names)} {verb} no pods that can be told of" if names else ""


def _wrong(wanted: ManifestFile, terms: ClusterDefaults) -> Iterator[tuple[int, str]]:
    """What the API server would refuse, with its line."""
    from windlass.crds.read import read_gang
    from windlass.workloads.manifests.expand import GANG, ROWS, is_read, key_of, name_of
    from windlass.workloads.manifests.validate import COUNTS, problems, repeated

    for spot, manifest in zip(wanted.documents, wanted.mappings, strict=True):
        key, name = key_of(manifest), name_of(manifest, terms)
        if not key.kind or not manifest.get("apiVersion"):
            yield spot.line, "this document does not say what it is; give it apiVersion and kind"
        if is_read(manifest, terms.kinds):
            counts = COUNTS if key in ROWS else frozenset[str]()
            for each in problems(manifest, counts):
                yield spot.line_of(each.path), str(each)
        if key == GANG:
            for complaint in read_gang(name, manifest.get("spec") or {}).complaints:
                yield spot.line_of(("spec",)), complaint
    names = [(str(key_of(each)), name_of(each, terms)) for each in wanted.mappings]
    for at, each in repeated(names):
        yield wanted.documents[at].line_of(each.path), str(each)
