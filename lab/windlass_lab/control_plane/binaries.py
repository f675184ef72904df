"""The source of the control plane's programs: PATH, else the cache, else a build.

One version is pinned, by the go.mod in `controlplane/`; a program in PATH is used if it is at least
as new as the lab needs. etcd before 3.5.13 seems to work, but cannot report the progress of a
watch, so that watches with bookmarks end in an error.

Controllers that only tests need are pinned by the go.mod in `controllers/` and never taken from
PATH: they must match the manifests that were copied with them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass_lab.control_plane.build import Tell, build, manifests_folder
from windlass_lab.control_plane.versions import KUBERNETES_VERSION, PROGRAMS

Version = tuple[int, ...]

FAMILY = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""Programs taken from PATH together or not at all: a controller may not be newer than its API
server."""
NAMES = ("etcd", *FAMILY, "kubectl")
CONTROLLERS = ("jobset", "lws", "trainer", "karpenter")
"""Controllers of other projects; Karpenter with KWOK, its cloud provider for tests."""
TESTED = (*NAMES, "helm", *CONTROLLERS)
"""All programs, including those that only tests need."""
OLDEST: dict[str, Version] = {
    "etcd": (3, 5, 13),
    "helm": (3, 17, 0),
    "kubectl": (1, 36, 0),
    **dict.fromkeys(FAMILY, (1, 36, 0)),
}
"""The oldest version to take from PATH."""
VERSION_WORDS = {"helm": ["version", "--short"], "kubectl": ["version", "--client"]}
ASKING_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ProgramBinary:
    """A program of the control plane that can be run here."""

    name: str
    path: Path
    version: Version

    @property
    def version_text(self) -> str:
        """The version as text, such as 1.36.4."""
        return ".".join(map(str, self.version))

    @property
    def manifests(self) -> Path:
        """The folder with the manifests that a cluster needs before this controller can
        run in it."""
        return manifests_folder(self.path)


def say(line: str) -> None:
    """Print a progress line to stderr."""
    print(line, file=sys.stderr, flush=True)


def find(names: Sequence[str] = NAMES, tell: Tell = say) -> dict[str, ProgramBinary]:
    """Return these programs, built if needed; raise `PartsMissing` if they cannot be built."""
    there = look_for(names)
    missing = [name for name in names if name not in there]
    if missing:
        build(missing, cache_folder(), tell)
        there |= _in_cache(missing)
    return {name: there[name] for name in names}


def look_for(names: Sequence[str] = NAMES) -> dict[str, ProgramBinary]:
    """Return those of these programs that exist already, in PATH or in the cache."""
    there = _in_path(names)
    return there | _in_cache(name for name in names if name not in there)


def cache_folder() -> Path:
    """Return the folder with built programs of the pinned version, for all checkouts of
    this user."""
    own = os.environ.get("WINDLASS_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(own) if own else Path(home, "windlass")) / f"controlplane-{KUBERNETES_VERSION}"


def _in_path(names: Sequence[str]) -> dict[str, ProgramBinary]:
    found: dict[str, ProgramBinary] = {}
    for name in (name for name in names if name in OLDEST):
        path = shutil.which(name)
        part = _ask_version(name, Path(path)) if path else None
        if part and part.version >= OLDEST[name]:
            found[name] = part
    family = [name for name in names if name in FAMILY]
    minors = {found[name].version[:2] if name in found else None for name in family}
    return found if len(minors) <= 1 else {n: p for n, p in found.items() if n not in family}


def _in_cache(names: Iterable[str]) -> dict[str, ProgramBinary]:
    paths = {name: cache_folder() / PROGRAMS[name].file_name for name in names}
    asked = {name: _ask_version(name, path) for name, path in paths.items() if path.exists()}
    return {name: part for name, part in asked.items() if part}


def _ask_version(name: str, path: Path) -> ProgramBinary | None:
    """Return the program with the version it reports; None if it does not run here.

    Controllers report no version; the names of their files contain it.
    """
    if name in CONTROLLERS:
        return _part(name, path, PROGRAMS[name].version)
    words = VERSION_WORDS.get(name, ["--version"])
    try:
        answer = subprocess.run(
            [path, *words], capture_output=True, text=True, timeout=ASKING_SECONDS, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return _part(name, path, answer.stdout)


def _part(name: str, path: Path, text: str) -> ProgramBinary | None:
    """Return the program with the version in the text; None if there is none."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return ProgramBinary(name, path, tuple(map(int, found.groups()))) if found else None
