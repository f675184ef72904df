"""`windlass completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import sys

import click

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_WINDLASS_COMPLETE"
"""The variable that the shell sets when it asks the program for completions."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that makes a shell complete commands and options.

    \b
    bash   eval "$(windlass completion bash)"     in ~/.bashrc
    zsh    eval "$(windlass completion zsh)"      in ~/.zshrc
    fish   windlass completion fish | source      in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from windlass.cli import windlass

    kind = get_completion_class(shell)
    assert kind is not None, f"click does not support {shell}"
    click.echo(kind(windlass, {}, "windlass", VARIABLE).source())


NO_FILES = ":4"
"""The last line that kubectl expects; 4 means that names of files are not offered."""


def for_kubectl() -> None:
    """Print completions for kubectl, which calls this with the words typed so far."""
    from click.shell_completion import ShellComplete

    from windlass.cli import windlass

    *words, incomplete = sys.argv[1:] or [""]
    completer = ShellComplete(windlass, {}, "windlass", VARIABLE)
    for completion in completer.get_completions(words, incomplete):
        click.echo(completion.value)
    click.echo(NO_FILES)
