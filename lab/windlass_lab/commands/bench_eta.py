"""`windlass bench eta`: the accuracy of ETAs on simulated days."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from windlass_lab.trials.eta import EtaAccuracy

BARS = {"error": 0.3, "coverage": 0.7}
"""The bars: the first below the limit, the second at least at it."""


@click.command("eta")
@click.option("--seed", default=1, show_default=True, help="Of the first day.")
@click.option(
    "--days", type=click.IntRange(1), default=1, show_default=True, help="How many, one seed each."
)
@click.option(
    "--nodes", type=click.IntRange(4, 500), default=12, show_default=True, help="Of the cluster."
)
@click.option(
    "--sigma",
    type=click.FloatRange(0, 3),
    default=0.7,
    show_default=True,
    help="How wrong users are about how long their jobs run.",
)
@click.option(
    "--runs",
    type=click.IntRange(5, 100),
    default=12,
    show_default=True,
    help="How many futures are played for one answer.",
)
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def command(*, seed: int, days: int, nodes: int, sigma: float, runs: int, json_: bool) -> None:
    """Play days, forecast the start of waiting jobs on the way, and compare with the real starts.

    Users' estimates are wrong by a log-normal factor of this sigma; some users give none. Only
    waits over five minutes count.
    """
    from windlass_lab.trials.eta import Day, EtaComparison, ask_day, figures

    judged: list[EtaComparison] = []
    for number in range(days):
        judged += ask_day(Day(seed + number, nodes, sigma=sigma, runs=runs))
    if not judged:
        raise click.ClickException("nobody waited for more than five minutes when asked about")
    found = figures(judged)
    click.echo(json.dumps(asdict(found)) if json_ else _told(found))


def _told(found: EtaAccuracy) -> str:
    from windlass.cli.output import table

    rows = [
        ("answers about waits over five minutes", f"{found.answers:,}", ""),
        ("of them later than the forecast reaches", f"{found.silent:,}", ""),
        ("median error, of the whole wait", _percent(found.error), f"< {_percent(BARS['error'])}"),
        ("median error, of what was left of it", _percent(found.error_left), ""),
        ("inside the 80 % band", _percent(found.coverage), f">= {_percent(BARS['coverage'])}"),
    ]
    return table(["", "found", "bar"], rows)


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
