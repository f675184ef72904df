"""`windlass top`: a live cluster in the terminal.

    header                        the time, GPUs in use, warnings
    map            queues         a cell per GPU; the tree with a bar per queue
    waiting gangs                 position, request, waiting time and reason

It only reads. GPUs are drawn as held if the engine would hold them now.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli.options import cluster_options, load_config

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text

    from windlass.cli.live_view.view import TerminalSize
    from windlass.config import Config
    from windlass.daemon.loop import ClusterReading


@click.command("top")
@click.option("--once", is_flag=True, help="Show one frame and stop.")
@click.option(
    "--every",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="The seconds between two frames.",
)
@cluster_options
def command(once: bool, every: float, **cluster: str | None) -> None:
    """Show GPUs, queues and waiting gangs of a cluster, until Ctrl-C.

    It only needs rights to read.
    """
    from rich.console import Console

    config, console = load_config(**cluster), Console(highlight=False)
    if once or not console.is_terminal:
        _show_once(config, console)
    else:
        _show_live(config, console, every)


def _show_once(config: Config, console: Console) -> None:
    from windlass.cli.live_view.view import TerminalSize
    from windlass.daemon.loop import read_cluster

    size = TerminalSize(console.width, max(24, console.height))
    console.print(frame(asyncio.run(read_cluster(config)), size))


def _show_live(config: Config, console: Console, every_s: float) -> None:
    from rich.live import Live

    from windlass.cli.live_view.view import TerminalSize
    from windlass.daemon.loop import follow_cluster

    # Ctrl-C is the normal end.
    with (
        suppress(KeyboardInterrupt),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):

        def show(sight: ClusterReading) -> None:
            live.update(frame(sight, TerminalSize(console.width, console.height)), refresh=True)

        asyncio.run(follow_cluster(config, every_s, show))


def frame(sight: ClusterReading, size: TerminalSize) -> Group:
    """Return one frame that fits the terminal."""
    from rich.console import Group

    from windlass.cli.live_view.view import draw_upper, draw_waiting, fitted

    upper = [*_header(sight, size.width), *draw_upper(sight, size)]
    waiting = draw_waiting(sight, size.width, max(4, size.height - len(upper)))
    lines = [*upper, *waiting][: size.height]
    return Group(*(fitted(line, size.width) for line in lines))


def _header(sight: ClusterReading, width: int) -> list[Text]:
    from rich.text import Text

    from windlass.cli.format import gpus
    from windlass.cli.live_view.palette import BAD, FAINT, INK, QUIET

    nodes = sight.cluster.nodes.values()
    columns = sight.cluster.columns
    capacity = columns.all_gpu()
    used = capacity - columns.free_gpu()
    now = datetime.fromtimestamp(sight.now, UTC)
    parts = [
        (f"{len(nodes):,}", "node" if len(nodes) == 1 else "nodes"),
        (gpus(capacity), "GPUs"),
        (f"{100 * used // capacity if capacity else 0} %", "in use"),
    ]
    line = Text().append("Windlass", f"bold {INK}").append(f"  {now:%H:%M:%S} UTC", INK)
    for value, label in parts:
        line.append(f"  {value}", f"bold {INK}").append(f" {label}", QUIET)
    for warning in _warnings(sight):
        line.append(f"  {warning}", BAD)
    return [line, Text("─" * width, FAINT)]


def _warnings(sight: ClusterReading) -> list[str]:
    """Return what an administrator should know, in a few words each."""
    warnings = {
        "no leader": sight.leader == "",
        "evictions are paused": sight.paused,
        sight.trouble: bool(sight.trouble),
    }
    return [text for text, is_true in warnings.items() if is_true]
