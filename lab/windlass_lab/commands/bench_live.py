"""`windlass bench live`: Windlass and kube-scheduler on a real API server, measured on this
machine.

Both get the same pods; binding alone shows what the API server can take. Compare figures within one
run, not across machines.
"""

from __future__ import annotations

import json

import click

SCENARIOS = ("fill", "gang", "gangs", "reclaim", "cannot-fit", "start")


@click.command("live")
@click.option(
    "--nodes",
    type=click.IntRange(4, 5000),
    default=500,
    show_default=True,
    help="Nodes with 8 GPUs each.",
)
@click.option(
    "--pods", type=click.IntRange(1), default=4000, show_default=True, help="Pods of the backlog."
)
@click.option(
    "--only",
    metavar="NAMES",
    default=",".join(SCENARIOS),
    show_default=True,
    help="What to measure, separated by commas.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Measure so often, and tell the median.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(nodes: int, pods: int, only: str, rounds: int, as_json: bool) -> None:
    """Measure Windlass beside kube-scheduler on a control plane of this machine.

    Each measurement starts a fresh control plane, which comes from PATH, else from a cache folder,
    else is built once, with Go.
    """
    import asyncio

    from windlass_lab.live_bench.run_all import BenchSize, run

    names = _names(only)
    figures = asyncio.run(run(BenchSize(nodes, pods), names, rounds, _say))
    if as_json:
        click.echo(json.dumps(figures))
        return
    click.echo(f"{nodes:,} nodes with 8 GPUs each, {pods:,} pods; the median of {rounds}")
    click.echo(_told(figures))


def _names(only: str) -> list[str]:
    names = [name.strip() for name in only.split(",")]
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise click.BadParameter(
            f'"{unknown[0]}" cannot be measured; choose of {", ".join(SCENARIOS)}',
            param_hint="--only",
        )
    return [name for name in SCENARIOS if name in names]


def _say(text: str) -> None:
    click.echo(text, err=True)


def _told(figures: dict[str, float]) -> str:
    from windlass.cli.output import table

    rows = [
        [text, *(_cell(figures.get(name)) for name in names)]
        for text, names in ROWS.items()
        if names[0] in figures
    ]
    lines = [table(["", "Windlass", "kube-scheduler", "binding alone"], rows)]
    for name, text in RATIOS.items():
        if name in figures:
            lines.append(f"{figures[name]:.2f} {text}")
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


ROWS = {
    "pods per second": (
        "windlass_pods_per_s",
        "kube_scheduler_pods_per_s",
        "bind_ceiling_per_s",
    ),
    "  CPU ms per pod, scheduler": (
        "scheduler_cpu_ms_per_pod",
        "kube_scheduler_cpu_ms_per_pod",
        "",
    ),
    "  CPU ms per pod, servers": (
        "server_cpu_ms_per_pod",
        "kube_scheduler_server_cpu_ms_per_pod",
        "bind_ceiling_server_cpu_ms_per_pod",
    ),
    "  CPU ms per pod, everybody": (
        "all_cpu_ms_per_pod",
        "kube_scheduler_all_cpu_ms_per_pod",
        "bind_ceiling_all_cpu_ms_per_pod",
    ),
    "  MiB of the scheduler": ("scheduler_rss_mib", "kube_scheduler_rss_mib", ""),
    "  s to start and read": ("start_s", "kube_scheduler_start_s", ""),
    "one gang of 512, s": ("gang_512_s", "kube_scheduler_gang_512_s", ""),
    "100 gangs of 8, s": ("gangs_100x8_s", "kube_scheduler_gangs_100x8_s", ""),
    "reclaim of 1,000 pods, s": ("reclaim_1000_s", "", ""),
    "cannot fit, ms": ("cannot_fit_ms", "kube_scheduler_cannot_fit_ms", ""),
    "  ms until it was decided": ("cannot_fit_decided_ms", "", ""),
    "  ms until all pods were told": ("cannot_fit_all_told_ms", "", ""),
    "first bind after start, s": ("first_bind_s", "", ""),
    "  s until all was read": ("read_s", "", ""),
    "  CPU s until the bind": ("first_bind_cpu_s", "", ""),
}
"""The rows: Windlass, kube-scheduler, and binding alone."""
RATIOS = {
    "ratio_to_kube_scheduler": "times as many pods per second as kube-scheduler (must: above 1)",
    "ratio_to_bind_ceiling": "of what binding alone reaches (must: 0.6)",
    "cpu_ratio_to_kube_scheduler": "times as many, counted by processor time",
    "cpu_ratio_to_bind_ceiling": "of binding alone, counted by processor time",
}
