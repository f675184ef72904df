"""`windlass dashboard`: the way to the dashboard of a cluster, and a token to sign in with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.options import cluster_options, load_config

if TYPE_CHECKING:
    from windlass.config import Config


@click.command("dashboard")
@click.option("--token", "wants_token", is_flag=True, help="Print the token of the kubeconfig.")
@cluster_options
def command(wants_token: bool, **cluster: str | None) -> None:
    """Print how to reach the dashboard of a cluster.

    \b
    windlass dashboard              # the commands to type
    windlass dashboard --token      # the token of kubectl, to sign in with
    """
    import asyncio

    config = load_config(**cluster)
    click.echo(asyncio.run(_token(config) if wants_token else _instructions(config)))


async def _instructions(config: Config) -> str:
    """Find the leader of a cluster, and return how to reach its dashboard."""
    import time

    from windlass.daemon.loop import ClusterUnreadable, open_api, replica_of
    from windlass.daemon.serving import DASHBOARD, leader_of, read_lease

    async with open_api(config) as api:
        lease = await read_lease(api, config)
    leader = leader_of(lease, int(time.time()))
    if lease is None or leader is None:
        raise ClusterUnreadable(
            f"The Lease {config.lease.name} may not be read, so the leader is not known; ask for "
            "that right, or for the address at which the dashboard is published."
        )
    if not leader:
        raise ClusterUnreadable(
            "No replica leads; `windlass run` or `windlass install` starts one."
        )
    address = (lease.metadata.annotations or {}).get(DASHBOARD, "")
    if not address:
        name = replica_of(leader)
        raise ClusterUnreadable(
            f"{name} leads, and serves no dashboard; see the setting dashboard.port."
        )
    return dashboard_instructions(replica_of(leader), address, lease.metadata.namespace)


def dashboard_instructions(leader: str, address: str, namespace: str) -> str:
    """Return the commands that lead to the dashboard which a leader serves at an address."""
    if address.startswith("127."):  # `windlass run` on a host, not in a pod
        return (
            f"{leader} leads, and serves the dashboard on its own host: http://{address}/\n\n"
            "Sign in with a token: kubectl create token NAME"
        )
    port = address.rpartition(":")[2]
    pod = f"-n {namespace} port-forward pod/{leader} {port}"
    return (
        f"{leader} leads, and serves the dashboard at {address}. "
        "From outside the cluster:\n\n"
        f"  kubectl {pod}\n"
        "  windlass dashboard --token       # or: kubectl create token NAME\n\n"
        f"Then open http://127.0.0.1:{port}/ and sign in with the token."
    )


async def _token(config: Config) -> str:
    """Return the bearer token of the kubeconfig."""
    from windlass.kube.client import NoAccess, load

    access = load(config.kubeconfig or None, config.context or None)
    scheme, _, token = (await access.headers()).get("Authorization", "").partition(" ")
    if scheme != "Bearer" or not token:
        raise NoAccess(
            "The kubeconfig has no token; it uses another way to sign in, such as a certificate. "
            "Create one for a service account: kubectl create token NAME"
        )
    return token
