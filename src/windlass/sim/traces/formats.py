"""The formats of traces, one reader each, and their detection by the first lines.

    philly   timestamp,duration,num_gpus,gpu_time,cluster      seconds; the cluster is the team
    muri     job_id,num_gpu,submit_time,…,model_name,duration  milliseconds
    csv      submit_s,duration_s,gpus[,team,user,name,said_s]  our own, in seconds
    openb    num_gpu,gpu_milli,creation_time,deletion_time     seconds; pods without GPUs skipped
    swf      the Standard Workload Format: eighteen numbers a line, processors taken for GPUs

A reader returns None for a valid line that is no playable job: without GPUs, or never run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from windlass.model.gpus import WHOLE
from windlass.sim.traces.openb import went_before
from windlass.sim.traces.rows import (
    MOST_GPUS,
    TraceError,
    TraceJob,
    TraceRow,
    counted,
    first_line,
    in_order,
    table,
)

Reader: TypeAlias = Callable[[Sequence[str]], Iterator[TraceJob | None]]


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a trace, in the order of arrival."""

    jobs: tuple[TraceJob, ...]
    left_out: int = 0
    """The number of lines that are no playable job: without GPUs, or never run."""


def read_trace(lines: Sequence[str], format_: str | None = None) -> tuple[TraceJob, ...]:
    """Return the jobs of a trace, in the order of arrival."""
    return read_all(lines, format_).jobs


def read_all(lines: Sequence[str], format_: str | None = None) -> Trace:
    """Return the jobs of a trace with the number of lines left out."""
    found = list(FORMATS[format_ or guess(lines)](lines))
    some = [job for job in found if job is not None]
    if found and not some:
        count = f"{len(found):,}"
        raise TraceError(None, f"none of its {count} jobs asks for GPUs and ran; give another file")
    return Trace(in_order(some), len(found) - len(some))


def guess(lines: Sequence[str]) -> str:
    """Return the name of the format that the first lines look like."""
    first = first_line(lines)
    if first is None:
        raise TraceError(None, "it is empty; a trace begins with a line of column names")
    line = lines[first]
    if line.startswith(";") or len(line.split()) == len(_SWF):
        return "swf"
    names = {each.strip().strip('"') for each in line.split(",")}
    return next((name for name, some in _SIGNS.items() if some <= names), "csv")


def _philly(lines: Sequence[str]) -> Iterator[TraceJob]:
    for row in table(lines, ("timestamp", "duration", "num_gpus", "cluster")):
        team = row.text("cluster")
        yield TraceJob(
            _instant(row), row.seconds("duration", least=1), _gpus(row, "num_gpus"), team
        )


def _muri(lines: Sequence[str]) -> Iterator[TraceJob]:
    for row in table(lines, ("num_gpu", "submit_time", "duration", "model_name")):
        at, runs_s = row.instant("submit_time", 1000), row.seconds("duration", 1000, least=1)
        yield TraceJob(at, runs_s, _gpus(row, "num_gpu"), name=row.text("model_name"))


def _csv(lines: Sequence[str]) -> Iterator[TraceJob]:
    for row in table(lines, ("submit_s", "duration_s", "gpus")):
        said = row.seconds("said_s", least=1) if row.text("said_s") else None
        team, user, name = (row.text(each) for each in ("team", "user", "name"))
        runs_s = row.seconds("duration_s", least=1)
        yield TraceJob(row.instant("submit_s"), runs_s, _gpus(row, "gpus"), team, user, name, said)


def _openb(lines: Sequence[str]) -> Iterator[TraceJob | None]:
    for row in table(lines, ("num_gpu", "gpu_milli", "creation_time", "deletion_time")):
        gpus = row.whole("num_gpu", 0, MOST_GPUS)
        if not gpus:
            yield None
            continue
        came, went = row.instant("creation_time"), row.instant("deletion_time")
        if went < came:
            raise TraceError(row.line, went_before(row.text("creation_time")))
        milli = row.whole("gpu_milli", 1, WHOLE) if gpus == 1 else WHOLE
        yield TraceJob(came, max(1, went - came), gpus, name=row.text("name"), milli=milli)


_SWF = (
    *("job", "submit", "wait", "run", "used", "cpu", "memory", "asked", "said"),
    *("asked_memory", "status", "user", "group", "program", "queue", "partition", "before"),
    "think",
)


def _swf(lines: Sequence[str]) -> Iterator[TraceJob | None]:
    for at, line in enumerate(lines, start=1):
        cells = line.split()
        if not cells or line.startswith((";", "#")):
            continue
        if len(cells) != len(_SWF):
            found = counted(len(cells), "field")
            raise TraceError(at, f"it has {found}; a line of SWF has {len(_SWF)}")
        row = TraceRow(at, dict(zip(_SWF, cells, strict=True)))
        gpus = "asked" if row.text("asked") not in ("-1", "0") else "used"
        if row.text("run") == "-1" or row.text(gpus) in ("-1", "0"):
            yield None  # never ran, or nobody knows on how many
            continue
        said = row.seconds("said", least=1) if row.text("said") != "-1" else None
        runs_s = row.seconds("run", least=1)
        team, user, name = (_known(row.text(each)) for each in ("group", "user", "program"))
        yield TraceJob(row.instant("submit"), runs_s, _gpus(row, gpus), team, user, name, said)


def _known(number: str) -> str:
    return "" if number == "-1" else number


def _gpus(row: TraceRow, column: str) -> int:
    return row.whole(column, 1, MOST_GPUS)


def _instant(row: TraceRow) -> int:
    written = row.text("timestamp")
    try:
        found = datetime.fromisoformat(written).replace(tzinfo=None)
    except ValueError:
        raise TraceError(
            row.line, f'timestamp is "{written}"; write it like 2017-10-09 07:01:55'
        ) from None
    return int((found - datetime(1970, 1, 1)).total_seconds())


FORMATS: Mapping[str, Reader] = {
    "philly": _philly,
    "muri": _muri,
    "openb": _openb,
    "csv": _csv,
    "swf": _swf,
}
"""Every supported format, by its name on the command line."""
_SIGNS = {
    "philly": {"timestamp", "num_gpus"},
    "muri": {"num_gpu", "submit_time"},
    "openb": {"num_gpu", "gpu_milli"},
}
"""The columns by which a format is detected."""
