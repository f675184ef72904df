"""Find Helm, and call it.

Helm renders the chart, applies the objects, and keeps the record of each release. It is searched in
PATH and then among the programs that Windlass has built.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from windlass.install.chart import Object, Release, folder
from windlass.install.values import Tree
from windlass.model.errors import WindlassError, one_line

Version: TypeAlias = tuple[int, ...]

OLDEST: Version = (3, 17)
"""The first version of Helm with `--take-ownership`."""
SERVER_SIDE: Version = (4,)
"""The first version of Helm that applies server-side, where conflicts can occur."""
KUBE_VERSION = "1.30.0"
"""The oldest version of Kubernetes that the chart accepts. Nothing in the chart depends on the
version, but Helm needs one to render without a cluster."""
ASKING_S = 60
"""Seconds within which a program must report its version."""
ENDING_S = 30
"""Seconds that Helm has to end after an interruption."""
UNWANTED = ("HELM_KUBE", "HELM_DEBUG")
"""Environment variables with these prefixes are not passed to Helm: our own options select the
cluster, and KUBECONFIG, which both programs read."""
NO_RELEASE = "release: not found"
"""Part of Helm's error for a release that it has no record of."""


class HelmMissing(WindlassError):
    """No usable Helm was found."""


class HelmRefusal(WindlassError):
    """Helm ended with an error; the text is Helm's message."""


@dataclass(frozen=True, slots=True)
class HelmRecord:
    """The newest record that Helm keeps of a release."""

    chart: str
    """The name of the chart."""
    revision: int
    status: str
    """The status in Helm's terms, such as deployed, failed or pending-upgrade."""

    @property
    def is_pending(self) -> bool:
        """Return whether Helm is working on the release, or was killed while it did."""
        return self.status.startswith("pending")


@dataclass(frozen=True, slots=True)
class HelmProgram:
    """A usable Helm program, and the cluster on which it works."""

    path: Path
    version: Version
    kubeconfig: str = ""
    """A kubeconfig file, or a list of them; empty: the default, which is the same for Helm and
    us."""
    context: str = ""
    """A context of the kubeconfig; empty: its current one."""

    async def render(self, values: Tree, release: Release) -> list[Object]:
        """Return the objects of the chart with these values over its defaults."""
        words = ("template", release.name, str(folder()), "--kube-version", KUBE_VERSION)
        text = await self._call(*words, *_at(release), "--values", "-", values=values)
        return [thing for thing in yaml.safe_load_all(text) if thing]

    async def upgrade(self, values: Tree, release: Release) -> None:
        """Install the release, or upgrade it to this chart and these values over its defaults.

        Helm takes ownership of objects that exist already: those of installations that Helm did
        not make, and definitions, which several releases share.
        """
        words = ["upgrade", release.name, str(folder()), "--install", "--take-ownership"]
        if self.version >= SERVER_SIDE:
            words += ["--server-side=true", "--force-conflicts"]
        await self._call(*words, "--reset-values", *_at(release), "--values", "-", values=values)

    async def uninstall(self, release: Release) -> None:
        """Delete the objects of a release and its record; do nothing if there is no record."""
        await self._call("uninstall", release.name, "--ignore-not-found", *_at(release))

    async def record(self, release: Release) -> HelmRecord | None:
        """Return the newest record of a release, or None if Helm knows no such release."""
        try:
            text = await self._call(
                *("get", "metadata", release.name, "--output", "json"), *_at(release)
            )
        except HelmRefusal as refusal:
            if NO_RELEASE in str(refusal):
                return None
            raise
        answer = json.loads(text)
        return HelmRecord(answer["chart"], int(answer["revision"]), answer["status"])

    async def _call(self, *words: str, values: Tree | None = None) -> str:
        """Run Helm and return its output; `values` are its standard input, as JSON.

        Raises `HelmRefusal` if Helm fails.
        """
        # A task of its own: asyncio kills a process whose start is cancelled.
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *(str(self.path), *words),
                *([f"--kube-context={self.context}"] if self.context else []),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=_environment(self.kubeconfig),
            )
        )
        try:
            process = await asyncio.shield(starting)
            # JSON, because another YAML parser could read some plain strings as numbers or booleans
            text = json.dumps(values, default=str) if values is not None else ""
            output, complaint = await process.communicate(text.encode())
        except asyncio.CancelledError:
            # SIGTERM and not SIGKILL: Helm then records that it was interrupted. A killed one would
            # leave the release pending.
            process = await starting
            with suppress(TimeoutError, ProcessLookupError):
                process.terminate()
                await asyncio.wait_for(process.wait(), ENDING_S)
            raise
        if process.returncode != 0:
            raise HelmRefusal(_sentence(complaint.decode(errors="replace")))
        return output.decode()


def find_helm(kubeconfig: str = "", context: str = "") -> HelmProgram:
    """Return the Helm program to use on a cluster; raises `HelmMissing` if there is none."""
    rejects: list[str] = []
    for path in _candidates():
        version = _version(path)
        if version is not None and version >= OLDEST:
            return HelmProgram(path, version, kubeconfig, context)
        rejects.append(f"{path} is {_dotted(version) if version else 'no Helm that runs here'}")
    needed = f"Helm {_dotted(OLDEST)} or newer"
    instead = f" ({', '.join(rejects)})" if rejects else ""
    raise HelmMissing(
        one_line(
            f"{needed} is needed and was not found in PATH or below {program_cache()}{instead}; "
            "install it as helm.sh describes (in a checkout, `windlass cluster --build` builds it)"
        )
    )


def program_cache() -> Path:
    """Return the folder of this user in which the programs are that Windlass has built.

    Each set of programs is in a folder of its own in it, named after the version of Kubernetes.
    """
    if own := os.environ.get("WINDLASS_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windlass")


def _candidates() -> Iterator[Path]:
    """Yield each file that may be a Helm, the preferred one first."""
    if in_path := shutil.which("helm"):
        yield Path(in_path)
    yield from sorted(program_cache().glob("controlplane-*/helm"), reverse=True)


def _version(path: Path) -> Version | None:
    """Return the version that this program reports, or None if it reports none."""
    words = [path, "version", "--short"]
    try:
        answer = subprocess.run(
            words, capture_output=True, text=True, timeout=ASKING_S, check=True, env=_environment()
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    # A Helm that was built by `go install` reports only two numbers, such as v4.3.
    numbers = re.search(r"v(\d+(?:\.\d+)+)", answer.stdout)
    return tuple(map(int, numbers[1].split("."))) if numbers else None


def _environment(kubeconfig: str = "") -> dict[str, str]:
    """Return our environment without `UNWANTED`, and with this kubeconfig unless it is empty."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    return own | ({"KUBECONFIG": kubeconfig} if kubeconfig else {})


def _at(release: Release) -> tuple[str, str]:
    return "--namespace", release.namespace


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _sentence(complaint: str) -> str:
    """Return Helm's error as one line, without the warnings that Helm writes before it."""
    error = re.split(r"^Error: ", complaint, flags=re.MULTILINE)[-1]
    return one_line("; ".join(line.strip() for line in error.splitlines() if line.strip()))
