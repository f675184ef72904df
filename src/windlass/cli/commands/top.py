"""`windlass top`: a cluster as it works, in the terminal.

    figures                       the time, what is in use, who leads
    map            queues         a cell per GPU; the tree with a bar per queue
    waiting gangs                 position, need, how long, and why

It only reads. What the map shows as held is what the scheduler would hold now.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from windlass.cli.options import reaching, settings

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text

    from windlass.cli.live_view.view import TerminalSize
    from windlass.config import Config
    from windlass.daemon.loop.read_cluster import Sight


@click.command("top")
@click.option("--once", is_flag=True, help="Show one frame and stop.")
@click.option(
    "--every",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often it is drawn anew.",
)
@reaching
def command(once: bool, every: float, **reach: str | None) -> None:
    """Show GPUs, queues and waiting gangs of a cluster, until Ctrl-C.

    It needs only the right to read.
    """
    from rich.console import Console

    config, console = settings(**reach), Console(highlight=False)
    if once or not console.is_terminal:
        _show_once(config, console)
    else:
        _show_live(config, console, every)


def _show_once(config: Config, console: Console) -> None:
    from windlass.cli.live_view.view import TerminalSize
    from windlass.daemon.loop.read_cluster import look

    size = TerminalSize(console.width, max(24, console.height))
    console.print(frame(asyncio.run(look(config)), size))


def _show_live(config: Config, console: Console, every_s: float) -> None:
    from rich.live import Live

    from windlass.cli.live_view.view import TerminalSize
    from windlass.daemon.loop.read_cluster import follow

    # Ctrl-C is its proper end
    with (
        suppress(KeyboardInterrupt),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):

        def show(sight: Sight) -> None:
            live.update(frame(sight, TerminalSize(console.width, console.height)), refresh=True)

        asyncio.run(follow(config, every_s, show))


def frame(sight: Sight, size: TerminalSize) -> Group:
    """One frame that fits."""
    from rich.console import Group

    from windlass.cli.live_view.view import draw_upper, draw_waiting, fitted

    upper = [*_header(sight, size.width), *draw_upper(sight, size)]
    waiting = draw_waiting(sight, size.width, max(4, size.height - len(upper)))
    lines = [*upper, *waiting][: size.height]
    return Group(*(fitted(line, size.width) for line in lines))


def _header(sight: Sight, width: int) -> list[Text]:
    from rich.text import Text

    from windlass.cli.format import gpus
    from windlass.cli.live_view.palette import BAD, FAINT, INK, QUIET

    nodes = sight.cluster.nodes.values()
    columns = sight.cluster.columns
    capacity = columns.all_gpu()
    used = capacity - columns.free_gpu()
    at = datetime.fromtimestamp(sight.now, UTC)
    parts = [
        (f"{len(nodes):,}", "nodes"),
        (gpus(capacity), "GPUs"),
        (f"{100 * used // capacity if capacity else 0} %", "in use"),
    ]
    line = Text().append("Windlass", f"bold {INK}").append(f"  {at:%H:%M:%S} UTC", INK)
    for value, word in parts:
        line.append(f"  {value}", f"bold {INK}").append(f" {word}", QUIET)
    for warning in _warnings(sight):
        line.append(f"  {warning}", BAD)
    return [line, Text("─" * width, FAINT)]


def _warnings(sight: Sight) -> list[str]:
    found = {
        "nobody leads": sight.leader == "",
        "evictions are paused": sight.paused,
        sight.trouble: bool(sight.trouble),
    }
    return [words for words, holds in found.items() if holds]
