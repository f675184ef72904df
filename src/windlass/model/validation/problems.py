"""A problem found in input, and the small tests that every kind of input shares.

`check.py` and its neighbours yield problems; readers turn the path into a line of the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.errors import close_names
from windlass.model.gpus import WHOLE
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX
from windlass.model.units import LARGEST_AMOUNT

Path: TypeAlias = tuple[str | int, ...]
"""Where something stands: the keys and indexes that lead to it from the top of a snapshot."""

LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class InputProblem:
    """What is wrong, where, and what to do about it, in one sentence."""

    path: Path
    sentence: str
    passing: bool = False
    """A live cluster may pass through this state; the engine answers it with a reason."""
    wrong: str = ""
    known: Collection[str] = ()
    """A name that is not among the known ones; close ones are looked for only if it is told."""

    def __str__(self) -> str:
        close = close_names(self.wrong, self.known) if self.wrong else ()
        return f'{self.sentence}; did you mean "{close[0]}"?' if close else self.sentence


def outside(
    path: Path, what: str, value: int, least: int, most: int = LARGEST_AMOUNT
) -> Iterator[InputProblem]:
    """A number that is below `least` or above `most`."""
    if not least <= value <= most:
        yield InputProblem(path, f"{what} is {value:,}; give a number from {least:,} to {most:,}")


def unnamed(path: Path, kind: str, name: str) -> Iterator[InputProblem]:
    """A name that is empty, too long to be one, or not printable."""
    if not name:
        yield InputProblem(path, f"this {kind} has no name; give it one")
    elif len(name) > LONGEST_NAME:
        yield InputProblem(
            path,
            f"the name of this {kind} has {len(name):,} characters; "
            f"shorten it to at most {LONGEST_NAME}",
        )
    elif not name.isprintable():
        yield InputProblem(
            path, f"the name {name!r} of this {kind} cannot be printed; use letters and digits"
        )


def repeated(collection: str, key: str, kind: str, names: Iterable[str]) -> Iterator[InputProblem]:
    """Names that occurred before in the same collection."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield InputProblem(
                (collection, index, key), f'{kind} "{name}" occurs twice; rename or remove one'
            )
        seen.add(name)


def amount(dimension: str, value: int) -> str:
    """An amount in words: 8 GPUs, 0.5 H100-80GB GPUs, 4 CPUs, 64 GiB of memory."""
    if dimension == MEMORY:
        return f"{_decimal(value, 1024)} GiB of memory"
    unit = "CPU" if dimension == CPU else "GPU"
    if dimension.startswith(MODEL_PREFIX):
        unit = f"{dimension.removeprefix(MODEL_PREFIX)} GPU"
    return f"{_decimal(value, WHOLE)} {unit}{'' if value == WHOLE else 's'}"


def is_dimension(name: str) -> bool:
    """Is this one of the dimensions that queues count?"""
    if name.startswith(MODEL_PREFIX):
        return name != MODEL_PREFIX
    return name in (GPU, CPU, MEMORY)


def unknown_dimension(name: str) -> str:
    """What to say of a name that is no dimension."""
    return (
        f'"{name}" is nothing that can be counted; '
        f"name amounts of {GPU}, {MODEL_PREFIX}MODEL, {CPU} or {MEMORY}"
    )


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names in a row, cut off where there are too many to read."""
    known = list(names)
    shown = ", ".join(known[:most])
    return f"{shown} and {len(known) - most} more" if len(known) > most else shown


def _decimal(value: int, whole: int) -> str:
    return f"{value / whole:.3f}".rstrip("0").rstrip(".")
