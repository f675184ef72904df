"""One pod on a node, as its kubelet remembers it, and what the kubelet wants done about it.

                     ┌────────── crashed ◀─────────┐
                     ▼                             │ runs-for, to be restarted
    admit ──▶ WAITING ── starts-after ──▶ RUNNING ─┴─ runs-for ──▶ ENDED
      │          │                           │                       ▲
      │          └───────── deletion ────────┼──▶ ENDING ── obeyed ──┤ then removed
      │                                      │    or killed          │
      │                  gone from the API ──┴──▶ KILLED ────────────┘ forgotten
      └──▶ refused ──────────────────────────────────────────────────▶

Devices are held in every stage but ENDED. Where a pod is a process, that ends by itself instead of
after `runs-for`, and obeying is up to it until its grace is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from windlass_lab.fake_kubelet.pod_annotations import NEVER, Script
from windlass_lab.fake_kubelet.requests import Amounts
from windlass_lab.fake_kubelet.status import Ending, Status
from windlass_lab.fake_kubelet.wire import Pod


class ContainerStage(Enum):
    """The stage of a pod's containers."""

    WAITING = auto()
    RUNNING = auto()
    ENDING = auto()
    KILLED = auto()
    ENDED = auto()


class ClockReading(NamedTuple):
    """The current time: on the clock of the timers, and as the API server writes it."""

    at: float
    stamp: str


class Exit(NamedTuple):
    """The end of a process, with its termination message."""

    code: int
    message: str = ""


@dataclass(slots=True)
class Sitter:
    """A pod that the kubelet has decided about."""

    pod: Pod
    script: Script
    asked: Amounts
    stage: ContainerStage = ContainerStage.WAITING
    due: float = NEVER
    """The time at which the stage ends by itself; None if it does not."""
    started: str = ""
    restarts: int = 0
    last: Ending | None = None
    """The end of its containers before their restart."""
    leaving: bool = False
    """True after its removal from the API server was ordered."""


@dataclass(frozen=True, slots=True)
class Write:
    """Patch the pod's status, then, if `remove`, delete the pod for good."""

    pod: Pod
    status: Status | None
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Wake:
    """Call back about the pod at this time."""

    uid: str
    at: float


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the pod's command as a process that listens at this address."""

    pod: Pod
    ip: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the pod's process: with SIGTERM, or at once."""

    uid: str
    at_once: bool


Effect = Write | Wake | Launch | Kill
