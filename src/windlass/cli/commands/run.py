"""`windlass run`: the scheduler on a cluster; `windlass pause` and `resume`: its evictions."""

from __future__ import annotations

from typing import Any

import click

from windlass.cli.options import reaching, settings
from windlass.config import Option, options


def _flags(command: Any) -> Any:
    """One flag for every key of the configuration."""
    for each in reversed(list(options())):
        command = click.option(_flag(each), each.key.replace(".", "__"), **_kind(each))(command)
    return command


def _flag(option: Option) -> str:
    """What is on unless somebody says otherwise can be switched off."""
    return f"{option.flag}/--no-{option.flag[2:]}" if option.default is True else option.flag


def _kind(option: Option) -> dict[str, Any]:
    found: dict[str, Any] = {"help": option.meaning, "default": None}
    if isinstance(option.default, bool):
        return found | {"is_flag": True}
    if isinstance(option.default, int):
        return found | {"type": int}
    if isinstance(option.default, list):
        return found | {"multiple": True, "default": ()}
    if isinstance(option.default, dict):
        return found | {"multiple": True, "default": (), "metavar": "KEY=VALUE"}
    return found


def _told(values: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for option in options():
        value = values[option.key.replace(".", "__")]
        if isinstance(option.default, list):
            value = list(value) or None
        elif isinstance(option.default, dict):
            pairs = [part.partition("=") for part in value]
            value = {key: text for key, _, text in pairs} or None
        told[option.key] = value
    return told


@click.command()
@click.option("--config", type=click.Path(dir_okay=False), help="A file of settings, in YAML.")
@_flags
def run(config: str | None, **values: Any) -> None:
    """Schedule the pods of a cluster, until stopped."""
    import asyncio
    import os

    from windlass.cli.demo_support.dashboard import tell_room
    from windlass.config import read_config
    from windlass.daemon.loop.main import run as run_daemon

    asyncio.run(run_daemon(read_config(config, os.environ, _told(values)), tell_room))


@click.command()
@reaching
def pause(**reach: str | None) -> None:
    """Stop all evictions; pods are still bound."""
    _set_paused(reach, True)


@click.command()
@reaching
def resume(**reach: str | None) -> None:
    """Allow evictions again."""
    _set_paused(reach, False)


def _set_paused(reach: dict[str, str | None], paused: bool) -> None:
    import asyncio

    from windlass.daemon.loop.pause import set_paused

    leader = asyncio.run(set_paused(settings(**reach), paused))
    click.echo(
        f"{'No evictions from now on' if paused else 'Evictions are planned again'}; "
        f"{leader or 'whoever leads next'} follows within seconds."
    )
