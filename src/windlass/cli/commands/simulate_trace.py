"""`windlass simulate --trace`: simulates the jobs of a trace in one or two orders."""

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
    from windlass.sim.traces import Replay, Samples, TraceJob, TraceOutcome

SRSF = "srsf"
"""The baseline shortest remaining service first, which is not an order of the engine."""
MOST_REASONS = 4
"""The number of reasons in the message about jobs that never ended."""
MANY_JOBS = 5000
"""The number of jobs from which progress is printed without a terminal."""
MOST_BYTES = 512 * 2**20
MOST_NODES, MOST_GPUS = 20_000, 64
_GRID = re.compile(r"([0-9]{1,18})x([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options of the command line."""

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
    """The simulation of a trace in one order, and its outcome."""

    policy: str
    simulation: Simulation
    samples: Samples
    outcome: TraceOutcome
    options: TraceOptions


def replay(
    options: TraceOptions, policies: Sequence[str]
) -> tuple[tuple[TraceJob, ...], list[TraceRun]]:
    """Simulate a trace in each order; return its jobs and the runs."""
    jobs, nodes = _jobs(options.trace, options.format_), _nodes(options.cluster)
    _warn_of_cut_jobs(jobs, nodes)
    return jobs, [_play(jobs, nodes, options, policy) for policy in dict.fromkeys(policies)]


def text(runs: Sequence[TraceRun]) -> str:
    """Return a table with a column for each order and a row for each number."""
    from dataclasses import fields

    from windlass.cli.output import table
    from windlass.sim.traces import TraceOutcome

    rows = [
        (LABELS[field.name], *(f"{getattr(run.outcome, field.name):,}" for run in runs))
        for field in fields(TraceOutcome)
    ]
    return table(("", *(run.policy for run in runs)), rows)


LABELS = {
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


def _replay_of(options: TraceOptions, policy: str) -> Replay:
    from windlass.model.settings import Ordering
    from windlass.sim.traces import Replay

    return Replay(
        order=Ordering.SHORTEST if policy == SRSF else Ordering(policy),
        known=options.known,
        restart_s=options.restart_s,
        min_run_s=options.min_run_s,
        reserve_after_s=options.reserve_after_s,
        by_team=options.by_team,
    )


def _jobs(file: str, format_: str | None) -> tuple[TraceJob, ...]:
    """Read the jobs of a trace file; print how many of them are left out."""
    from windlass.cli.files import read_limited
    from windlass.model.errors import InputError
    from windlass.sim.traces import TraceError, lines_of, read_all

    data, name = read_limited(file, MOST_BYTES)
    try:
        trace = read_all(lines_of(data), format_)
    except UnicodeDecodeError:
        raise InputError(name, None, "it is not text; unpack it first") from None
    except TraceError as error:
        raise InputError(name, error.line, error.sentence) from None
    if trace.left_out:
        share = f"{trace.left_out:,} of {trace.left_out + len(trace.jobs):,} jobs"
        click.echo(f"{share} are left out: they ask for no GPUs, or never ran.", err=True)
    return trace.jobs


def _nodes(cluster: str) -> tuple[Node, ...]:
    """Return the nodes of --cluster: a grid like 8x8, or those of a scenario file."""
    from windlass.sim.traces import cluster_of

    grid = _GRID.fullmatch(cluster)
    if grid is None:
        from windlass.cli.files import read_scenario_file

        if not Path(cluster).is_file():
            raise click.UsageError(
                f"--cluster: {cluster} is neither a file nor nodes and GPUs like 8x8; give one."
            )
        nodes = read_scenario_file(cluster).workload.nodes
        if not any(node.gpus for node in nodes):
            raise click.UsageError(f"--cluster: {cluster} has no node with GPUs; add some.")
        return nodes
    nodes, gpus = int(grid[1]), int(grid[2])
    if not 1 <= nodes <= MOST_NODES or not 1 <= gpus <= MOST_GPUS:
        raise click.UsageError(
            f"--cluster: {cluster} is not 1 to {MOST_NODES} nodes of 1 to {MOST_GPUS} GPUs; "
            "write it like 8x8."
        )
    return cluster_of(nodes, gpus)


def _warn_of_cut_jobs(jobs: Sequence[TraceJob], nodes: Sequence[Node]) -> None:
    """Print how many jobs request more GPUs than the cluster has; they get all of them."""
    from windlass.sim.traces import larger_than

    cut, total = larger_than(jobs, nodes), sum(len(node.gpus) for node in nodes)
    if cut:
        share = f"{cut:,} of {len(jobs):,} jobs ask for more GPUs than the cluster has"
        click.echo(f"{share}: cut down to its {total:,}.", err=True)


def _play(
    jobs: tuple[TraceJob, ...], nodes: tuple[Node, ...], options: TraceOptions, policy: str
) -> TraceRun:
    """Simulate the jobs in one order to their end."""
    from windlass.engine.cycle import plan_without_reasons
    from windlass.sim.baselines import srsf
    from windlass.sim.run import Simulation
    from windlass.sim.traces import Samples, outcome, workload_of

    workload, samples = workload_of(jobs, nodes, _replay_of(options, policy)), Samples()
    scheduler = srsf if policy == SRSF else plan_without_reasons
    simulation = Simulation(workload, scheduler, start_s=0)
    gc.collect()
    gc.freeze()  # the jobs of a trace stay, so later collections need not look at them
    _run(simulation, samples, policy)
    result = outcome(simulation, jobs, options.restart_s)
    if result.finished < result.jobs:
        _warn_of_unfinished_jobs(simulation, result, policy)
    return TraceRun(policy, simulation, samples, result, options)


def _warn_of_unfinished_jobs(simulation: Simulation, result: TraceOutcome, policy: str) -> None:
    """Print how many jobs never ended, and why; raise an error if none ended."""
    from windlass.model.errors import WindlassError, one_line

    why, left = _why_unfinished(simulation), result.jobs - result.finished
    if not result.finished:
        raise WindlassError(one_line(f"{policy}: none of {result.jobs:,} jobs ever ended: {why}"))
    clause = f"{policy}: {left:,} of {result.jobs:,} jobs never ended: {why}"
    click.echo(f"{one_line(clause)}; the numbers are those of the others.", err=True)


def _why_unfinished(simulation: Simulation) -> str:
    """Return the reasons of the first gang that is left, or advice if there are none."""
    from windlass.engine.cycle import plan

    for decision in plan(simulation.cluster).decisions:
        if decision.reasons:
            reasons = "; ".join(map(str, decision.reasons[:MOST_REASONS]))
            return f"{simulation.cluster.gangs[decision.gang].job} waits: {reasons}"
    return "they found no place; check the nodes' GPUs, CPUs, memory, taints and cordons"


def _run(simulation: Simulation, samples: Samples, policy: str) -> None:
    """Simulate to the end with a progress bar, or with a line for every tenth of the jobs.

    The bar is for a terminal; without one, a short trace prints nothing.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    total, has_bar = len(simulation.workload.arrivals), sys.stderr.isatty()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    step, printed = max(1, total // 10), 0
    with Progress(*columns, console=Console(stderr=True), disable=not has_bar) as progress:
        bar = progress.add_task(policy, total=total)
        while simulation.next_at() is not None:
            simulation.step()
            samples.look(simulation)
            if simulation.cycles % 256:
                continue
            ended = simulation.world.ended
            progress.update(bar, completed=ended, description=f"{policy} {ended:,} of {total:,}")
            if not has_bar and total >= MANY_JOBS and ended // step > printed:
                printed = ended // step
                click.echo(f"{policy}: {ended:,} of {total:,} jobs have ended.", err=True)
