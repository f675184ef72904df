"""`windlass run` starts the scheduler; `windlass pause` and `resume` switch its evictions."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.options import cluster_options, load_config
from windlass.config import Option, options


def _flags(command: Any) -> Any:
    """Add one flag for every key of the configuration."""
    for option in reversed(list(options())):
        name = option.key.replace(".", "__")
        command = click.option(_flag(option), name, **_click_type(option))(command)
    return command


def _flag(option: Option) -> str:
    """Return the flag of a key; one that is on by default gets a --no- flag as well."""
    return f"{option.flag}/--no-{option.flag[2:]}" if option.default is True else option.flag


def _click_type(option: Option) -> dict[str, Any]:
    """Return the arguments of `click.option` that fit the type of a key."""
    arguments: dict[str, Any] = {"help": option.meaning, "default": None}
    if isinstance(option.default, bool):
        return arguments | {"is_flag": True}
    if isinstance(option.default, int):
        return arguments | {"type": int}
    if isinstance(option.default, list):
        return arguments | {"multiple": True, "default": ()}
    if isinstance(option.default, dict):
        return arguments | {"multiple": True, "default": (), "metavar": "KEY=VALUE"}
    return arguments


def _config_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the flags by key of the configuration; None for a flag not given."""
    result: dict[str, Any] = {}
    for option in options():
        value = values[option.key.replace(".", "__")]
        if isinstance(option.default, list):
            value = list(value) or None
        elif isinstance(option.default, dict):
            pairs = [part.partition("=") for part in value]
            for key, equals, _ in pairs:
                if not equals:
                    what = f'"{key}" has no value; write KEY=VALUE, such as pool=gpu'
                    raise click.BadParameter(what, param_hint=option.flag)
            value = {key: text for key, _, text in pairs} or None
        result[option.key] = value
    return result


@click.command()
@click.option("--config", type=click.Path(dir_okay=False), help="A YAML file of settings.")
@_flags
def run(config: str | None, **values: Any) -> None:
    """Run the scheduler on a cluster until it is stopped."""
    import asyncio
    import os

    from windlass.cli.render.preemption_preview import room_clauses
    from windlass.config import read_config
    from windlass.daemon.loop import run as run_daemon

    asyncio.run(run_daemon(read_config(config, os.environ, _config_values(values)), room_clauses))


@click.command()
@cluster_options
def pause(**cluster: str | None) -> None:
    """Stop all evictions; pods are still bound."""
    _set_paused(cluster, True)


@click.command()
@cluster_options
def resume(**cluster: str | None) -> None:
    """Allow evictions again."""
    _set_paused(cluster, False)


def _set_paused(cluster: dict[str, str | None], paused: bool) -> None:
    import asyncio

    from windlass.daemon.loop import set_paused

    leader = asyncio.run(set_paused(load_config(**cluster), paused))
    click.echo(
        f"{'No evictions from now on' if paused else 'Evictions are planned again'}; "
        f"{leader or 'the next leader'} follows within seconds."
    )
