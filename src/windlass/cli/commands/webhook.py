"""`windlass webhook`: sets schedulerName and queue of new pods, and notes who made them."""

from __future__ import annotations

import click

from windlass.cli.options import reaching, settings


@click.command("webhook")
@click.option("--name", default="windlass", show_default=True, help="Of its configuration.")
@click.option(
    "--secret",
    metavar="NAMESPACE/NAME",
    default="windlass-system/windlass-webhook",
    show_default=True,
    help="Where it keeps its certificates; the Secret must be there.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("windlass-webhook.windlass-system.svc",),
    show_default=True,
    help="A name or address under which the API server reaches it.",
)
@click.option("--address", default="0.0.0.0", show_default=True, help="Where it listens.")
@click.option("--port", type=int, default=8443, show_default=True, help="Where it listens.")
@click.option("--controllers", default="", help="Users who make pods for others, by commas.")
@click.option(
    "--drain-s", type=float, default=5.0, show_default=True, help="Go on so long when told to stop."
)
@click.option(
    "--look-again-s",
    type=float,
    default=60.0,
    show_default=True,
    help="Look after certificates so often.",
)
@reaching
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
    **reach: str | None,
) -> None:
    """Answer the API server about new pods of managed namespaces, until stopped.

    The chart runs it; by hand it is of use only where the API server can reach it.
    """
    import asyncio

    from windlass.daemon.serving.webhook import WebhookAddress, run

    place = WebhookAddress(name, secret, hosts, address, port, drain_s, look_again_s)
    known = tuple(each.strip() for each in controllers.split(",") if each.strip())
    asyncio.run(run(settings(**reach), place, known))
