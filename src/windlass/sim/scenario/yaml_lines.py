"""YAML as plain values that remember their lines.

The file is read event by event, and lines come from the marks of the parser's events. Composed
nodes would not do: they hide explicit tags, and composing recurses as deep as the file nests. Depth
and the number of values are bounded, with aliases counted in full, so that neither deep nesting nor
anchors that multiply each other can exhaust memory. Plain scalars follow YAML 1.2: `no` is text and
`1:30` is not a number. NaN and infinity are refused here, so that they never reach an integer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from windlass.model.errors import InputError

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

MOST_BYTES = 4 * 2**20
DEEPEST = 32
MOST_VALUES = 500_000
LONGEST_NUMBER = 40

_INTEGER = re.compile(r"[-+]?[0-9]+")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONSTANTS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(slots=True)
class Spot:
    """One value of the file and its line (from 1)."""

    line: int
    value: Value = None
    size: int = 1
    """The number of values in it, itself included."""
    keys: dict[str, int] = field(default_factory=dict[str, int])
    """The lines of a mapping's keys."""
    parts: dict[str | int, Spot] = field(default_factory=dict[str | int, "Spot"])

    def line_of(self, path: tuple[str | int, ...]) -> int:
        """Return the line of the value at a path, or of its nearest existing parent.

        Steps that the file does not have are skipped: they name a variant of a union, not a place.
        """
        spot, line = self, self.line
        for step in path:
            if step in spot.parts:
                line = spot.keys.get(str(step), spot.parts[step].line)
                spot = spot.parts[step]
        return line


def read_yaml(data: bytes, file: str) -> Spot:
    """Return the one document in the bytes; raise InputError with its line if it is invalid."""
    if len(data) > MOST_BYTES:
        found = f"it is larger than the {MOST_BYTES // 2**20} MiB a scenario may have"
        raise InputError(file, None, f"{found}; use counts, or generate it")
    return _Reader(file).read(_decoded(data, file))


class _Reader:
    """Builds the tree of spots from the events of the parser."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.total = 0
        self.anchors: dict[str, Spot] = {}
        self.open: list[_OpenYamlNode] = []
        self.root: Spot | None = None

    def read(self, text: str) -> Spot:
        for event in _events(text, self.file):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, DocumentStartEvent):
                if self.root is not None:
                    raise self.error(line, "a second document starts here; keep one per file")
            elif isinstance(event, NodeEvent):
                self.take(event, line)
            elif isinstance(event, CollectionEndEvent):
                self.close()
        if self.root is None:
            raise InputError(self.file, None, "it is empty; describe nodes, queues and jobs in it")
        return self.root

    def take(self, event: NodeEvent, line: int) -> None:
        spot = self.spot_of(event, line)
        self.total += spot.size
        if self.total > MOST_VALUES:
            found = (
                f"from here on it holds more than {MOST_VALUES:,} values, aliases counted in full"
            )
            raise self.error(line, f"{found}; make it smaller, for example with counts")
        self.attach(spot, event)
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            if len(self.open) >= DEEPEST:
                raise self.error(line, f"it nests deeper than {DEEPEST} levels; flatten it")
            self.open.append(_OpenYamlNode(spot, event.anchor))

    def spot_of(self, event: NodeEvent, line: int) -> Spot:
        if getattr(event, "tag", None) not in (None, "!"):
            raise self.error(line, "a tag (!...) stands here, which is not understood; remove it")
        if isinstance(event, AliasEvent):
            if event.anchor not in self.anchors:
                found = f"the alias *{event.anchor} stands for nothing that is complete above it"
                raise self.error(line, f"{found}; give the anchor &{event.anchor} first")
            return self.anchors[event.anchor]
        if isinstance(event, ScalarEvent):
            spot = Spot(line, self.scalar(event, line))
            if event.anchor:
                self.anchors[event.anchor] = spot
            return spot
        return Spot(line, {} if isinstance(event, MappingStartEvent) else [])

    def scalar(self, event: ScalarEvent, line: int) -> Value:
        text, is_plain = event.value, event.implicit[0]
        if not is_plain:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _NOT_FINITE.fullmatch(text):
            raise self.error(line, f"{text} is not a finite number; write one")
        if not _DECIMAL.fullmatch(text):
            return text
        return self.number(text, line)

    def number(self, text: str, line: int) -> int | float:
        if len(text) > LONGEST_NUMBER:
            found = f"a number of {len(text)} characters is too long"
            raise self.error(line, f"{found}; write at most {LONGEST_NUMBER}, or quote it as text")
        if _INTEGER.fullmatch(text):
            return int(text)
        if math.isinf(float(text)):
            raise self.error(line, f"{text} is not a finite number; write one")
        return float(text)

    def attach(self, spot: Spot, event: NodeEvent) -> None:
        if not self.open:
            self.root = spot
            return
        parent = self.open[-1]
        if isinstance(parent.spot.value, list):
            parent.spot.parts[len(parent.spot.value)] = spot
            parent.spot.value.append(spot.value)
        elif parent.key is None:
            parent.key = self.key_of(event, spot, parent.spot)
        elif isinstance(parent.spot.value, dict):
            parent.spot.parts[parent.key] = spot
            parent.spot.value[parent.key] = spot.value
            parent.key = None

    def key_of(self, event: NodeEvent, spot: Spot, mapping: Spot) -> str:
        if not isinstance(event, ScalarEvent):
            raise self.error(spot.line, "a list or mapping is used as a name; names are plain text")
        key = event.value
        if key in mapping.keys:
            found = f'"{_shown(key)}" is given twice, first in line {mapping.keys[key]}'
            raise self.error(spot.line, f"{found}; keep one")
        mapping.keys[key] = spot.line
        return key

    def close(self) -> None:
        done = self.open.pop()
        done.spot.size += sum(part.size for part in done.spot.parts.values())
        if done.anchor:
            self.anchors[done.anchor] = done.spot

    def error(self, line: int, sentence: str) -> InputError:
        return InputError(self.file, line, sentence)


@dataclass(slots=True)
class _OpenYamlNode:
    """A collection that has begun and not ended; `key` waits for its value."""

    spot: Spot
    anchor: str | None
    key: str | None = None


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte {data[error.start]:#04x} is not UTF-8"
        raise InputError(file, line, f"{found}; save the file as UTF-8 text") from None


def _events(text: str, file: str) -> Iterator[Event]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from cast(Any, yaml).parse(text, Loader=loader)
    except yaml.YAMLError as error:
        raise InputError(file, _line_of_error(error, text), _sentence_of_error(error)) from None


def _line_of_error(error: yaml.YAMLError, text: str) -> int | None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else None


def _sentence_of_error(error: yaml.YAMLError) -> str:
    problem = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    )
    context = getattr(error, "context", None)
    told = f"{problem} {context}" if context else str(problem)
    return f"this is not YAML: {' '.join(told.split())}; correct the line"


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
