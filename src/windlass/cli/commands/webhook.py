"""`windlass webhook`: sets schedulerName and queue of new pods, and notes who created them."""

from __future__ import annotations

import click

from windlass.cli.options import cluster_options, load_config


@click.command("webhook")
@click.option(
    "--name", default="windlass", show_default=True, help="The name of its webhook configuration."
)
@click.option(
    "--secret",
    metavar="NAMESPACE/NAME",
    default="windlass-system/windlass-webhook",
    show_default=True,
    help="The Secret for its certificates; it must exist.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("windlass-webhook.windlass-system.svc",),
    show_default=True,
    help="A name or address at which the API server reaches it; may be repeated.",
)
@click.option("--address", default="0.0.0.0", show_default=True, help="The address to listen on.")
@click.option("--port", type=int, default=8443, show_default=True, help="The port to listen on.")
@click.option(
    "--controllers", default="", help="Users that create pods for others, with commas in between."
)
@click.option(
    "--drain-s",
    type=float,
    default=5.0,
    show_default=True,
    help="The seconds to go on answering after a signal to stop.",
)
@click.option(
    "--look-again-s",
    type=float,
    default=60.0,
    show_default=True,
    help="The seconds between checks of the certificates.",
)
@cluster_options
def command(
    *,
    name: str,
    secret: str,
    hosts: tuple[str, ...],
    address: str,
    port: int,
    controllers: str,
    drain_s: float,
    look_again_s: float,
    **cluster: str | None,
) -> None:
    """Answer the API server about new pods of managed namespaces, until it is stopped.

    The chart runs it. Started by hand, it is useful only where the API server can reach it.
    """
    import asyncio

    from windlass.daemon.serving import WebhookAddress, run

    place = WebhookAddress(name, secret, hosts, address, port, drain_s, look_again_s)
    users = tuple(user.strip() for user in controllers.split(",") if user.strip())
    asyncio.run(run(load_config(**cluster), place, users))
