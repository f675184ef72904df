"""The type of a problem in input, and the small checks that all kinds of input share.

The other modules here yield problems; readers of files turn the path into a line.
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
"""The keys and indexes that lead from the top of a snapshot to a value."""

LONGEST_NAME = 253
"""The most characters of a name, as in Kubernetes."""


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A problem: its place, and one sentence with the fault and the remedy."""

    path: Path
    sentence: str
    passing: bool = False
    """True if a live cluster may be in this state for a while; the engine then gives a reason."""
    wrong: str = ""
    """An unknown name, for a hint at a similar known one; empty: no hint."""
    known: Collection[str] = ()
    """The known names. Compared only when the problem is shown, because that is slow."""

    def __str__(self) -> str:
        close = close_names(self.wrong, self.known) if self.wrong else ()
        return f'{self.sentence}; did you mean "{close[0]}"?' if close else self.sentence


def check_range(
    path: Path, what: str, value: int, least: int, most: int = LARGEST_AMOUNT
) -> Iterator[InputProblem]:
    """Yield a problem if a number is below `least` or above `most`."""
    if not least <= value <= most:
        yield InputProblem(path, f"{what} is {value:,}; give a number from {least:,} to {most:,}")


def check_name(path: Path, kind: str, name: str) -> Iterator[InputProblem]:
    """Yield a problem if a name is empty, too long or not printable."""
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


def check_unique(
    collection: str, key: str, kind: str, names: Iterable[str]
) -> Iterator[InputProblem]:
    """Yield a problem for each name that occurred before in the same collection."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield InputProblem(
                (collection, index, key), f'{kind} "{name}" occurs twice; rename or remove one'
            )
        seen.add(name)


def amount_in_words(dimension: str, value: int) -> str:
    """Return an amount in words: 8 GPUs, 0.5 H100-80GB GPUs, 4 CPUs, 64 GiB of memory."""
    if dimension == MEMORY:
        return f"{_decimal(value, 1024)} GiB of memory"
    unit = "CPU" if dimension == CPU else "GPU"
    if dimension.startswith(MODEL_PREFIX):
        unit = f"{dimension.removeprefix(MODEL_PREFIX)} GPU"
    return f"{_decimal(value, WHOLE)} {unit}{'' if value == WHOLE else 's'}"


def is_dimension(name: str) -> bool:
    """Return whether a name is a dimension that queues count."""
    if name.startswith(MODEL_PREFIX):
        return name != MODEL_PREFIX
    return name in (GPU, CPU, MEMORY)


def unknown_dimension(name: str) -> str:
    """Return the sentence for a name that is not a dimension."""
    return (
        f'"{name}" is nothing that can be counted; '
        f"name amounts of {GPU}, {MODEL_PREFIX}MODEL, {CPU} or {MEMORY}"
    )


def join_names(names: Iterable[str], most: int = 8) -> str:
    """Return the first names with commas between them, and the number of the others."""
    items = list(names)
    shown = ", ".join(items[:most])
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown


def _decimal(value: int, whole: int) -> str:
    return f"{value / whole:.3f}".rstrip("0").rstrip(".")
