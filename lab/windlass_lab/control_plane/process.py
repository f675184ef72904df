"""One program of the plane as a process: started, paused, ended by its own pid, with its log kept.

    new ──start──► running ──pause──► paused        stop: SIGTERM, after a while SIGKILL
                    ▲ │ ▲              │            any number of starts and stops may follow
                 start stop └──resume──┘
                    └─┴─ ended

Each is a session of its own, so that Ctrl-C reaches only the owner, who ends them in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from windlass_lab.control_plane import reaper as keeper
from windlass_lab.control_plane.errors import PlaneFailed

PATIENCE_SECONDS = 5
"""The seconds between SIGTERM and SIGKILL; an API server with open watches would take a minute to
stop."""
LAST_LINES = 15
PASSED_ON = {"PATH", "HOME", "TMPDIR", "GOGC", "GOMAXPROCS", "GOMEMLIMIT"}
"""The environment variables that are passed on. No others: etcd, for one, reads every flag from a
variable too."""


class Keeper:
    """Ensures that processes do not outlive this one; see `reaper`."""

    def __init__(self, folder: Path | None) -> None:
        words = [sys.executable, "-I", "-S", keeper.__file__, *([str(folder)] if folder else [])]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def add(self, pid: int) -> None:
        """Register a process that must end with this one."""
        self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Remove a process that has ended; its pid may be reused soon."""
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        """End the remaining processes and remove a temporary folder."""
        if self._process.stdin and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin is None or self._process.poll() is not None:
            raise PlaneFailed("the keeper of the control plane's processes has been ended")
        self._process.stdin.write(line)
        self._process.stdin.flush()


class Process:
    """A program of the plane with its command line."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        log: Path,
        keeper: Keeper,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the process; the variables are added to the environment that is passed on."""
        self.name = name
        self.words = tuple(words)
        self.log = log
        self._keeper = keeper
        self._variables = dict(variables or {})
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The pid while it runs; None otherwise."""
        return self._running.pid if self._running else None

    @property
    def is_running(self) -> bool:
        """Return whether it was started and has not ended since."""
        return self._running is not None and self._running.poll() is None

    def start(self) -> None:
        """Start it; its output is appended to its log."""
        if self.is_running:
            raise PlaneFailed(f"{self.name} runs already, as process {self.pid}")
        self.stop()  # one that has ended by itself is still to be forgotten
        environment = {key: value for key, value in os.environ.items() if key in PASSED_ON}
        with self.log.open("ab") as stream:
            self._running = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env=environment | self._variables,
                start_new_session=True,
            )
        self._keeper.add(self._running.pid)

    def stop(self, *, at_once: bool = False) -> None:
        """End it if it runs: with SIGTERM first, or at once, as in a crash."""
        if not (process := self._running):
            return
        process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
        process.send_signal(signal.SIGCONT)  # a paused process would not hear it
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._keeper.forget(process.pid)
        self._running = None

    def pause(self) -> None:
        """Stop the process where it is: connections stay open and are not answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process."""
        self._signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise `PlaneFailed` with the end of its log if it is not running."""
        if not self.is_running:
            status = self._running.returncode if self._running else "none"
            raise PlaneFailed(f"{self.name} ended with status {status}; {self.last_words()}")

    def last_words(self) -> str:
        """Return the end of its log, for a message."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return f"the end of {self.log}:\n" + "\n".join(lines[-LAST_LINES:])

    def _signal(self, number: signal.Signals) -> None:
        self.check()
        if self._running:
            self._running.send_signal(number)
