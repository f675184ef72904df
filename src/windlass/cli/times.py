"""Times as options of commands, and as they are printed."""

from __future__ import annotations

import click


def time_option(text: str, option: str) -> int:
    """The seconds of a time like 20m, or a usage error that says how to write one."""
    from windlass.model.units import parse_seconds

    try:
        return 0 if text == "0" else parse_seconds(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


LONGEST_PLAYED_S = 10 * 365 * 86400
"""No scenario lasts longer; what is later is counted from 1970, by a real cluster."""


def instant(at: int) -> str:
    """A moment of a scenario, counted from its start, or of a real cluster."""
    from windlass.model.units import format_duration, format_timestamp

    return format_duration(at) if is_played(at) else format_timestamp(at)


def is_played(at: int) -> bool:
    """Is it a moment of a scenario?"""
    return at < LONGEST_PLAYED_S
