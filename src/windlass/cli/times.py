"""Times as options of commands."""

from __future__ import annotations

import click


def time_option(text: str, option: str) -> int:
    """The seconds of a time like 20m, or a usage error that says how to write one."""
    from windlass.sim.scenario.amounts import seconds

    try:
        return 0 if text == "0" else seconds(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
