"""A trace as rows, independent of its format: arrival, request and run time of each job.

Every reader takes numbered lines and returns jobs; a line that it cannot read is refused with its
number and advice. Times are whole seconds, and a run lasts at least one.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from windlass.model.gpus import WHOLE

LONGEST_S = 10 * 365 * 86400
LATEST_S = 8 * 10**9
"""The latest valid time: times count from the first job or from 1970, and milliseconds would lie
beyond this."""
MOST_GPUS = 100_000


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace."""

    at: int
    """The seconds after the first job."""
    runs_s: int
    gpus: int
    team: str = ""
    user: str = ""
    name: str = ""
    said_s: int | None = None
    """The run time that its user announced, in seconds; None where the trace has none."""
    milli: int = WHOLE
    """Milli-GPU of each GPU; below 1000 it is a fraction."""


class TraceError(ValueError):
    """A line does not follow the format; the message says what to do."""

    def __init__(self, line: int | None, sentence: str) -> None:
        super().__init__(sentence)
        self.line, self.sentence = line, sentence


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A line of a table, by its columns."""

    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """Return a cell as text; empty where there is none."""
        return self.cells.get(column, "").strip()

    def number(self, column: str, least: float, most: float) -> float:
        """Return a cell as a number within bounds."""
        value = self._value(column)
        if not least <= value <= most:
            raise self._refusal(column, f"a number {_bounds(least, most)}")
        return value

    def whole(self, column: str, least: int, most: int) -> int:
        """Return a cell as a whole number within bounds."""
        value = self._value(column)
        if not least <= value <= most or not value.is_integer():
            raise self._refusal(column, f"a whole number {_bounds(least, most)}")
        return int(value)

    def seconds(self, column: str, per_second: int = 1, least: int = 0) -> int:
        """Return a time in whole seconds, from a cell with this many units per second."""
        value = self.number(column, 0, float(LONGEST_S) * per_second)
        return max(least, round(value / per_second))

    def instant(self, column: str, per_second: int = 1) -> int:
        """Return a point in time in whole seconds, from the origin that the trace uses."""
        value = self.number(column, 0, math.inf)
        if value > LATEST_S * per_second:
            units = "seconds" if per_second == 1 else "milliseconds"
            raise self._refusal(column, f"{units}, counted from the first job or from 1970")
        return round(value / per_second)

    def _value(self, column: str) -> float:
        written = self.text(column)
        try:
            return math.nan if "_" in written else float(written)
        except ValueError:
            return math.nan

    def _refusal(self, column: str, instead: str) -> TraceError:
        return TraceError(self.line, f'{column} is "{self.text(column)}"; write {instead}')


def counted(number: int, what: str) -> str:
    """Return a number of things in words: "1 field", "2 fields"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a file, without a byte order mark."""
    return data.decode("utf-8-sig").splitlines()


def first_line(lines: Sequence[str]) -> int | None:
    """Return the index of the first line that is neither empty nor a comment; None if there is
    none."""
    return next((at for at, line in enumerate(lines) if not _says_nothing(line)), None)


def table(lines: Sequence[str], needed: Sequence[str]) -> Iterator[TraceRow]:
    """Yield the rows of a comma-separated file with a header, after comments and empty lines."""
    first = first_line(lines)
    if first is None:
        raise TraceError(None, "it is empty; a trace begins with a line of column names")
    rows = _cells(lines[first:], first)
    line, head = next(rows)
    names = [each.strip() for each in head]
    _check_names(line, names, needed)
    for line, cells in rows:
        if any(cells):
            yield _row(line, names, cells)


def _says_nothing(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _cells(lines: Iterable[str], before: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row and the line on which it begins, where `before` lines
    came first."""
    rows = csv.reader(lines, strict=True)
    while True:
        line = before + rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            sentence = f"it is not CSV ({error}); is a quote left open? Mend the line"
            raise TraceError(line, sentence) from None
        if before + rows.line_num != line:
            raise TraceError(line, "a quote is not closed on this line; close it")
        yield line, cells


def _check_names(line: int, names: Sequence[str], needed: Sequence[str]) -> None:
    for each in needed:
        if each not in names:
            sentence = f'there is no column "{each}"; name the columns in the first line'
            raise TraceError(line, sentence)
    twice = next((each for each in names if each and names.count(each) > 1), None)
    if twice:
        raise TraceError(line, f'there are two columns "{twice}"; remove or rename one')


def _row(line: int, names: Sequence[str], cells: Sequence[str]) -> TraceRow:
    if len(cells) != len(names):
        found, wanted = counted(len(cells), "cell"), counted(len(names), "column")
        raise TraceError(line, f"it has {found} for {wanted}; fill or remove some")
    return TraceRow(line, dict(zip(names, cells, strict=True)))


def _bounds(least: float, most: float) -> str:
    return f"from {least:,.0f}" + ("" if math.isinf(most) else f" to {most:,.0f}")


def in_order(jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
    """Return the jobs sorted by arrival, with times counted from the first one."""
    some = sorted(jobs, key=lambda each: each.at)
    if not some:
        raise TraceError(None, "there is no job in it; is it the right file?")
    first = some[0].at
    return tuple(replace(each, at=each.at - first) for each in some)
