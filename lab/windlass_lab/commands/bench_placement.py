"""`windlass bench placement`: the part of a cluster's GPUs that a policy fills, on a published
trace."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from windlass_lab.trials.placement import PlacementSample, Trial

NAMES: tuple[str, ...] = ("random", "best-fit", "gpu-packing", "fgd", "windlass")
MOST_SEEDS = 1000
LONGEST_SEED = 18
"""The largest number of digits of a seed."""
HEAD = {
    "allocation_at_100": "at 100 %",
    "allocation_at_130": "at 130 %",
    "fragmentation_at_80": "unusable at 80 %",
    "decision_ms_p50": "ms p50",
    "decision_ms_p99": "ms p99",
}
HOURS = {"gpu_hours_asked": "GPU-hours asked", "gpu_hours": "allocated", "refused": "refused"}


@click.command("placement")
@click.option(
    "--nodes", "node_file", required=True, metavar="FILE", help="Node list of an openb trace."
)
@click.option(
    "--pods", "pod_file", required=True, metavar="FILE", help="Pod list of an openb trace."
)
@click.option(
    "--policy",
    default="windlass",
    show_default=True,
    metavar="NAMES",
    help=f"What to try, separated by commas: {', '.join(NAMES)}; or all.",
)
@click.option(
    "--mix",
    type=click.Choice(["given", "learned"]),
    default="given",
    show_default=True,
    help="Are the frequencies of the trace's requests known, or learned as pods arrive?",
)
@click.option(
    "--seeds", default="42-51", show_default=True, metavar="FIRST-LAST", help="One run for each."
)
@click.option("--departures", is_flag=True, help="Honour the trace's times: pods also leave.")
@click.option(
    "--load",
    type=click.IntRange(1, 1000),
    help="With --departures: as if so many per cent of all GPUs had always been asked for.",
)
@click.option("--plot", metavar="FILE", help="Draw allocated against asked, as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, policy: str, seeds: str, as_json: bool, **_: object) -> None:
    """Place a trace's pods one by one and print how full the cluster gets.

    The protocol of the FGD paper (USENIX ATC'23): docs/reference/bench-placement.md.
    """
    from windlass_lab.trials.packers import OWN

    names, numbers = _names(policy), seeds_of(seeds)
    if ctx.params["load"] is not None and not ctx.params["departures"]:
        raise click.UsageError("--load goes with --departures: without it nobody leaves; add it")
    if ctx.params["plot"] is not None and ctx.params["departures"]:
        raise click.UsageError("--plot draws what is allocated as pods come; leave --departures")
    if ctx.params["departures"]:
        found = {name: _hours(ctx, name, numbers) for name in names}
        head = HOURS
    else:
        found, head = _tried(ctx, names, numbers), HEAD
    if as_json:
        more = {"policies": found} if len(found) > 1 else {}
        top = found.get(OWN) or found[names[0]]
        click.echo(json.dumps({**top, **more}))
        return
    click.echo(_table(found, head))


def _tried(
    ctx: click.Context, names: Sequence[str], seeds: Sequence[int]
) -> dict[str, dict[str, float]]:
    from windlass.cli.output import write_file
    from windlass_lab.trials.placement import figures, try_out

    found: dict[str, dict[str, float]] = {}
    curves: dict[str, list[PlacementSample]] = {}
    for name in names:
        rows: list[dict[str, float]] = []
        for seed in seeds:
            _say(f"{name}, seed {seed}")
            moments = try_out(_trial(ctx, name, seed))
            rows.append(figures(moments))
            curves.setdefault(name, moments)
        found[name] = _means(rows)
    if ctx.params["plot"]:
        from windlass_lab.commands.curves import svg

        lines = {
            name: [(each.asked, each.allocated) for each in some] for name, some in curves.items()
        }
        write_file(ctx.params["plot"], svg(lines, "% of GPUs asked for", "% allocated").encode())
    return found


def _hours(ctx: click.Context, name: str, seeds: Sequence[int]) -> dict[str, float]:
    from windlass.model.errors import InputError
    from windlass_lab.trials.departures import allocated_hours, have_times

    rows: list[dict[str, float]] = []
    for seed in seeds:
        trial = _trial(ctx, name, seed)
        if not have_times(trial.pods):
            sentence = "no pod with GPUs has a creation_time and a later deletion_time"
            raise InputError(ctx.params["pod_file"], None, f"{sentence}; leave out --departures")
        _say(f"{name}, seed {seed}")
        rows.append(allocated_hours(trial, ctx.params["load"]))
    return _means(rows)


def _trial(ctx: click.Context, name: str, seed: int) -> Trial:
    from windlass.model.errors import InputError
    from windlass.sim.traces import read_nodes, read_pods
    from windlass_lab.trials.packers import POLICIES, REDRAWN
    from windlass_lab.trials.placement import Trial

    kept = ctx.meta.setdefault("windlass.placement", {})
    if not kept:
        nodes = read_nodes(ctx.params["node_file"])
        if not any(node.gpus for node in nodes):
            sentence = "no node has a GPU; give a node list with GPUs"
            raise InputError(ctx.params["node_file"], None, sentence)
        kept["nodes"], kept["pods"] = nodes, read_pods(ctx.params["pod_file"])
    given = ctx.params["mix"] == "given"
    return Trial(kept["nodes"], kept["pods"], seed, given, POLICIES[name], name in REDRAWN)


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(sum(row[name] for row in rows) / len(rows), 3) for name in rows[0]}


def _table(found: dict[str, dict[str, float]], head: dict[str, str]) -> str:
    from windlass.cli.output import table

    rows = [[name, *(f"{row[key]:,.2f}" for key in head)] for name, row in found.items()]
    return table(["policy", *head.values()], rows)


def _names(text: str) -> list[str]:
    names = list(NAMES) if text == "all" else [each.strip() for each in text.split(",")]
    for name in names:
        if name not in NAMES:
            raise click.UsageError(f'there is no policy "{name}"; there are {", ".join(NAMES)}')
    return names


def seeds_of(text: str) -> list[int]:
    """Return the seeds that a user named, such as 42-51."""
    first, _, last = text.partition("-")
    if not _is_seed(first) or not _is_seed(last or first) or int(last or first) < int(first):
        raise click.UsageError(f'"{text}" are no seeds; write a number or two, such as 42-51')
    found = range(int(first), int(last or first) + 1)
    if len(found[: MOST_SEEDS + 1]) > MOST_SEEDS:
        raise click.UsageError(f'"{text}" are more than {MOST_SEEDS:,} seeds; name fewer')
    return list(found)


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_SEED


def _say(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{text} ...", err=True)
