"""The writes that a step asks for, and their results.

These values pass between `daemon.decide`, which is pure, and `kube.writers`, which does the I/O.
The result of a bind that failed is the event `BindFailed` of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from windlass.kube.refs import PodLost, PodRead, PodRef, Switch
from windlass.model.events import BindFailed
from windlass.model.jobs import GangId
from windlass.workloads.kinds.suspension import Mark


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod and the node that it is bound to."""

    pod: PodRef
    node: str
    claims: tuple[str, ...] = ()
    """Volume claims that get the node first, and must have volumes before the pod is bound."""


@dataclass(frozen=True, slots=True)
class GangBinds:
    """The binds of one gang, and the promise to write on its first pod before; may be empty."""

    bindings: tuple[Binding, ...]
    promise: str = ""


BindResult: TypeAlias = BindFailed | PodRead | PodLost
"""A result that the binder reports; a bind that succeeds is shown by the watch."""


class To(StrEnum):
    """The state that an owner is changed to."""

    SUSPENDED = "suspended"
    RESUMED = "resumed"
    SUSPENDED_AGAIN = "suspended again"
    UNMARKED = "unmarked"


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of an owner, for a gang."""

    gang: GangId
    switch: Switch
    to: To
    mark: Mark | None = None
    """The mark to write; None removes it."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """An owner could not be changed."""

    turn: Turn
    why: str
