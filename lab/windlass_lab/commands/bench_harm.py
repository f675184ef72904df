"""`windlass bench harm`: the cost of displacement by the choice of victims, on generated weeks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from windlass_lab.commands.bench_placement import seeds_of

if TYPE_CHECKING:
    from windlass_lab.trials.restart_cost import Harm


@click.command("harm")
@click.option(
    "--seeds", default="401-403", show_default=True, metavar="FIRST-LAST", help="The weeks to play."
)
@click.option(
    "--hours",
    type=click.IntRange(1, 24 * 31),
    default=7 * 24,
    show_default=True,
    help="How long each is.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 5000),
    default=24,
    show_default=True,
    help="Nodes of eight GPUs.",
)
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def command(seeds: str, hours: int, nodes: int, json_: bool) -> None:
    """Play generated weeks and print the cost of making room, side by side.

    Windlass chooses the victims with the lowest restart cost and requests checkpoints; the others
    choose the youngest, or by priority alone, and delete at once. docs/reference/bench.md describes
    the week.
    """
    from windlass.cli.output import as_json
    from windlass.model.settings import Victims
    from windlass_lab.trials.restart_cost import total, try_out

    found: dict[str, Harm] = {}
    for victims in Victims:
        some: list[Harm] = []
        for seed in seeds_of(seeds):
            if sys.stderr.isatty():
                click.echo(f"{victims.value}, seed {seed} ...", err=True)
            some.append(try_out(seed, hours, nodes, victims))
        found[victims.value] = total(some)
    click.echo(as_json(_numbers(found)) if json_ else f"{_table(found)}\n\n{_assumed()}")


def _numbers(found: dict[str, Harm]) -> dict[str, object]:
    return {
        name: {
            "gpu_hours_lost": each.gpu_hours_lost,
            "ratio": _ratio(found, name),
            "gangs_stopped": each.gangs_stopped,
            "gpu_hours_useful": each.gpu_hours_useful,
            "urgent_wait_seconds": each.urgent,
            "guaranteed_wait_seconds": each.guaranteed,
        }
        for name, each in found.items()
    }


def _ratio(found: dict[str, Harm], name: str) -> float:
    """Return the loss with the lowest restart cost, divided by that of this choice."""
    ours, theirs = found["least-harm"].gpu_hours_lost, found[name].gpu_hours_lost
    return round(ours / theirs, 3) if theirs else 0.0


def _table(found: dict[str, Harm]) -> str:
    from windlass.cli.format import duration, rounded
    from windlass.cli.output import table

    head = ["displaced are", "GPU-hours lost", "least harm loses", "gangs stopped"]
    head += ["urgent p50 / p99", "services p50 / p99", "GPU-hours useful"]
    rows: list[list[str]] = []
    for name, each in found.items():
        waits = [f"{duration(w.p50)} / {duration(w.p99)}" for w in (each.urgent, each.guaranteed)]
        lost = [rounded(each.gpu_hours_lost), f"{_ratio(found, name):.2f} of it"]
        rows.append([name, *lost, str(each.gangs_stopped), *waits, rounded(each.gpu_hours_useful)])
    return table(head, rows)


def _assumed() -> str:
    from windlass.sim.generate import SAVES_WITHIN_S
    from windlass_lab.trials.restart_cost import MIX

    return (
        f"Of the training gangs {MIX.saving_percent} % save every 5 to 30 minutes, and "
        f"{MIX.asked_percent} % save when asked, within {SAVES_WITHIN_S} s; {MIX.urgent_percent} % "
        "of those with at most 8 GPUs are urgent. Services, sweeps and notebooks save nothing."
    )
