"""Find Helm, and call it.

Helm renders the chart, applies the objects, and keeps the record of each release. It is sought in
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
"""The first Helm with `--take-ownership`."""
SERVER_SIDE: Version = (4,)
"""The first Helm that applies on the server's side, where it can find conflicts."""
KUBE_VERSION = "1.30.0"
"""The oldest Kubernetes that the chart accepts. Nothing in the chart depends on the version, but
Helm wants to know one where it renders without a cluster."""
ASKING_S = 60
ENDING_S = 30
UNWANTED = ("HELM_KUBE", "HELM_DEBUG")
"""Variables of the environment that begin so are kept from Helm: which cluster is meant is said by
our own options, and by KUBECONFIG, which both read."""
NO_RELEASE = "release: not found"


class HelmMissing(WindlassError):
    """There is no Helm that can be used."""


class HelmRefusal(WindlassError):
    """Helm ended with an error, which is the text."""


@dataclass(frozen=True, slots=True)
class HelmRecord:
    """The newest record that Helm keeps of a release."""

    chart: str
    """The name of the chart."""
    revision: int
    status: str
    """A word such as deployed, failed or pending-upgrade."""

    @property
    def is_pending(self) -> bool:
        """Return whether Helm is at work on the release, or was killed while it was."""
        return self.status.startswith("pending")


@dataclass(frozen=True, slots=True)
class HelmProgram:
    """A Helm that can be run here, and the cluster on which it is to work."""

    path: Path
    version: Version
    kubeconfig: str = ""
    """A kubeconfig file, or a list of them; empty: where Helm looks by itself, as we do."""
    context: str = ""
    """A context of the kubeconfig; empty: its current one."""

    async def render(self, values: Tree, release: Release) -> list[Object]:
        """Return the objects that the chart makes with these values over its defaults."""
        words = ("template", release.name, str(folder()), "--kube-version", KUBE_VERSION)
        text = await self._call(*words, *_at(release), "--values", "-", values=values)
        return [thing for thing in yaml.safe_load_all(text) if thing]

    async def upgrade(self, values: Tree, release: Release) -> None:
        """Install the release, or bring it to this chart and these values over its defaults.

        Helm takes over objects that exist already: those of installations that Helm did not make,
        and definitions, which several releases share.
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
        """Return what Helm prints; these values are what Helm reads as its input."""
        process = await asyncio.create_subprocess_exec(
            *(str(self.path), *words),
            *([f"--kube-context={self.context}"] if self.context else []),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=_environment(self.kubeconfig),
        )
        try:
            # strings stay strings in JSON, whatever another reader of YAML makes of them
            text = json.dumps(values, default=str) if values is not None else ""
            output, complaint = await process.communicate(text.encode())
        except asyncio.CancelledError:
            # Helm writes into its record that it was interrupted; a killed one cannot
            process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), ENDING_S)
            raise
        if process.returncode != 0:
            raise HelmRefusal(_sentence(complaint.decode(errors="replace")))
        return output.decode()


def find_helm(kubeconfig: str = "", context: str = "") -> HelmProgram:
    """Return the Helm to use on that cluster; raises `HelmMissing` if there is none."""
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
            "install it as helm.sh describes, or run `windlass cluster --build`, which builds it"
        )
    )


def program_cache() -> Path:
    """Return the folder of this user below which programs are kept that Windlass has built.

    Each set of programs has a folder of its own in it, named after the version of Kubernetes.
    """
    if own := os.environ.get("WINDLASS_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windlass")


def _candidates() -> Iterator[Path]:
    """Yield each file that may be a Helm, the one to prefer first."""
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
    numbers = re.search(r"v(\d+(?:\.\d+)+)", answer.stdout)  # one that `go install` built says v4.3
    return tuple(map(int, numbers[1].split("."))) if numbers else None


def _environment(kubeconfig: str = "") -> dict[str, str]:
    """Return our environment, without `UNWANTED` and with this kubeconfig if one is named."""
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
