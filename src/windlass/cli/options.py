"""The options that several commands share, and the values that they stand for.

The options that name a cluster are those of kubectl. `--config` names the file that `windlass run`
was given, so that the command knows which pods and nodes the scheduler is responsible for; the
`WINDLASS_` variables of the environment are read as well.

Times are written like 20m. A time of a scenario counts from its start, a time of a real cluster
from 1970: `is_scenario_time` tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from windlass.config import Config

Command = Callable[..., Any]

LONGEST_SCENARIO_S = 10 * 365 * 86400
"""The longest time that a scenario can last; every later time is one of a real cluster."""

_KUBECONFIG = click.option("--kubeconfig", metavar="FILE", help="The kubeconfig file.")
_CONTEXT = click.option("--context", metavar="NAME", help="The context of the kubeconfig.")
_CONFIG = click.option(
    "--config", "file", metavar="FILE", help="The settings file that `windlass run` was given."
)
_NAMESPACE = click.option(
    *("-n", "--namespace"),
    metavar="NAME",
    help="The namespace; by default that of the context.",
)


def cluster_options(command: Command) -> Command:
    """Add the options that name a cluster: --kubeconfig, --context and --config."""
    for option in (_CONFIG, _CONTEXT, _KUBECONFIG):
        command = option(command)
    return command


def namespace_option(command: Command) -> Command:
    """Add the option that names a namespace."""
    return _NAMESPACE(command)


def load_config(kubeconfig: str | None, context: str | None, file: str | None) -> Config:
    """Return the configuration made of these options, the environment and the file."""
    import os

    from windlass.config import read_config

    return read_config(file, os.environ, {"kubeconfig": kubeconfig, "context": context})


def namespace_or_default(config: Config, namespace: str | None) -> str:
    """Return the namespace that was named, or that of the context."""
    if namespace:
        return namespace
    from windlass.kube.client import namespace as namespace_of_context

    return namespace_of_context(config.kubeconfig or None, config.context or None)


def parse_time(text: str, option: str) -> int:
    """Return the seconds of a time like 20m.

    Raise a usage error that names the option if the text is not a time.
    """
    from windlass.model.units import parse_seconds

    try:
        return 0 if text == "0" else parse_seconds(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def format_time(at: int) -> str:
    """Return a time as it is printed: counted from the start of a scenario, or as a date."""
    from windlass.model.units import format_duration, format_timestamp

    return format_duration(at) if is_scenario_time(at) else format_timestamp(at)


def is_scenario_time(at: int) -> bool:
    """Return whether a time counts from the start of a scenario, not from 1970."""
    return at < LONGEST_SCENARIO_S
