"""`windlass snapshot`: a cluster as it is now, as a file that other commands read."""

from __future__ import annotations

import asyncio

import click

from windlass.cli.options import reaching, settings


@click.command("snapshot")
@click.option("--out", metavar="FILE", help="Write this file instead.")
@reaching
def command(out: str | None, **reach: str | None) -> None:
    """Print a cluster as it is now, for bug reports and for questions.

    \b
    windlass snapshot | windlass plan -
    windlass snapshot --out now.json && windlass plan now.json --with change.yaml
    """
    from windlass.cli.output import write_file
    from windlass.daemon.loop.read_cluster import look
    from windlass.state.snapshot import to_json

    data = to_json(asyncio.run(look(settings(**reach))).cluster.snapshot())
    if out is None:
        click.echo(data)
    else:
        write_file(out, data)
