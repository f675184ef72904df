"""One pod on a node, as its kubelet remembers it, and what the kubelet wants done about it.

                     ┌────────── crashed ◀─────────┐
                     ▼                             │ runs-for, to be restarted
    admit ──▶ WAITING ── starts-after ──▶ RUNNING ─┴─ runs-for ──▶ ENDED
      │          │                           │                       ▲
      │          └───────── deletion ────────┼──▶ ENDING ── obeyed ──┤ then removed
      │                                      │    or killed          │
      │                  gone from the API ──┴──▶ KILLED ────────────┘ forgotten
      └──▶ refused ──────────────────────────────────────────────────▶

Devices are held in every stage but ENDED.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from windlass.lab.kubelet.requests import Amounts
from windlass.lab.kubelet.script import NEVER, Script
from windlass.lab.kubelet.status import Status
from windlass.lab.kubelet.wire import Pod


class Stage(Enum):
    """Where the containers of a pod are."""

    WAITING = auto()
    RUNNING = auto()
    ENDING = auto()
    KILLED = auto()
    ENDED = auto()


class Moment(NamedTuple):
    """Now: on the clock that timers follow, and as the API server writes it."""

    at: float
    stamp: str


@dataclass(slots=True)
class Sitter:
    """A pod that the kubelet has decided about."""

    pod: Pod
    script: Script
    asked: Amounts
    stage: Stage = Stage.WAITING
    due: float = NEVER
    """When the stage ends by itself."""
    started: str = ""
    restarts: int = 0
    leaving: bool = False
    """Its removal from the API server has been ordered."""


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


Effect = Write | Wake
