"""`windlass simulate`: simulates a scenario, generated work or a trace, and reports the outcome."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.demo_support.recording import option as record_option

if TYPE_CHECKING:
    from windlass.sim.run import Simulation
    from windlass.sim.workload import Workload

POLICIES = ("fair", "first-come", "shortest", "least-served")
OTHERS = ("default", "youngest", "srsf", *POLICIES)
FORMATS = ("philly", "muri", "openb", "csv", "swf")

HOURS = {"day": 24, "week": 7 * 24}
"""The generated workloads, and their hours."""


@click.command("simulate")
@click.argument("work", metavar="[SCENARIO|day|week]", required=False)
@click.option(
    "--seed", type=click.IntRange(min=0), help="The seed of generated work; by default 308."
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 5000),
    help="The nodes of the generated cluster; by default 24.",
)
@click.option(
    "--hours",
    type=click.IntRange(1, 24 * 31),
    help="The hours of generated work, instead of a day or week.",
)
@click.option("--until", metavar="TIME", help="Stop at this time, like 36h; by default at the end.")
@click.option(
    "--compare", type=click.Choice(OTHERS), help="Simulate this scheduler or order as well."
)
@record_option
@click.option("--trace", metavar="FILE", help="Replay the jobs of a trace instead.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="The format of the trace; by default it is guessed.",
)
@click.option(
    "--cluster", metavar="8x8|FILE", help="Nodes x GPUs per node, or a scenario file for its nodes."
)
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    help="The order of the jobs of a trace; by default fair.",
)
@click.option("--durations-known", is_flag=True, help="Tell the scheduler how long jobs run.")
@click.option(
    "--restart", metavar="TIME", help="The time that a restart costs a job; by default 30s."
)
@click.option(
    "--min-run", metavar="TIME", help="The time for which a job cannot be stopped; by default 30m."
)
@click.option(
    "--reserve-after",
    metavar="TIME",
    help="The wait after which the first job gets a reservation; by default never.",
)
@click.option("--teams/--no-teams", default=None, help="A queue for each team, or one for all.")
@click.option(
    "--report", metavar="DIR", help="Write a page with plots of a trace into this folder."
)
@click.option("--json", "json_", is_flag=True, help="Print the numbers as JSON.")
def command(
    *,
    work: str | None,
    seed: int | None,
    nodes: int | None,
    hours: int | None,
    until: str | None,
    compare: str | None,
    record: str | None,
    json_: bool,
    **trace: Any,
) -> None:
    """Simulate work on the embedded cluster and report the outcome.

    SCENARIO is a scenario file. `day` and `week` are generated: the training, inference, sweeps and
    notebooks of four teams, the same for the same seed. A week begins on a Monday.

    With --compare default, the same work is also simulated with a model of the scheduler of
    Kubernetes; with --compare youngest, with this engine evicting the youngest victims instead of
    those that lose least.

    With --trace, the jobs of a trace are simulated on a cluster of equal nodes, in an order of your
    choice; --compare then names a second one.
    """
    if trace["trace"] is not None:
        others = {"SCENARIO": work, "--record": record, "--seed": seed, "--nodes": nodes}
        others |= {"--hours": hours, "--until": until}
        _play_trace(trace, [name for name, value in others.items() if value], compare, json_)
        return
    if work is None:
        raise click.UsageError("Give a scenario file, day, week, or --trace FILE.")
    trace["durations_known"] = trace["durations_known"] or None  # False if the flag is not given
    given = [name for name, value in trace.items() if value is not None]
    misplaced = [f"--{name.strip('_').replace('_', '-')}" for name in given]
    misplaced += [f"--compare {compare}"] if compare in (*POLICIES, "srsf") else []
    if misplaced:
        raise click.UsageError(
            f"{misplaced[0]} belongs to --trace FILE; leave it out, or add that."
        )
    workload = _cut(_workload(work, seed, nodes, hours), until)
    ours = play(workload, "Windlass", record)
    theirs = play(workload, compare) if compare else None
    click.echo(_json(ours, theirs, compare) if json_ else _text(ours, theirs, compare))


def _play_trace(
    given: dict[str, Any], misplaced: Sequence[str], compare: str | None, json_: bool
) -> None:
    """Simulate a trace and print the outcome; refuse options that do not fit a trace."""
    from windlass.cli.commands.simulate_trace import TraceOptions, replay, text
    from windlass.cli.options import parse_time
    from windlass.cli.output import as_json

    if misplaced or compare in ("default", "youngest"):
        option = misplaced[0] if misplaced else f"--compare {compare}"
        raise click.UsageError(f"{option} does not go with --trace; leave one of them out.")
    if given["cluster"] is None:
        raise click.UsageError("--trace needs --cluster, such as --cluster 8x8.")
    if compare == "srsf" and not given["durations_known"]:
        raise click.UsageError("--compare srsf needs --durations-known: it orders jobs by them.")
    policy, after = given["policy"] or "fair", given["reserve_after"]
    if compare == policy:
        raise click.UsageError(f"--compare {compare} is the order of --policy; name another order.")
    options = TraceOptions(
        trace=given["trace"],
        format_=given["format_"],
        cluster=given["cluster"],
        known=given["durations_known"],
        restart_s=parse_time(given["restart"] or "30s", "--restart"),
        min_run_s=parse_time(given["min_run"] or "30m", "--min-run"),
        reserve_after_s=parse_time(after, "--reserve-after") if after else None,
        by_team=given["teams"],
    )
    jobs, runs = replay(options, [policy, *([compare] if compare else [])])
    if given["report"]:
        from windlass.cli.render.trace_page import write_page

        click.echo(f"{write_page(given['report'], jobs, runs)} is written.", err=True)
    if not json_:
        click.echo(text(runs))
    elif compare:
        click.echo(as_json({run.policy: run.outcome for run in runs}))
    else:
        click.echo(as_json(runs[0].outcome))


def play(workload: Workload, scheduler: str, record: str | None = None) -> Simulation:
    """Simulate a workload to its end, with a progress bar if stderr is a terminal.

    `scheduler` is "default", "youngest", or any other label for the engine as it is.
    """
    from dataclasses import replace

    from windlass.cli.demo_support.recording import recording
    from windlass.engine.cycle import plan
    from windlass.model.settings import Victims
    from windlass.sim.baselines import default
    from windlass.sim.run import Simulation

    if scheduler == "youngest":
        settings = replace(workload.settings, victims=Victims.YOUNGEST)
        workload = replace(workload, settings=settings)
    simulation = Simulation(workload, default if scheduler == "default" else plan)
    with recording(record, simulation):
        if workload.until is None or not sys.stderr.isatty():
            simulation.run()
        else:
            _run_with_bar(simulation, workload.until, scheduler)
    return simulation


def _run_with_bar(simulation: Simulation, until: int, scheduler: str) -> None:
    """Simulate to a time and show the progress on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from windlass.cli.format import clock

    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(scheduler, total=until)
        while (at := simulation.next_at()) is not None and at <= until:
            simulation.step()
            progress.update(bar, completed=at, description=f"{scheduler} {clock(at)}")
        simulation.run(until)


def _workload(work: str, seed: int | None, nodes: int | None, hours: int | None) -> Workload:
    """Return generated work, or that of a scenario file, for which the options are refused."""
    if work in HOURS:
        from windlass.sim.generate import EXAMPLE_SEED, generate

        return generate(EXAMPLE_SEED if seed is None else seed, hours or HOURS[work], nodes or 24)
    given = (("--seed", seed), ("--nodes", nodes), ("--hours", hours))
    misplaced = [option for option, value in given if value is not None]
    if misplaced:
        raise click.UsageError(
            f"{misplaced[0]} belongs to a generated day or week, not to a scenario."
        )
    from windlass.cli.files import read_scenario_file

    return read_scenario_file(work).workload


def _cut(workload: Workload, until: str | None) -> Workload:
    """Return the work up to a time, without the arrivals and node changes after it."""
    if until is None:
        return workload
    from dataclasses import replace

    from windlass.cli.options import parse_time

    end = parse_time(until, "--until")
    return replace(
        workload,
        until=end if workload.until is None else min(end, workload.until),
        arrivals=tuple(arrival for arrival in workload.arrivals if arrival.at <= end),
        node_changes=tuple(change for change in workload.node_changes if change.at <= end),
    )


def _text(ours: Simulation, theirs: Simulation | None, other: str | None) -> str:
    from windlass.cli.render.simulation_report import (
        ASSUMPTIONS,
        eviction_cost,
        full_report,
        verdict,
    )
    from windlass.sim.report import GPU_HOUR, compare, offered_milli_seconds, report

    if theirs is None:
        offered = offered_milli_seconds(ours.workload, ours.cluster.now) / GPU_HOUR
        return full_report(offered, [report(ours, "windlass")])
    comparison = compare(ours, theirs, other or "default")
    text = full_report(comparison.offered_gpu_hours, [comparison.ours, comparison.theirs])
    if other == "youngest":
        return f"{text}\n\n{eviction_cost(comparison)}"
    return f"{text}\n\n{verdict(comparison)}\n\n{ASSUMPTIONS}"


def _json(ours: Simulation, theirs: Simulation | None, other: str | None) -> str:
    from windlass.cli.output import as_json
    from windlass.sim.report import compare, report

    if theirs is None:
        return as_json({"windlass": report(ours, "windlass")})
    name = other or "default"
    comparison = compare(ours, theirs, name)
    result: dict[str, Any] = {
        "windlass": comparison.ours,
        name: comparison.theirs,
        "offered_gpu_hours": comparison.offered_gpu_hours,
        "utilisation_ratio": round(comparison.gain, 3),
        "gang_wait_ratio": round(comparison.gang_wait_ratio, 3),
        "harm_ratio": round(comparison.harm_ratio, 3),
        "gpus_saved": comparison.gpus_saved,
    }
    return as_json(result)
