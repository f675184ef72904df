"""`windlass` as somebody calls it against the cluster of a scene."""

from __future__ import annotations

import asyncio
import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.live.support.scene import LABEL, Scene
from tests.support.command_output import Answer
from windlass.cli import main


@dataclass(frozen=True)
class Shell:
    """Runs `windlass` for somebody, with the settings that the scene's scheduler has."""

    kubeconfig: Path
    settings: Path

    async def __call__(self, command: str, *words: str) -> Answer:
        """In this process, but beside its event loop: a program would take a second to start."""
        reach = ("--kubeconfig", str(self.kubeconfig), "--config", str(self.settings))
        return await asyncio.to_thread(call, command, *reach, *words)


def call(*words: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main(words)
    return Answer(int(left.value.code or 0), out.getvalue(), err.getvalue())


def shell(made: Scene, kubeconfig: Path, folder: Path) -> Shell:
    """A shell with the settings that the scene's scheduler has."""
    file = folder / "windlass.yaml"
    lease = {"name": made.key, "namespace": made.key}
    scope = {"namespaces": [made.key], "node_selector": {LABEL: made.key}}
    file.write_text(yaml.safe_dump(scope | {"lease": lease}))
    return Shell(kubeconfig, file)
