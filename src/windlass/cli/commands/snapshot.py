"""`windlass snapshot`: the present state of a cluster as a file that other commands read."""

from __future__ import annotations

import asyncio

import click

from windlass.cli.options import cluster_options, load_config


@click.command("snapshot")
@click.option("--out", metavar="FILE", help="Write this file instead of stdout.")
@cluster_options
def command(out: str | None, **cluster: str | None) -> None:
    """Print the present state of a cluster as JSON, for bug reports and for `windlass plan`.

    \b
    windlass snapshot | windlass plan -
    windlass snapshot --out now.json && windlass plan now.json --with change.yaml
    """
    from windlass.cli.output import write_file
    from windlass.daemon.loop import read_cluster
    from windlass.state.snapshot import to_json

    data = to_json(asyncio.run(read_cluster(load_config(**cluster))).cluster.snapshot())
    if out is None:
        click.echo(data)
    else:
        write_file(out, data)
