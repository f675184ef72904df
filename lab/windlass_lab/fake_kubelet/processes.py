"""Pods whose command really runs: one process each, ended by its own pid and with its kubelet.

    launch ──▶ running ── ends by itself, or by SIGTERM, or by SIGKILL ──▶ reported

Only the first container of a pod is run, and its children are not tracked. Without images and
mounts, a command names a program of this machine; `environment` sets its variables.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from windlass_lab.control_plane.process import PASSED_ON, Keeper
from windlass_lab.fake_kubelet.pod_lifecycle import Exit
from windlass_lab.fake_kubelet.wire import Container, Pod, Variable

Tell: TypeAlias = Callable[[Exit], None]

NOT_STARTED = 128
"""The exit code of a container that could not be started."""
LONGEST_MESSAGE = 4096
"""The length to which a kubelet cuts a termination message."""


class Processes:
    """The processes of all pods that request one; their number is bounded."""

    def __init__(self, most: int) -> None:
        self.launched: list[str] = []
        """The uids of all pods whose process was started, in order."""
        self._most = most
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._watchers: list[threading.Thread] = []
        self._folder: Path | None = None
        self._keeper: Keeper | None = None
        self._is_closing = False

    @property
    def pids(self) -> dict[str, int]:
        """Return the pids of the running processes, by the uid of their pods."""
        return {uid: process.pid for uid, process in self._running.items()}

    def said(self, uid: str) -> str:
        """Return what the process of a pod has written so far."""
        log = self._home(uid) / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def launch(self, pod: Pod, ip: str, tell: Tell) -> None:
        """Start a pod's command; its end is reported in the loop, also if it could not start."""
        loop, uid = asyncio.get_running_loop(), pod.metadata.uid
        try:
            process = self._start(pod, ip)
        except OSError as error:
            loop.call_soon(tell, Exit(NOT_STARTED, f"it was not started: {error}"))
            return
        self._running[uid] = process
        self.launched.append(uid)

        def ended() -> None:
            if not self._is_closing:
                tell(self._buried(uid, process))

        def watch() -> None:
            process.wait()
            if not self._is_closing:
                loop.call_soon_threadsafe(ended)

        watcher = threading.Thread(target=watch, daemon=True)
        self._watchers = [each for each in self._watchers if each.is_alive()] + [watcher]
        watcher.start()

    def kill(self, uid: str, *, at_once: bool) -> None:
        """Send a pod's process SIGTERM, or SIGKILL if `at_once`."""
        if process := self._running.get(uid):
            process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)

    def show(self, pod: Pod) -> None:
        """Update the annotations that a pod's process can read."""
        if pod.metadata.uid in self._running:
            _replace(shown_at(self._home(pod.metadata.uid)), shown(pod.metadata.annotations))

    def close(self) -> None:
        """End all processes and remove their files."""
        self._is_closing = True
        for process in self._running.values():
            process.kill()
        for watcher in self._watchers:
            watcher.join()
        if self._keeper is not None:
            self._keeper.close()

    def _start(self, pod: Pod, ip: str) -> subprocess.Popen[bytes]:
        if len(self._running) >= self._most:
            raise OSError(f"{self._most} processes run already")
        container, home = pod.spec.containers[0], self._home(pod.metadata.uid)
        home.mkdir(exist_ok=True)
        _replace(shown_at(home), shown(pod.metadata.annotations))
        last_word_at(home).write_text("")
        around = {key: value for key, value in os.environ.items() if key in PASSED_ON}
        with (home / "log").open("ab") as log:
            process = subprocess.Popen(
                [*container.command, *container.args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=around | environment(pod, container, ip, home),
                start_new_session=True,
            )
        if self._keeper is not None:
            self._keeper.add(process.pid)
        return process

    def _buried(self, uid: str, process: subprocess.Popen[bytes]) -> Exit:
        del self._running[uid]
        if self._keeper is not None:
            self._keeper.forget(process.pid)
        code = process.returncode
        word = last_word_at(self._home(uid)).read_bytes()[-LONGEST_MESSAGE:]
        return Exit(128 - code if code < 0 else code, word.decode(errors="replace"))

    def _home(self, uid: str) -> Path:
        """Return a pod's own folder, in one that is removed when this process ends."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="windlass-pods-"))
            self._keeper = Keeper(self._folder)
        return self._folder / uid


def _replace(file: Path, text: str) -> None:
    """Replace a file atomically: a reader finds the old or the new text, never a part."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)


_MAP = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def environment(pod: Pod, container: Container, ip: str, folder: Path) -> dict[str, str]:
    """Return the variables of a container; its own variables override the defaults."""
    ours = {
        "WINDLASS_CHECKPOINT_FILE": str(shown_at(folder)),
        "WINDLASS_CHECKPOINT_HOST": ip,
        "WINDLASS_TERMINATION_LOG": str(last_word_at(folder)),
    }
    return ours | {each.name: _value(pod, each, ip) for each in container.env}


def shown_at(folder: Path) -> Path:
    """Return the file of the downward API that contains all annotations."""
    return folder / "annotations"


def last_word_at(folder: Path) -> Path:
    """Return the file in which the process leaves its termination message."""
    return folder / "termination-log"


def shown(annotations: dict[str, str]) -> str:
    """Return annotations in the format of the downward API: sorted, one per line, quoted."""
    lines = (f"{key}={json.dumps(annotations[key])}" for key in sorted(annotations))
    return "\n".join(lines)


def _value(pod: Pod, variable: Variable, ip: str) -> str:
    """Return the value of a variable, or of the field that it names."""
    if variable.value_from is None or variable.value_from.field_ref is None:
        return variable.value
    path, meta = variable.value_from.field_ref.field_path, pod.metadata
    if found := _MAP.fullmatch(path):
        chosen = meta.labels if found[1] == "labels" else meta.annotations
        return chosen.get(found[2], "")
    fields = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name,
        "status.podIP": ip,
    }
    return fields.get(path, "")
