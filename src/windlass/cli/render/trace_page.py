"""The report of a replay as one page: plots drawn here, nothing fetched from anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from windlass.cli.render.plots import PlotBar, bars, lines

if TYPE_CHECKING:
    from windlass.cli.commands.simulate_trace import TraceRun
    from windlass.sim.traces.outcome import Done
    from windlass.sim.traces.rows import TraceJob
    from windlass.sim.traces.samples import TraceSample

Series: TypeAlias = dict[str, list[tuple[int, float]]]

FILE = "index.html"
MOST_TEAMS = 12
SIZES = ((1, 1), (2, 4), (5, 8), (9, 16), (17, 1 << 30))

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--paper:#fff;--faint:#d5dae1}
@media(prefers-color-scheme:dark){:root{--ink:#e4e9f0;--paper:#12161c;--faint:#39424e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:62rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:right}
td:first-child{text-align:left}svg{width:100%;height:auto}text{fill:var(--ink);font-size:12px}
"""


def write_page(folder: str, jobs: Sequence[TraceJob], played: Sequence[TraceRun]) -> str:
    """Write the page into a folder, which is made if need be; answers where it is."""
    from windlass.cli.output import write_file
    from windlass.model.errors import InputError

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        sentence = f"it cannot be made ({error.strerror}); name another folder"
        raise InputError(folder, None, sentence) from None
    path = os.path.join(folder, FILE)
    write_file(path, page(jobs, played).encode())
    return path


def page(jobs: Sequence[TraceJob], played: Sequence[TraceRun]) -> str:
    """The whole page."""
    parts = [_numbers(played), *(_plots(jobs, each) for each in played)]
    head = f'<meta charset="utf-8"><title>Windlass: a replay</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _numbers(played: Sequence[TraceRun]) -> str:
    from dataclasses import asdict

    from windlass.cli.commands.simulate_trace import WORDS

    outcomes = [asdict(each.outcome) for each in played]
    head = "".join(f"<th>{escape(each.policy)}</th>" for each in played)
    rows = "".join(
        f"<tr><td>{escape(words.strip())}</td>"
        + "".join(f"<td>{each[key]:,}</td>" for each in outcomes)
        + "</tr>"
        for key, words in WORDS.items()
    )
    title = f"<h1>A replay of {played[0].outcome.jobs:,} jobs</h1>"
    return f"{title}<p>{escape(_about(played))}</p><table><tr><th></th>{head}</tr>{rows}</table>"


def _about(played: Sequence[TraceRun]) -> str:
    """What was played, and how, in one line."""
    from windlass import __version__
    from windlass.cli.files import name_of
    from windlass.sim.traces.rows import counted

    asked = played[0].asked
    nodes = played[0].simulation.workload.nodes
    gpus = sum(len(node.gpus) for node in nodes)
    size = f"{counted(len(nodes), 'node')}, {counted(gpus, 'GPU')}"
    known = "known" if asked.known else "not known"
    after = asked.reserve_after_s
    parts = [
        f"trace {os.path.basename(name_of(asked.trace))}",
        f"cluster {os.path.basename(asked.cluster)} ({size})",
        f"policy {' and '.join(each.policy for each in played)}",
        f"restart {asked.restart_s:,} s",
        f"least run {asked.min_run_s:,} s",
        *([] if after is None else [f"reserved after {after:,} s"]),
        f"durations {known} to the scheduler",
        f"Windlass {__version__}",
    ]
    return "; ".join(parts)


def _plots(jobs: Sequence[TraceJob], played: TraceRun) -> str:
    from windlass.sim.traces.outcome import done_of

    samples, done = played.samples.taken, done_of(played.simulation, jobs)
    figures = (
        ("GPUs in use, of all", lines(_parts(samples, lambda each: each.allocated), "used", 1.0)),
        (
            "Jobs that wait",
            lines({"waiting": [(s.at, float(s.waiting)) for s in samples]}, "jobs"),
        ),
        ("Wait by size: half, and nine of ten, wait at most", bars(_waits(done), "seconds")),
        ("GPUs by queue, of all", lines(_shares(samples), "part", 1.0)),
        ("Mean bounded slowdown by team", bars(_slowdowns(done), "times the run time")),
        (
            "Fragmentation: GPUs free where the typical task does not fit, of all",
            lines(_parts(samples, lambda each: each.stranded), "stranded", 1.0),
        ),
    )
    drawn = "".join(f"<h3>{escape(title)}</h3>{figure}" for title, figure in figures)
    return f"<h2>{escape(played.policy)}</h2>{drawn}"


def _parts(samples: Sequence[TraceSample], amount: Callable[[TraceSample], int]) -> Series:
    return {"all": [(each.at, amount(each) / max(1, each.capacity)) for each in samples]}


def _shares(samples: Sequence[TraceSample]) -> Series:
    total: dict[str, int] = {}
    for each in samples:
        for queue, has in each.queues.items():
            total[queue] = total.get(queue, 0) + has
    largest = sorted(total, key=lambda queue: (-total[queue], queue))[:MOST_TEAMS]
    return {
        queue: [(each.at, each.queues.get(queue, 0) / max(1, each.capacity)) for each in samples]
        for queue in largest
    }


def _waits(done: Sequence[Done]) -> list[PlotBar]:
    found: list[PlotBar] = []
    for low, high in SIZES:
        waits = sorted(each.wait_s for each in done if low <= each.job.gpus <= high)
        if waits:
            name = f"{low}" if low == high else f"{low}+" if high > 1 << 20 else f"{low}-{high}"
            middle, most = waits[len(waits) // 2], waits[len(waits) * 9 // 10]
            found.append(PlotBar(f"{name} GPUs ({len(waits):,})", (float(middle), float(most))))
    return found


def _slowdowns(done: Sequence[Done]) -> list[PlotBar]:
    teams: dict[str, list[float]] = {}
    for each in done:
        teams.setdefault(each.job.team or "all", []).append(each.slowdown)
    largest = sorted(teams, key=lambda team: (-len(teams[team]), team))[:MOST_TEAMS]
    return [PlotBar(f"{team} ({len(teams[team]):,})", (_mean(teams[team]),)) for team in largest]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
