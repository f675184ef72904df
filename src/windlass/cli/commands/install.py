"""`windlass install` and `windlass uninstall`, with Helm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from windlass import __version__
from windlass.cli.options import load_config

if TYPE_CHECKING:
    from windlass.install.helm_program import HelmProgram
    from windlass.kube.client import Api

Command = Callable[..., Any]


_OPTIONS = (
    click.option(
        "--name", default="windlass", show_default=True, help="The name of the installation."
    ),
    click.option(
        *("-n", "--namespace"),
        default="windlass-system",
        show_default=True,
        help="The namespace of its objects.",
    ),
    click.option("--kubeconfig", metavar="FILE", help="The kubeconfig file."),
    click.option("--context", metavar="NAME", help="The context of the kubeconfig."),
)


def _release(command: Command) -> Command:
    """Add the options that name the installation and the cluster."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("install")
@click.option("--print", "shows", is_flag=True, help="Print the objects as YAML.")
@click.option("--apply", "applies", is_flag=True, help="Install or upgrade.")
@click.option("--chart", metavar="FOLDER", help="Write the Helm chart into this folder instead.")
@click.option(
    "--values", "files", metavar="FILE", multiple=True, help="A file of values; may be repeated."
)
@click.option(
    "--set", "pairs", metavar="KEY=VALUE", multiple=True, help="One value; may be repeated."
)
@_release
def install(
    *,
    shows: bool,
    applies: bool,
    chart: str | None,
    files: tuple[str, ...],
    pairs: tuple[str, ...],
    name: str,
    namespace: str,
    **cluster: str | None,
) -> None:
    """Install Windlass on a cluster, or upgrade it, with Helm.

    \b
    windlass install --print --set image.repository=example.com/windlass
    windlass install --apply --values values.yaml
    """
    if sum([shows, applies, chart is not None]) != 1:
        raise click.UsageError("Give one of --print, --apply and --chart.")
    if chart is not None:
        _write_chart(chart)
        return
    from windlass.install.chart import Release, as_text
    from windlass.install.values import overrides

    values, release = overrides(files, pairs), Release(name, namespace)
    helm = _helm(cluster)
    if shows:
        import asyncio

        objects = asyncio.run(helm.render(values, release))
        click.echo(as_text(objects, release), nl=False)
        return
    from windlass.install.apply import install as install_release

    _on_cluster(helm, lambda api: install_release(api, helm, values, release, click.echo))
    click.echo(f'Windlass {__version__} is installed as "{name}" in namespace {namespace}. Next:')
    click.echo("  kubectl label namespace NAME windlass.dev/managed=true")


@click.command("uninstall")
@click.option("--keep-queues", is_flag=True, help="Keep queues and their definitions.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_release
def uninstall(
    *, keep_queues: bool, yes: bool, name: str, namespace: str, **cluster: str | None
) -> None:
    """Remove Windlass from a cluster; running pods stay."""
    from windlass.install.apply import uninstall as uninstall_release
    from windlass.install.chart import Release

    release, helm = Release(name, namespace), _helm(cluster)
    if not yes:
        lost = "" if keep_queues else " All queues, topologies, policies and gangs are deleted."
        click.confirm(f'Uninstall "{name}" from namespace {namespace}?{lost}', abort=True)

    async def work(api: Api) -> None:
        await uninstall_release(api, helm, release, click.echo, keep_queues=keep_queues)

    _on_cluster(helm, work)


def _helm(cluster: dict[str, str | None]) -> HelmProgram:
    """Return the Helm program for the cluster that the options name."""
    from windlass.install.helm_program import find_helm

    config = load_config(cluster["kubeconfig"], cluster["context"], None)
    return find_helm(config.kubeconfig, config.context)


def _on_cluster(helm: HelmProgram, work: Callable[[Api], Awaitable[None]]) -> None:
    """Do the work with a client of the cluster on which Helm works; say what failed in it."""
    import asyncio

    from windlass.install.apply import NotDone
    from windlass.install.helm_program import HelmRefusal
    from windlass.kube.client import ApiError, connect, load

    access = load(helm.kubeconfig or None, helm.context or None)

    async def run() -> None:
        async with connect(access, timeout_s=30) as api:
            await work(api)

    again = "mend that and give the same command again."
    try:
        asyncio.run(run())
    except ApiError as error:
        raise NotDone(f"{access.server}: {error.message}; {again}") from None
    except HelmRefusal as refusal:
        raise NotDone(f"{access.server}: {refusal}; {again}") from None


def _write_chart(folder: str) -> None:
    """Write the files of the chart into a folder, which is created if it is missing."""
    from pathlib import Path

    from windlass.cli.output import write_file
    from windlass.install.chart import chart_files
    from windlass.model.errors import InputError

    for path, text in sorted(chart_files().items()):
        target = Path(folder) / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"the chart cannot be written there ({error.strerror}); name another folder"
            raise InputError(folder, None, why) from None
        write_file(str(target), text.encode())
    click.echo(f"Wrote the chart into {folder}.")
