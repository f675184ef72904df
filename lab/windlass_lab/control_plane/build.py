"""The build of the lab's programs from pinned modules with the Go toolchain, once per machine.

The first build takes minutes, so it prints its progress. Each program appears in the cache folder
whole or not at all, and an interrupted build continues where it stopped. A lock file lets only one
process build; the others wait and say so.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from windlass.model.errors import one_line
from windlass_lab.control_plane.errors import PartsMissing
from windlass_lab.control_plane.versions import KUBERNETES_VERSION, PROGRAMS, Program

Tell = Callable[[str], None]

STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
"""Packages that hold the version; without a stamp the programs call themselves v0.0.0-master."""
SIGN_OF_LIFE_SECONDS = 20


def build(names: Sequence[str], folder: Path, tell: Tell) -> None:
    """Build those of these programs that the folder lacks; raise `PartsMissing` if that fails."""
    go = _find_go(names)
    wanted = [PROGRAMS[name] for name in names]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder.with_name(f"{folder.name}.lock"), tell):
            missing = [each for each in wanted if not (folder / each.file_name).exists()]
            for at, program in enumerate(missing, start=1):
                _build_one(
                    go, program, folder, lambda line, at=at: tell(f"[{at}/{len(missing)}] {line}")
                )
    except OSError as error:
        raise PartsMissing(
            f"{', '.join(names)} cannot be built in {folder}: {error.strerror or error}; "
            "set WINDLASS_CACHE to a folder that can be written to"
        ) from None


def _find_go(names: Sequence[str]) -> str:
    """Return the path of the Go toolchain, or raise `PartsMissing`, which says what was found."""
    # The oldest Go that builds any of them. If one of them needs a newer Go, Go itself refuses it,
    # and those before it have been built.
    needed = min((PROGRAMS[name].go_version for name in names), key=_numbers)
    go = shutil.which("go")
    found = _go_version(go) if go else None
    if go and found and _numbers(found) >= _numbers(needed):
        return go
    instead = f"found go{found} at {go}" if found else "found none in PATH"
    otherwise = f", or put the programs of Kubernetes {KUBERNETES_VERSION} and etcd in PATH"
    can_be_in_path = not any(PROGRAMS[name].manifests for name in names)
    raise PartsMissing(
        f"The control plane lacks {', '.join(names)}, and to build what it lacks there is no Go "
        f"{needed} or newer ({instead}): install Go{otherwise if can_be_in_path else ''}."
    )


def _go_version(go: str) -> str | None:
    try:
        answer = subprocess.run(
            [go, "version"], capture_output=True, text=True, check=True, cwd="/"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"go(\d+(?:\.\d+)+)", answer.stdout)
    return found[1] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@contextmanager
def _alone(lock: Path, tell: Tell) -> Generator[None]:
    with lock.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("Another process is building the control plane; waiting for it ...")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _build_one(go: str, program: Program, folder: Path, tell: Tell) -> None:
    """Build beside the folder's programs and move the result into place: the programs there are
    always whole."""
    began = time.monotonic()
    name = program.name
    part, log = folder / f".{program.file_name}.part", folder / f"{name}.build.log"
    tell(f"Building {name} {program.version} ...")
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [go, "build", *_flags(), "-o", str(part), program.package],
            cwd=program.folder,
            env=_environment(),
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        status = _wait(process, lambda: tell(f"{name}: {time.monotonic() - began:.0f} s ..."))
    if status != 0:
        said = log.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(said) if line.strip()), "nothing was said")
        raise PartsMissing(one_line(f"{name} cannot be built: {last}; the whole story is in {log}"))
    if program.manifests:
        _copy_manifests(go, program, manifests_folder(folder / program.file_name))
    part.replace(folder / program.file_name)  # last: a program that is there has its manifests
    log.unlink()
    tell(f"{name} is built, after {time.monotonic() - began:.0f} s.")


def manifests_folder(program: Path) -> Path:
    """Return the folder that holds the manifests of this built program."""
    return program.with_name(f"{program.name}.manifests")


def _copy_manifests(go: str, program: Program, target: Path) -> None:
    """Copy the program's manifests out of the Go module cache, so that later runs need no Go."""
    words = [go, "list", "-mod=readonly", "-f", "{{.Module.Dir}}", program.package]
    try:
        found = subprocess.run(
            words,
            cwd=program.folder,
            env=_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise PartsMissing(
            one_line(f"the manifests of {program.name} cannot be found: {error.stderr.strip()}")
        ) from None
    source = Path(found.stdout.strip())
    shutil.rmtree(target, ignore_errors=True)  # of a build that was broken off here
    for path in sorted(path for part in program.manifests for path in (source / part).rglob("*")):
        if path.is_file():  # its bytes alone: what lies in the module cache is read-only
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def _flags() -> list[str]:
    numbers = _numbers(KUBERNETES_VERSION.removeprefix("v").partition("-")[0])
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": numbers[0], "gitMinor": numbers[1]}
    stamps = [f"-X {package}.{key}={value}" for package in STAMPED for key, value in values.items()]
    stamps.append(f"-X helm.sh/helm/v3/internal/version.version={PROGRAMS['helm'].version}")
    linker = " ".join(["-s", "-w", *stamps])
    return ["-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", linker]


def _environment() -> dict[str, str]:
    """Return the user's environment without variables that would build other versions than the
    pinned ones."""
    kept = {k: v for k, v in os.environ.items() if k not in {"GOOS", "GOARCH", "GOFLAGS"}}
    return kept | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off"}


def _wait(process: subprocess.Popen[bytes], sign_of_life: Callable[[], None]) -> int:
    try:
        while True:
            try:
                return process.wait(SIGN_OF_LIFE_SECONDS)
            except subprocess.TimeoutExpired:
                sign_of_life()
    finally:
        if process.poll() is None:  # interrupted: leave no compiler behind
            process.terminate()
            process.wait()
