"""Shell completion, the plug-in of kubectl, and the options that all commands share."""

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
def test_the_script_of_a_shell_calls_the_program(shell: str):
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
    index = str(len(typed.split()) - 1)
    output = run(**{VARIABLE: "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": index})
    assert output.split() == [f"plain,{offered}"]


def test_the_plugin_of_kubectl_is_the_same_program():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-windlass"] == scripts["windlass"]
    module, _, function = scripts["kubectl_complete-windlass"].partition(":")
    assert callable(getattr(import_module(module), function))


ON_A_CLUSTER = (
    "doctor",
    "explain",
    "jobs",
    "pause",
    "queues",
    "resume",
    "snapshot",
    "submit",
    "top",
)


@pytest.mark.parametrize("command", ON_A_CLUSTER)
def test_all_commands_name_a_cluster_with_the_same_options(command: str):
    text = run(command, "--help")
    assert all(
        option in text for option in ("--kubeconfig FILE", "--context NAME", "--config FILE")
    )


def test_every_option_of_submit_is_documented():
    page = (ROOT / "docs/reference/submit.md").read_text()
    text = run("submit", "--help")
    own = text[: text.index("-n, --namespace")]
    options = re.findall(r"  (--[a-z-]+) ", own)
    assert [option for option in options if f"`{option}" not in page] == []
