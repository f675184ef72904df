"""The command line: one module per command, imported only when that command is called.

Belongs here: the options of commands, reading their input, printing their output, and putting the
other packages together. Does not belong here: any decision about a cluster; that is the engine's.
It may do all I/O: files, terminals, sockets, processes.

    commands/         one module per command, and parts of commands too large for one module
    explain/          the cluster and the jobs that `windlass explain` is about
    render/           results as text, JSON and pages, shared by several commands
    live_view/        the frames that `windlass demo` and `windlass top` draw in a terminal
    demo_support/     the dashboard, ETAs and recording beside a simulation
    options.py        options that several commands share, and times
    files.py          reading scenarios and snapshots, with the line of every problem
    policy_manifests.py  Policy and Queue manifests applied to a snapshot
    format.py         numbers, durations and sentences as people read them
    output.py         JSON, tables and files that commands write

Exit status: 0 success, 1 the answer is no, 2 the input cannot be used, 130 interrupted, 141 the
reader of the output has gone.

`import windlass.cli` must stay cheap, because shell completion imports it whenever Tab is pressed:
no numpy, pydantic or YAML (a test checks that). Commands import what they need inside functions.
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
"""The entry point group in which other packages register commands, as windlass_lab does in a
checkout. Its names appear in the help; a command of the product cannot be replaced."""
LAB_COMMANDS = ("bench", "cluster", "conformance")
"""The commands that only a checkout has."""
GC_THRESHOLD = 100_000
"""The number of new objects after which Python collects garbage. It is high because a scheduling
cycle makes many objects of which hardly any is part of a reference cycle."""
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit; print every error that a user can mend as one sentence on stderr."""
    gc.set_threshold(GC_THRESHOLD)
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone; the interpreter must not try to flush the rest.
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
    """Redirect stdout to the null device, so that a later flush cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Commands(click.Group):
    """A click group that imports a command when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*COMMANDS, *entry_points(group=ENTRY_POINTS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name, or None if there is none.

        Commands of the product come before entry points, so that another package cannot replace
        one.
        """
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name].partition(":")
            return getattr(import_module(module), name)
        for entry_point in entry_points(group=ENTRY_POINTS, name=cmd_name):
            return entry_point.load()
        if cmd_name in LAB_COMMANDS:
            ctx.fail(
                f"`windlass {cmd_name}` is part of a checkout of Windlass, not of the installed "
                "package: clone the repository, and run `make run` there once."
            )
        return None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def windlass() -> None:
    """Schedule GPU work: whole gangs, fair shares, and a reason for every wait."""


def _run(arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit status; print the errors that end it."""
    stdout = sys.stdout
    try:
        result = windlass.main(arguments, prog_name="windlass", standalone_mode=False)
    except WindlassError as error:
        click.echo(str(error), err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:
        if sys.stdout is not stdout:
            # click met the broken pipe first, and replaced stdout to hide it.
            sys.stdout = stdout
            raise BrokenPipeError from None
        raise
    return result if isinstance(result, int) else 0
