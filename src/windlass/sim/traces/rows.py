"""A trace as rows, whatever its format: when a job came, what it asked for, how long it ran.

Every reader takes numbered lines and answers jobs; what it cannot read it refuses with the line and
what to do. Times are whole seconds, a run lasts at least one.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.model.gpus import WHOLE

LONGEST_S = 10 * 365 * 86400
LATEST_S = 8 * 10**9
"""Instants may be counted from the first job or from 1970; milliseconds would lie beyond this."""
MOST_GPUS = 100_000


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a trace."""

    at: int
    """Seconds after the first one came."""
    runs_s: int
    gpus: int
    team: str = ""
    user: str = ""
    name: str = ""
    said_s: int | None = None
    """How long its user said it would run, where the trace knows."""
    milli: int = WHOLE
    """Of each GPU; less than a whole one is a share of it."""


class TraceError(ValueError):
    """A line is not what the format says; the message says what to do."""

    def __init__(self, line: int | None, sentence: str) -> None:
        super().__init__(sentence)
        self.line, self.sentence = line, sentence


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table, by its columns."""

    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """A cell as it is; empty where there is none."""
        return self.cells.get(column, "").strip()

    def number(self, column: str, least: float, most: float) -> float:
        """A cell as a number within bounds."""
        written = self.text(column)
        try:
            value = float(written)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise TraceError(
                self.line,
                f'{column} is "{written}"; write a number from {least:g} to {most:g}',
            )
        return value

    def seconds(self, column: str, per_second: int = 1, least: int = 0) -> int:
        """A time in whole seconds, of so many units each."""
        value = self.number(column, 0, float(LONGEST_S) * per_second)
        return max(least, round(value / per_second))

    def instant(self, column: str, per_second: int = 1) -> int:
        """When something happened, in whole seconds from wherever the trace counts."""
        value = self.number(column, 0, math.inf)
        if value > LATEST_S * per_second:
            units = "seconds" if per_second == 1 else "milliseconds"
            sentence = f"write {units}, counted from the first job or from 1970"
            raise TraceError(self.line, f'{column} is "{self.text(column)}"; {sentence}')
        return round(value / per_second)


def table(lines: Iterable[str], needed: Sequence[str]) -> Iterator[Row]:
    """The rows of a comma-separated file with a header."""
    numbered = csv.reader(lines)
    head = next(numbered, None)
    if head is None:
        raise TraceError(None, "it is empty; a trace begins with a line of column names")
    names = [each.strip() for each in head]
    missing = [each for each in needed if each not in names]
    if missing:
        raise TraceError(
            1, f'there is no column "{missing[0]}"; name the columns in the first line'
        )
    try:
        for cells in numbered:
            if any(cells):
                yield _row(numbered.line_num, names, cells)
    except csv.Error as error:
        raise TraceError(numbered.line_num, f"it is not CSV ({error}); mend the line") from None


def _row(line: int, names: Sequence[str], cells: Sequence[str]) -> Row:
    if len(cells) != len(names):
        found, wanted = len(cells), len(names)
        raise TraceError(line, f"it has {found} cells for {wanted} columns; fill or remove some")
    return Row(line, dict(zip(names, cells, strict=True)))


def in_order(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs as they came, counted from the first one."""
    some = sorted(jobs, key=lambda each: each.at)
    if not some:
        raise TraceError(None, "there is no job in it; is it the right file?")
    first = some[0].at
    return tuple(replace(each, at=each.at - first) for each in some)
