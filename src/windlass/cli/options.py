"""The options of all commands that look at a cluster, and what they stand for.

They are those of kubectl. `--config` names the file that `windlass run` was given, so that the
command knows which pods and nodes the scheduler answers for; its variables are read as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from windlass.config import Config

Command = Callable[..., Any]

_KUBECONFIG = click.option("--kubeconfig", metavar="FILE", help="The kubeconfig file.")
_CONTEXT = click.option("--context", metavar="NAME", help="The context of the kubeconfig.")
_CONFIG = click.option(
    "--config", "file", metavar="FILE", help="The scheduler's settings, as `windlass run` has them."
)
_NAMESPACE = click.option(
    "-n", "--namespace", metavar="NAME", help="The namespace; else that of the context."
)


def reaching(command: Command) -> Command:
    """Add the options that lead to a cluster."""
    for option in (_CONFIG, _CONTEXT, _KUBECONFIG):
        command = option(command)
    return command


def in_namespace(command: Command) -> Command:
    """Add the option that names a namespace."""
    return _NAMESPACE(command)


def settings(kubeconfig: str | None, context: str | None, file: str | None) -> Config:
    """The configuration that these options, the environment and the file make."""
    import os

    from windlass.config import read_config

    return read_config(file, os.environ, {"kubeconfig": kubeconfig, "context": context})


def namespace_or_own(config: Config, namespace: str | None) -> str:
    """The namespace that was named, or that of the context."""
    if namespace:
        return namespace
    from windlass.kube.client.auth import namespace as own

    return own(config.kubeconfig or None, config.context or None)
