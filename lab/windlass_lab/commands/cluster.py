"""`windlass cluster`: a real control plane on this machine, until Ctrl-C; `make cluster` starts it.

The kubeconfig goes where other programs find it, by default into `.cluster` of the current
folder, and goes away with the cluster, since nothing would answer it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from windlass_lab.control_plane.binaries import ProgramBinary
    from windlass_lab.control_plane.plane import Plane


@click.command("cluster")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(".cluster/kubeconfig"),
    show_default=True,
    help="Where to write the access to it.",
)
@click.option("--nodes", type=click.IntRange(0, 5000), default=0, help="Play so many nodes.")
@click.option("--gpus", type=click.IntRange(0, 64), default=8, show_default=True, help="Per node.")
@click.option("--model", default="H100-80GB", show_default=True, help="Of the GPUs.")
@click.option("--scheduler", is_flag=True, help="Run kube-scheduler as well.")
@click.option("--port", type=click.IntRange(1024, 65535), help="Of the API server.")
@click.option("--build", is_flag=True, help="Build the parts that are missing and stop.")
@click.option("--version", is_flag=True, help="Print the versions of the parts and stop.")
def command(
    *,
    kubeconfig: Path,
    nodes: int,
    gpus: int,
    model: str,
    scheduler: bool,
    port: int | None,
    build: bool,
    version: bool,
) -> None:
    """Run a real Kubernetes control plane on this machine until Ctrl-C.

    etcd, kube-apiserver and kube-controller-manager come from PATH, else from a cache folder, else
    they are built once, with Go, which takes minutes. Nodes, if any, are played.
    """
    if version:
        _print_versions()
        return
    from windlass_lab.control_plane.binaries import TESTED, find
    from windlass_lab.control_plane.plane import Options, Plane

    if build:
        find(TESTED)
        return
    kubectl = find()["kubectl"]
    click.echo("Starting a control plane ...", err=True)
    options = Options(scheduler=scheduler, port=port)
    kubeconfig = unused(kubeconfig)
    with _interruptible(), Plane(options) as plane, _handed_out(plane.kubeconfig, kubeconfig):
        _print_use(plane, kubeconfig, kubectl)
        if nodes:
            asyncio.run(_play_nodes(plane, nodes, gpus, model))
        else:
            signal.pause()


def _print_versions() -> None:
    from windlass_lab.control_plane.binaries import NAMES, look_for
    from windlass_lab.control_plane.versions import ETCD_VERSION, KUBERNETES_VERSION

    there = look_for()
    for name in NAMES:
        pinned = ETCD_VERSION if name == "etcd" else KUBERNETES_VERSION
        part = there.get(name)
        where = f"v{part.version_text}  {part.path}" if part else f"{pinned}  not built yet"
        click.echo(f"{name:<24} {where}")


@contextmanager
def _interruptible() -> Generator[None]:
    """Treat Ctrl-C and SIGTERM as the regular end of a cluster.

    Also where Ctrl-C was ignored, as shells do for background processes.
    """
    ends = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, signal.default_int_handler) for each in ends]
    try:
        yield
    except KeyboardInterrupt:
        click.echo("The cluster has been stopped.", err=True)
    finally:
        for each, handler in zip(ends, before, strict=True):
            signal.signal(each, handler)


def unused(wanted: Path) -> Path:
    """Return the file, or another one if that belongs to a cluster which still answers."""
    found, number = wanted, 1
    while found.is_file() and _answers(found.read_text(errors="replace")):
        number += 1
        found = wanted.with_name(f"{wanted.name}-{number}")
    if found != wanted:
        click.echo(f"{wanted} is of a cluster that runs, so this one is in {found}.", err=True)
    return found


def _answers(kubeconfig: str) -> bool:
    found = re.search(r"server: https://([^:/\s]+):([0-9]{1,5})\s", kubeconfig)
    if found is None:
        return False
    try:
        socket.create_connection((found[1], int(found[2])), timeout=1).close()
    except (OSError, OverflowError):
        return False
    return True


@contextmanager
def _handed_out(original: Path, copy: Path) -> Generator[None]:
    from windlass.cli.output import write_file

    data = original.read_bytes()
    copy.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)  # it is as good as a password
    try:
        write_file(str(copy), data)
    finally:
        os.umask(before)
    try:
        yield
    finally:
        if copy.exists() and copy.read_bytes() == data:  # else it is of a later cluster
            copy.unlink()


def _print_use(plane: Plane, kubeconfig: Path, kubectl: ProgramBinary) -> None:
    versions = {name: part.version_text for name, part in plane.parts.items()}
    click.echo(
        f"Kubernetes {versions['kube-apiserver']} with etcd {versions['etcd']} answers at "
        f"{plane.server}; Ctrl-C ends it."
    )
    click.echo(f"  export KUBECONFIG={shlex.quote(str(kubeconfig.resolve()))}")
    click.echo(f"  {shlex.quote(str(kubectl.path))} get namespaces")


async def _play_nodes(plane: Plane, count: int, gpus: int, model: str) -> None:
    from windlass_lab.fake_kubelet import play, uniform

    click.echo(f"Playing {count} nodes with {gpus} × {model} each.", err=True)
    await play(plane.api_access(), uniform(count, gpus=gpus, model=model))
