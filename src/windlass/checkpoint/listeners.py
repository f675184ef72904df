"""How a process hears that it is to save or to leave: signals, a file, an endpoint.

What the pod has is found out from its environment:

    WINDLASS_CHECKPOINT_SIGNAL   besides SIGTERM, the signal at which to save and leave
    WINDLASS_CHECKPOINT_FILE     a file of the downward API: the request alone, or all annotations
    WINDLASS_CHECKPOINT_PORT     the port of an endpoint; `…_PATH` and `…_HOST` say more
    WINDLASS_TERMINATION_LOG     where the last word goes; /dev/termination-log without it
    LOCAL_RANK, TORCHELASTIC_RUN_ID, TORCH_ELASTIC_SHUTDOWN_TIMEOUT   torchrun's own
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
"""A kubelet takes far longer to renew the file."""
TORCHRUN_S = 30.0
"""So long after SIGTERM torchrun kills its workers, whatever grace the pod has."""

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the pod has for us to hear and to speak with."""

    signals: tuple[signal.Signals, ...]
    file: Path | None
    port: int | None
    path: str
    host: str
    last_word: Path
    speaks: bool
    """Of several processes in a pod, only the first has the endpoint and the last word."""
    killed_after_s: float | None
    """From SIGTERM to SIGKILL, where somebody nearer than the kubelet counts."""


def look_around(environment: Mapping[str, str]) -> Surroundings:
    """Find out what the pod has."""
    file = Path(environment.get("WINDLASS_CHECKPOINT_FILE", DEFAULT_FILE))
    port = environment.get("WINDLASS_CHECKPOINT_PORT", "")
    return Surroundings(
        _signals(environment.get("WINDLASS_CHECKPOINT_SIGNAL", "SIGTERM")),
        file if file.parent.is_dir() else None,
        int(port) if port.isdecimal() else None,  # a Service of that name sets it to an address
        environment.get("WINDLASS_CHECKPOINT_PATH", protocol.DEFAULT_PATH),
        environment.get("WINDLASS_CHECKPOINT_HOST", ""),
        Path(environment.get("WINDLASS_TERMINATION_LOG", TERMINATION_LOG)),
        environment.get("LOCAL_RANK", "0") == "0",
        _patience_of_torchrun(environment),
    )


class Alarm:
    """Signals that say: save and leave. They only raise a flag; the loop looks between steps."""

    def __init__(self, signals: tuple[signal.Signals, ...]) -> None:
        self.rang_at: float | None = None
        """When it was first told, by the monotonic clock."""
        self._before: dict[signal.Signals, _Handler] = {}
        self._process = os.getpid()
        if threading.current_thread() is not threading.main_thread():
            log.warning("Signals are heard in the main thread only: make the Checkpoint there")
            return
        for number in signals:
            self._before[number] = signal.signal(number, self._ring)

    def close(self) -> None:
        """Let others handle the signals again."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a forked child, such as one that loads data: it obeys
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.rang_at = time.monotonic() if self.rang_at is None else self.rang_at
        before = self._before.get(signal.Signals(number))
        if callable(before):
            before(number, frame)


class Letterbox:
    """A request in a file, looked at now and then."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._next = 0.0
        self._found: CheckpointRequest | None = None

    def request(self) -> CheckpointRequest | None:
        """The request that stands there; None once it is withdrawn."""
        if self._file is not None and time.monotonic() >= self._next:
            self._found = request_in(_text(self._file))
            self._next = time.monotonic() + LOOK_EVERY_S
        return self._found


def request_in(text: str) -> CheckpointRequest | None:
    """The request in a file of the downward API, which holds one annotation or all of them."""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == protocol.REQUEST:
            return protocol.read_request(_unquoted(value))
    return protocol.read_request(text)


def leave_word(around: Surroundings, ack: Ack) -> None:
    """Write the termination message of this container; outside of a pod there is none."""
    if around.speaks and around.last_word.parent.is_dir():
        with suppress(PermissionError):
            around.last_word.write_text(ack.text())


def _unquoted(value: str) -> str:
    """A kubelet quotes as Go does; of that, our messages need only what JSON has too."""
    try:
        found: object = json.loads(value)
    except ValueError:
        return ""
    return found if isinstance(found, str) else ""


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _signals(named: str) -> tuple[signal.Signals, ...]:
    if named not in signal.Signals.__members__:
        raise ValueError(f"WINDLASS_CHECKPOINT_SIGNAL is {named}; write a name such as SIGUSR1")
    return tuple({signal.SIGTERM, signal.Signals[named]})


def _patience_of_torchrun(environment: Mapping[str, str]) -> float | None:
    if "TORCHELASTIC_RUN_ID" not in environment:
        return None
    try:
        return float(environment.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", TORCHRUN_S))
    except ValueError:
        return TORCHRUN_S
