"""`windlass dashboard`: how to reach the dashboard of a cluster, and a token to sign in with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options import reaching, settings

if TYPE_CHECKING:
    from windlass.config import Config


@click.command("dashboard")
@click.option("--token", "wants_token", is_flag=True, help="Print the token of the kubeconfig.")
@reaching
def command(wants_token: bool, **reach: str | None) -> None:
    """Tell how to reach the dashboard of a cluster.

    \b
    windlass dashboard              # what to type
    windlass dashboard --token      # the token with which kubectl comes in, to sign in with
    """
    import asyncio

    config = settings(**reach)
    click.echo(asyncio.run(_token(config) if wants_token else _way(config)))


async def _way(config: Config) -> str:
    import time

    from windlass.daemon.loop.main import replica_of
    from windlass.daemon.loop.read_cluster import CannotLook, opened
    from windlass.daemon.serving.leader_info import DASHBOARD, leader_of, read_lease

    async with opened(config) as api:
        lease = await read_lease(api, config)
    leader = leader_of(lease, int(time.time()))
    if lease is None or leader is None:
        raise CannotLook(
            f"the Lease {config.lease.name} may not be read, so it is not known who leads; "
            "ask for that right, or for the address under which the dashboard is published"
        )
    if not leader:
        raise CannotLook("nobody leads here; `windlass run` or `windlass install` starts it")
    where = (lease.metadata.annotations or {}).get(DASHBOARD, "")
    if not where:
        raise CannotLook(f"{replica_of(leader)} leads, and serves no dashboard; see dashboard.port")
    return way(replica_of(leader), where, lease.metadata.namespace)


def way(leader: str, where: str, namespace: str) -> str:
    """What to type to reach the dashboard that a leader serves there."""
    if where.startswith("127."):  # `windlass run` on a host of its own, not in a pod
        return (
            f"{leader} leads, and serves the dashboard on its own host: http://{where}/\n\n"
            "Sign in with a token: kubectl create token NAME"
        )
    port = where.rpartition(":")[2]
    pod = f"-n {namespace} port-forward pod/{leader} {port}"
    return (
        f"{leader} leads, and serves the dashboard at {where}. "
        "From outside the cluster:\n\n"
        f"  kubectl {pod}\n"
        "  windlass dashboard --token       # or: kubectl create token NAME\n\n"
        f"Then open http://127.0.0.1:{port}/ and sign in with the token."
    )


async def _token(config: Config) -> str:
    from windlass.kube.client.auth import load
    from windlass.kube.client.errors import NoAccess

    access = load(config.kubeconfig or None, config.context or None)
    scheme, _, token = (await access.headers()).get("Authorization", "").partition(" ")
    if scheme != "Bearer" or not token:
        raise NoAccess(
            "The kubeconfig comes in without a token, such as by a certificate. "
            "Make one for an account: kubectl create token NAME"
        )
    return token
