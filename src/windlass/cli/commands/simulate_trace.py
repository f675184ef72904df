"""`windlass simulate --trace`: replay a trace under one or two orders, and tell the outcome."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from windlass.model.nodes import Node
    from windlass.sim.run import Simulation
    from windlass.sim.traces.outcome import TraceOutcome
    from windlass.sim.traces.replay import Replay
    from windlass.sim.traces.rows import TraceJob
    from windlass.sim.traces.samples import Samples

SRSF = "srsf"
"""A baseline that is not the engine's: shortest remaining service first, by the book."""
MOST_REASONS = 4
MOST_BYTES = 512 * 2**20
MOST_NODES, MOST_GPUS = 20_000, 64
_GRID = re.compile(r"([0-9]{1,18})x([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What was asked for on the command line."""

    trace: str
    format_: str | None
    cluster: str
    known: bool
    restart_s: int
    min_run_s: int
    reserve_after_s: int | None
    by_team: bool | None


@dataclass(frozen=True, slots=True)
class TraceRun:
    """A trace under one order."""

    policy: str
    simulation: Simulation
    samples: Samples
    outcome: TraceOutcome
    asked: TraceOptions


def replay(
    asked: TraceOptions, policies: Sequence[str]
) -> tuple[tuple[TraceJob, ...], list[TraceRun]]:
    """The jobs of the trace, and what became of them under each order."""
    jobs, nodes = _jobs(asked.trace, asked.format_), _nodes(asked.cluster)
    _tell_cut(jobs, nodes)
    return jobs, [_play(jobs, nodes, asked, each) for each in dict.fromkeys(policies)]


def text(played: Sequence[TraceRun]) -> str:
    """A column for each order, a row for each number."""
    from dataclasses import fields

    from windlass.cli.output import table
    from windlass.sim.traces.outcome import TraceOutcome

    rows = [
        (WORDS[each.name], *(_number(getattr(one.outcome, each.name)) for one in played))
        for each in fields(TraceOutcome)
    ]
    return table(("", *(each.policy for each in played)), rows)


def _number(value: float) -> str:
    return f"{value:,}"


WORDS = {
    "jobs": "jobs",
    "avg_jct_s": "submission to end, average (s)",
    "avg_wait_s": "wait, average (s)",
    "wait_p50_s": "  half wait at most (s)",
    "wait_p90_s": "  nine of ten at most (s)",
    "wait_p99_s": "  99 of 100 at most (s)",
    "makespan_s": "first submission to last end (s)",
    "utilization": "useful GPU time, of capacity",
    "preemptions": "jobs stopped for others",
    "lost_gpu_hours": "GPU-hours lost to restarts",
    "jain": "evenness over teams (Jain)",
    "median_slowdown": "median bounded slowdown",
    "finished": "jobs finished",
}


def _how(asked: TraceOptions, policy: str) -> Replay:
    from windlass.model.settings import Ordering
    from windlass.sim.traces.replay import Replay

    return Replay(
        order=Ordering.SHORTEST if policy == SRSF else Ordering(policy),
        known=asked.known,
        restart_s=asked.restart_s,
        min_run_s=asked.min_run_s,
        reserve_after_s=asked.reserve_after_s,
        by_team=asked.by_team,
    )


def _jobs(file: str, format_: str | None) -> tuple[TraceJob, ...]:
    from windlass.cli.files import read_whole
    from windlass.model.errors import InputError
    from windlass.sim.traces.formats import read_all
    from windlass.sim.traces.rows import TraceError, lines_of

    data, name = read_whole(file, MOST_BYTES)
    try:
        found = read_all(lines_of(data), format_)
    except UnicodeDecodeError:
        raise InputError(name, None, "it is not text; unpack it first") from None
    except TraceError as error:
        raise InputError(name, error.line, error.sentence) from None
    if found.left_out:
        what = f"{found.left_out:,} of {found.left_out + len(found.jobs):,} jobs are left out"
        click.echo(f"{what}: they ask for no GPUs, or never ran", err=True)
    return found.jobs


def _nodes(cluster: str) -> tuple[Node, ...]:
    from windlass.sim.traces.replay import cluster_of

    grid = _GRID.fullmatch(cluster)
    if grid is None:
        from windlass.cli.files import read_scenario_file

        if not Path(cluster).is_file():
            raise click.UsageError(
                f"--cluster: {cluster} is neither a file nor nodes and GPUs like 8x8; give one"
            )
        nodes = read_scenario_file(cluster).workload.nodes
        if not any(node.gpus for node in nodes):
            raise click.UsageError(f"--cluster: {cluster} has no node with GPUs; add some")
        return nodes
    nodes, gpus = int(grid[1]), int(grid[2])
    if not 1 <= nodes <= MOST_NODES or not 1 <= gpus <= MOST_GPUS:
        raise click.UsageError(
            f"--cluster: {cluster} is not 1 to {MOST_NODES} nodes of 1 to {MOST_GPUS} GPUs; "
            "write it like 8x8"
        )
    return cluster_of(nodes, gpus)


def _tell_cut(jobs: Sequence[TraceJob], nodes: Sequence[Node]) -> None:
    from windlass.sim.traces.replay import larger_than

    cut, total = larger_than(jobs, nodes), sum(len(node.gpus) for node in nodes)
    if cut:
        what = f"{cut:,} of {len(jobs):,} jobs ask for more GPUs than the cluster has"
        click.echo(f"{what}: cut down to its {total:,}", err=True)


def _play(
    jobs: tuple[TraceJob, ...], nodes: tuple[Node, ...], asked: TraceOptions, policy: str
) -> TraceRun:
    from windlass.engine.cycle import plan_without_reasons
    from windlass.sim.baselines.srsf import srsf
    from windlass.sim.run import Simulation
    from windlass.sim.traces.outcome import outcome
    from windlass.sim.traces.replay import workload_of
    from windlass.sim.traces.samples import Samples

    workload, samples = workload_of(jobs, nodes, _how(asked, policy)), Samples()
    scheduler = srsf if policy == SRSF else plan_without_reasons
    simulation = Simulation(workload, scheduler, start_s=0)
    gc.collect()
    gc.freeze()  # the jobs of a trace stay: nobody has to look through them for garbage
    _run(simulation, samples, policy)
    found = outcome(simulation, jobs, asked.restart_s)
    if found.finished < found.jobs:
        _tell_unfinished(simulation, found, policy)
    return TraceRun(policy, simulation, samples, found, asked)


def _tell_unfinished(simulation: Simulation, found: TraceOutcome, policy: str) -> None:
    """Say how many jobs never ended, and why; it is an error if that is all of them."""
    from windlass.model.errors import WindlassError, one_line

    why, left = _why_unfinished(simulation), found.jobs - found.finished
    if not found.finished:
        raise WindlassError(one_line(f"{policy}: none of {found.jobs:,} jobs ever ended: {why}"))
    sentence = f"{policy}: {left:,} of {found.jobs:,} jobs never ended: {why}"
    click.echo(f"{one_line(sentence)}; the figures are of the others", err=True)


def _why_unfinished(simulation: Simulation) -> str:
    """The engine's reason for the first gang that is left, or where to look if it has none."""
    from windlass.engine.cycle import plan

    for each in plan(simulation.cluster).decisions:
        if each.reasons:
            reasons = "; ".join(map(str, each.reasons[:MOST_REASONS]))
            return f"{simulation.cluster.gangs[each.gang].job} waits: {reasons}"
    return "they found no place; check the nodes' GPUs, CPUs, memory, taints and cordons"


def _run(simulation: Simulation, samples: Samples, policy: str) -> None:
    """To the end, with a bar on a terminal and else a line for every tenth of the jobs."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    total, shows = len(simulation.workload.arrivals), sys.stderr.isatty()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    step, told = max(1, total // 10), 0
    with Progress(*columns, console=Console(stderr=True), disable=not shows) as progress:
        bar = progress.add_task(policy, total=total)
        while simulation.next_at() is not None:
            simulation.step()
            samples.look(simulation)
            if simulation.cycles % 256:
                continue
            ended = simulation.world.ended
            progress.update(bar, completed=ended, description=f"{policy} {ended:,} of {total:,}")
            if not shows and total >= SHOWN_FROM and ended // step > told:
                told = ended // step
                click.echo(f"{policy}: {ended:,} of {total:,} jobs have ended", err=True)


SHOWN_FROM = 5000
"""A trace of fewer jobs is over before anybody asks how far it is."""
