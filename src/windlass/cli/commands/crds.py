"""`windlass crds`: the CustomResourceDefinitions, ready for kubectl."""

from __future__ import annotations

import click


@click.command("crds")
@click.option("--out", metavar="FOLDER", help="Write one file per kind into this folder instead.")
def command(out: str | None) -> None:
    """Print the CustomResourceDefinitions of Queue, Topology, Policy and Gang.

    windlass crds | kubectl apply --server-side -f -
    """
    from windlass.crds.manifest import manifests

    made = manifests()
    if out is None:
        click.echo("---\n".join(made[name] for name in sorted(made)), nl=False)
        return
    from pathlib import Path

    from windlass.cli.output import write_file

    for name, text in sorted(made.items()):
        write_file(str(Path(out) / name), text.encode())
        click.echo(f"Wrote {Path(out) / name}.")
