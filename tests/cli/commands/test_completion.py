"""The command line in its surroundings: completion by the shell, and `kubectl windlass`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module

import pytest

from tests.support.checkout import ROOT
from windlass.cli.commands.completion import SHELLS, VARIABLE

PROGRAM = [sys.executable, "-c", "from windlass.cli import main; main()"]


def run(*words: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [*PROGRAM, *words], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_told_to_ask_the_program(shell: str):
    assert VARIABLE in run("completion", shell)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("windlass que", "queues"),
        ("windlass jobs --sta", "--state"),
        ("windlass bench en", "engine"),
    ],
)
def test_commands_and_options_are_completed(typed: str, offered: str):
    at = str(len(typed.split()) - 1)
    told = run(**{VARIABLE: "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": at})
    assert told.split() == [f"plain,{offered}"]


def test_kubectl_has_the_same_program_as_a_plugin():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-windlass"] == scripts["windlass"]
    module, _, function = scripts["kubectl_complete-windlass"].partition(":")
    assert callable(getattr(import_module(module), function))


LOOKING = ("doctor", "explain", "jobs", "pause", "queues", "resume", "snapshot", "submit", "top")


@pytest.mark.parametrize("command", LOOKING)
def test_a_cluster_is_named_in_the_same_words_everywhere(command: str):
    told = run(command, "--help")
    assert all(
        option in told for option in ("--kubeconfig FILE", "--context NAME", "--config FILE")
    )


def test_every_option_of_submit_is_described():
    page = (ROOT / "docs/reference/submit.md").read_text()
    told = run("submit", "--help")
    own = told[: told.index("-n, --namespace")]
    assert [each for each in re.findall(r"  (--[a-z-]+) ", own) if f"`{each}" not in page] == []
