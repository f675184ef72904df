"""`windlass completion`: what makes a shell complete commands and options."""

from __future__ import annotations

import sys

import click

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_WINDLASS_COMPLETE"
"""What the shell sets when it asks the program for completions."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print what makes a shell complete commands and options.

    \b
    bash   eval "$(windlass completion bash)"     in ~/.bashrc
    zsh    eval "$(windlass completion zsh)"      in ~/.zshrc
    fish   windlass completion fish | source      in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from windlass.cli import windlass

    kind = get_completion_class(shell)
    assert kind is not None, f"click knows no {shell}"
    click.echo(kind(windlass, {}, "windlass", VARIABLE).source())


NO_FILES = ":4"
"""The last line that kubectl expects: what else there may be, here no names of files."""


def for_kubectl() -> None:
    """Answer kubectl, which asks `kubectl_complete-windlass` with the words typed so far."""
    from click.shell_completion import ShellComplete

    from windlass.cli import windlass

    *words, begun = sys.argv[1:] or [""]
    asked = ShellComplete(windlass, {}, "windlass", VARIABLE)
    for each in asked.get_completions(words, begun):
        click.echo(each.value)
    click.echo(NO_FILES)
