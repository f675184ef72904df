"""The command line: one file per command, loaded only when it is asked for.

Belongs here: options, output, and putting the parts together. Does not belong here: any decision.
Exit status: 0 all is well, 1 the answer is no, 2 the input cannot be used, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import NoReturn

import click

from windlass import __version__
from windlass.model.errors import WindlassError

COMMANDS = {
    "completion": "windlass.cli.commands.completion:command",
    "crds": "windlass.cli.commands.crds:command",
    "dashboard": "windlass.cli.commands.dashboard:command",
    "demo": "windlass.cli.commands.demo:command",
    "doctor": "windlass.cli.commands.doctor:command",
    "explain": "windlass.cli.commands.explain:command",
    "install": "windlass.cli.commands.install:install",
    "jobs": "windlass.cli.commands.jobs:command",
    "pause": "windlass.cli.commands.run:pause",
    "plan": "windlass.cli.commands.plan:command",
    "queues": "windlass.cli.commands.queues:command",
    "replay": "windlass.cli.commands.replay:command",
    "resume": "windlass.cli.commands.run:resume",
    "run": "windlass.cli.commands.run:run",
    "scenario": "windlass.cli.commands.scenario:command",
    "simulate": "windlass.cli.commands.simulate:command",
    "snapshot": "windlass.cli.commands.snapshot:command",
    "submit": "windlass.cli.commands.submit:command",
    "top": "windlass.cli.commands.top:command",
    "uninstall": "windlass.cli.commands.install:uninstall",
    "webhook": "windlass.cli.commands.webhook:command",
}

ENTRY_POINTS = "windlass.commands"
"""The group in which other packages register commands; the instruments of a checkout do."""
YOUNG = 100_000
"""So many new objects are looked through for garbage at once: a cycle makes many, and hardly any
of them refers to itself."""
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; every error a user can mend is one sentence on stderr."""
    gc.set_threshold(YOUNG)
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # whoever read our output has gone; the interpreter must not try to flush the rest
        _abandon_stdout()
        status = BROKEN_PIPE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EFBIG):
            raise
        _abandon_stdout()
        click.echo(f"The output cannot be written: {error.strerror}.", err=True)
        status = 1
    sys.exit(status)


def _abandon_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Commands(click.Group):
    """A group that imports a command when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*COMMANDS, *entry_points(group=ENTRY_POINTS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name; None if there is none.

        Commands of the product come first, so that another package cannot replace one.
        """
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name].partition(":")
            return getattr(import_module(module), name)
        for entry_point in entry_points(group=ENTRY_POINTS, name=cmd_name):
            return entry_point.load()
        return None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def windlass() -> None:
    """Schedule GPU work: whole gangs, fair shares, and a reason for every wait."""


def _run(arguments: Sequence[str] | None) -> int:
    stdout = sys.stdout
    try:
        found = windlass.main(arguments, prog_name="windlass", standalone_mode=False)
    except WindlassError as error:
        click.echo(str(error), err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:
        if sys.stdout is not stdout:  # click has met the broken pipe first and covers it up
            sys.stdout = stdout
            raise BrokenPipeError from None
        raise
    return found if isinstance(found, int) else 0
