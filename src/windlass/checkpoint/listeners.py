"""The ways in which a request to save or to exit reaches a process: signals and a file.

The environment of the pod decides which of them there are:

    WINDLASS_CHECKPOINT_SIGNAL   the signal, besides SIGTERM, at which to save and exit
    WINDLASS_CHECKPOINT_FILE     a file of the downward API: the request alone, or all annotations
    WINDLASS_CHECKPOINT_PORT     the port of the endpoint; also `…_PATH` and `…_HOST`
    WINDLASS_TERMINATION_LOG     the file of the termination message; default /dev/termination-log
    LOCAL_RANK, TORCHELASTIC_RUN_ID, TORCH_ELASTIC_SHUTDOWN_TIMEOUT   set by torchrun
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from windlass.checkpoint import protocol
from windlass.checkpoint.protocol import Ack, CheckpointRequest

log = logging.getLogger(__name__)

DEFAULT_FILE = Path("/etc/windlass/annotations")
TERMINATION_LOG = Path("/dev/termination-log")
LOOK_EVERY_S = 0.5
"""The interval at which the file is read; a kubelet takes far longer to update it."""
TORCHRUN_S = 30.0
"""The default time from SIGTERM until torchrun kills its workers, whatever grace the pod has."""

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


@dataclass(frozen=True, slots=True)
class PodEnvironment:
    """The settings for checkpoints in the environment of the process."""

    signals: tuple[signal.Signals, ...]
    """The signals at which to save and exit."""
    file: Path | None
    """The file with the request; None if its folder does not exist."""
    port: int | None
    """The port of the endpoint; None if there is none."""
    path: str
    host: str
    termination_log: Path
    is_first_in_pod: bool
    """True for one process of the pod: it has the endpoint and writes the termination message."""
    killed_after_s: float | None
    """The seconds from SIGTERM until torchrun kills the process; None without torchrun."""


def read_environment(environment: Mapping[str, str]) -> PodEnvironment:
    """Return the settings in the environment variables."""
    file = Path(environment.get("WINDLASS_CHECKPOINT_FILE", DEFAULT_FILE))
    port = environment.get("WINDLASS_CHECKPOINT_PORT", "")
    return PodEnvironment(
        _signals(environment.get("WINDLASS_CHECKPOINT_SIGNAL", "SIGTERM")),
        file if file.parent.is_dir() else None,
        int(port) if port.isdecimal() else None,  # a Service of that name sets it to a URL
        environment.get("WINDLASS_CHECKPOINT_PATH", protocol.DEFAULT_PATH),
        environment.get("WINDLASS_CHECKPOINT_HOST", ""),
        Path(environment.get("WINDLASS_TERMINATION_LOG", TERMINATION_LOG)),
        environment.get("LOCAL_RANK", "0") == "0",
        _torchrun_timeout_s(environment),
    )


class SignalListener:
    """The handler of the signals to save and exit. It sets a flag for the loop to read."""

    def __init__(self, signals: tuple[signal.Signals, ...]) -> None:
        self.received_at: float | None = None
        """The monotonic time of the first signal; None before."""
        self._before: dict[signal.Signals, _Handler] = {}
        """The handlers before ours, which `close` restores."""
        self._process = os.getpid()
        if threading.current_thread() is not threading.main_thread():
            log.warning("Signals are heard in the main thread only: make the Checkpoint there")
            return
        for number in signals:
            self._before[number] = signal.signal(number, self._handle)

    def close(self) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            # A forked child, such as a data loader, has inherited the handler: it must just end.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self.received_at is None:
            self.received_at = time.monotonic()
        before = self._before.get(signal.Signals(number))
        if callable(before):
            before(number, frame)


class RequestFile:
    """The file with the request, read at most every `LOOK_EVERY_S` seconds."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._next_read = 0.0
        self._request: CheckpointRequest | None = None

    def request(self) -> CheckpointRequest | None:
        """Return the request in the file; None if there is none, or it is withdrawn."""
        if self._file is not None and time.monotonic() >= self._next_read:
            self._request = request_in(_text(self._file))
            self._next_read = time.monotonic() + LOOK_EVERY_S
        return self._request


def request_in(text: str) -> CheckpointRequest | None:
    """Return the request in a file of the downward API: one annotation, or all of them."""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == protocol.REQUEST:
            return protocol.read_request(_unquoted(value))
    return protocol.read_request(text)


def write_termination_message(pod: PodEnvironment, ack: Ack) -> None:
    """Write an answer as the termination message of the container; outside of a pod do nothing."""
    if pod.is_first_in_pod and pod.termination_log.parent.is_dir():
        with suppress(PermissionError):
            pod.termination_log.write_text(ack.text())


def _unquoted(value: str) -> str:
    """Return the text of a quoted value; "" if it cannot be read.

    A kubelet quotes as Go does. For the characters of our messages that is the same as JSON.
    """
    try:
        text: object = json.loads(value)
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _signals(named: str) -> tuple[signal.Signals, ...]:
    if named not in signal.Signals.__members__:
        raise ValueError(f"WINDLASS_CHECKPOINT_SIGNAL is {named}; write a name such as SIGUSR1")
    return tuple({signal.SIGTERM, signal.Signals[named]})


def _torchrun_timeout_s(environment: Mapping[str, str]) -> float | None:
    if "TORCHELASTIC_RUN_ID" not in environment:
        return None
    try:
        return float(environment.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", TORCHRUN_S))
    except ValueError:
        return TORCHRUN_S
