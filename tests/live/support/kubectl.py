"""kubectl as tests use it: what it prints, or why it refuses."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the access it is to use."""

    path: Path
    kubeconfig: Path

    def __call__(self, *words: str, given: object = None) -> str:
        """What it prints; `given` is an object that it reads with `-f -`."""
        done = self._run(words, given)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def refuses(self, *words: str, given: object = None) -> str:
        """Why it refuses."""
        done = self._run(words, given)
        assert done.returncode != 0, f"kubectl {' '.join(words)} did it: {done.stdout}"
        return done.stderr

    def attempt(self, *words: str, given: object = None) -> str:
        """What it prints if it does it, and why not if it refuses."""
        done = self._run(words, given)
        return done.stdout if done.returncode == 0 else done.stderr

    def get(self, *words: str) -> Any:
        """An object, or a list of them."""
        return json.loads(self("get", *words, "-o", "json"))

    def with_access(self, kubeconfig: Path) -> Kubectl:
        """The same program for somebody else, or for another plane."""
        return replace(self, kubeconfig=kubeconfig)

    def _run(self, words: tuple[str, ...], given: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.path, "--kubeconfig", self.kubeconfig, "--request-timeout=60s", *words],
            input=None if given is None else json.dumps(given),
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
