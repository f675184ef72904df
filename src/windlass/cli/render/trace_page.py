"""The report of a trace replay as one HTML page that loads nothing from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from windlass.cli.render.plots import PlotBar, bars, lines

if TYPE_CHECKING:
    from windlass.cli.commands.simulate_trace import TraceRun
    from windlass.sim.traces import Done, TraceJob, TraceSample

Series: TypeAlias = dict[str, list[tuple[int, float]]]

FILE = "index.html"
MOST_TEAMS = 12
SIZES = ((1, 1), (2, 4), (5, 8), (9, 16), (17, 1 << 30))
"""The classes of jobs by their GPUs, both ends included; the last one is open."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--paper:#fff;--faint:#d5dae1}
@media(prefers-color-scheme:dark){:root{--ink:#e4e9f0;--paper:#12161c;--faint:#39424e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:62rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:right}
td:first-child{text-align:left}svg{width:100%;height:auto}text{fill:var(--ink);font-size:12px}
"""


def write_page(folder: str, jobs: Sequence[TraceJob], runs: Sequence[TraceRun]) -> str:
    """Write the page into a folder, which is created if it is missing; return its path."""
    from windlass.cli.output import write_file
    from windlass.model.errors import InputError

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        problem = f"it cannot be created ({error.strerror}); name another folder"
        raise InputError(folder, None, problem) from None
    path = os.path.join(folder, FILE)
    write_file(path, page(jobs, runs).encode())
    return path


def page(jobs: Sequence[TraceJob], runs: Sequence[TraceRun]) -> str:
    """Return the whole page."""
    parts = [_numbers(runs), *(_plots(jobs, run) for run in runs)]
    head = f'<meta charset="utf-8"><title>Windlass: a replay</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _numbers(runs: Sequence[TraceRun]) -> str:
    from dataclasses import asdict

    from windlass.cli.commands.simulate_trace import LABELS

    outcomes = [asdict(run.outcome) for run in runs]
    head = "".join(f"<th>{escape(run.policy)}</th>" for run in runs)
    rows = "".join(
        f"<tr><td>{escape(label.strip())}</td>"
        + "".join(f"<td>{outcome[key]:,}</td>" for outcome in outcomes)
        + "</tr>"
        for key, label in LABELS.items()
    )
    title = f"<h1>A replay of {runs[0].outcome.jobs:,} jobs</h1>"
    return f"{title}<p>{escape(_about(runs))}</p><table><tr><th></th>{head}</tr>{rows}</table>"


def _about(runs: Sequence[TraceRun]) -> str:
    """Return the trace, the cluster and the options of the runs in one line."""
    from windlass import __version__
    from windlass.cli.files import display_name
    from windlass.cli.format import counted

    options = runs[0].options
    nodes = runs[0].simulation.workload.nodes
    gpus = sum(len(node.gpus) for node in nodes)
    size = f"{counted(len(nodes), 'node')}, {counted(gpus, 'GPU')}"
    known = "known" if options.known else "not known"
    after = options.reserve_after_s
    parts = [
        f"trace {os.path.basename(display_name(options.trace))}",
        f"cluster {os.path.basename(options.cluster)} ({size})",
        f"policy {' and '.join(run.policy for run in runs)}",
        f"restart {options.restart_s:,} s",
        f"least run {options.min_run_s:,} s",
        *([] if after is None else [f"reserved after {after:,} s"]),
        f"durations {known} to the scheduler",
        f"Windlass {__version__}",
    ]
    return "; ".join(parts)


def _plots(jobs: Sequence[TraceJob], run: TraceRun) -> str:
    from windlass.sim.traces import done_of

    samples, done = run.samples.taken, done_of(run.simulation, jobs)
    figures = (
        (
            "GPUs in use, of all",
            lines(_parts(samples, lambda sample: sample.allocated), "used", 1.0),
        ),
        (
            "Jobs that wait",
            lines({"waiting": [(sample.at, float(sample.waiting)) for sample in samples]}, "jobs"),
        ),
        ("Wait by size: half, and nine of ten, wait at most", bars(_waits(done), "seconds")),
        ("GPUs by queue, of all", lines(_shares(samples), "part", 1.0)),
        ("Mean bounded slowdown by team", bars(_slowdowns(done), "times the run time")),
        (
            "Fragmentation: GPUs free where the typical task does not fit, of all",
            lines(_parts(samples, lambda sample: sample.stranded), "stranded", 1.0),
        ),
    )
    plots = "".join(f"<h3>{escape(title)}</h3>{figure}" for title, figure in figures)
    return f"<h2>{escape(run.policy)}</h2>{plots}"


def _parts(samples: Sequence[TraceSample], amount: Callable[[TraceSample], int]) -> Series:
    return {"all": [(sample.at, amount(sample) / max(1, sample.capacity)) for sample in samples]}


def _shares(samples: Sequence[TraceSample]) -> Series:
    total: dict[str, int] = {}
    for sample in samples:
        for queue, allocated in sample.queues.items():
            total[queue] = total.get(queue, 0) + allocated
    largest = sorted(total, key=lambda queue: (-total[queue], queue))[:MOST_TEAMS]
    return {
        queue: [
            (sample.at, sample.queues.get(queue, 0) / max(1, sample.capacity)) for sample in samples
        ]
        for queue in largest
    }


def _waits(done: Sequence[Done]) -> list[PlotBar]:
    bars_by_size: list[PlotBar] = []
    for low, high in SIZES:
        waits = sorted(job.wait_s for job in done if low <= job.job.gpus <= high)
        if waits:
            name = f"{low}" if low == high else f"{low}+" if high > 1 << 20 else f"{low}-{high}"
            middle, most = waits[len(waits) // 2], waits[len(waits) * 9 // 10]
            values = (float(middle), float(most))
            bars_by_size.append(PlotBar(f"{name} GPUs ({len(waits):,})", values))
    return bars_by_size


def _slowdowns(done: Sequence[Done]) -> list[PlotBar]:
    teams: dict[str, list[float]] = {}
    for job in done:
        teams.setdefault(job.job.team or "all", []).append(job.slowdown)
    largest = sorted(teams, key=lambda team: (-len(teams[team]), team))[:MOST_TEAMS]
    return [PlotBar(f"{team} ({len(teams[team]):,})", (_mean(teams[team]),)) for team in largest]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
