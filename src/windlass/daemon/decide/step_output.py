"""What to do after a step of the brain: all that is to be written, and what is to be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.daemon.decide.checkpoint_answers import Disbelieved
from windlass.daemon.decide.checkpoint_requests import EndedRequest
from windlass.daemon.decide.overlong import Shortening
from windlass.daemon.decide.quarantine import NodeMark
from windlass.daemon.decide.queue_status import Written
from windlass.engine.plan import Plan
from windlass.kube.ingest.believed import Unsigned
from windlass.kube.writers.binder import GangBinds, PodRef
from windlass.kube.writers.checkpoint import Asking, Saved, Withdrawal
from windlass.kube.writers.conditions import GangMessages
from windlass.kube.writers.evictor import GangEvictions
from windlass.kube.writers.force_delete import Stranded
from windlass.kube.writers.suspend import Turn


@dataclass(slots=True)
class StepOutput:
    """What follows from a plan."""

    plan: Plan
    starts: list[GangBinds] = field(default_factory=list[GangBinds])
    clearings: list[GangEvictions] = field(default_factory=list[GangEvictions])
    askings: list[Asking] = field(default_factory=list[Asking])
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    saved: list[Saved] = field(default_factory=list[Saved])
    """Answers that were believed."""
    disbelieved: list[Disbelieved] = field(default_factory=list[Disbelieved])
    ended: list[EndedRequest] = field(default_factory=list[EndedRequest])
    """Requests to save that are over."""
    lost: dict[str, int] = field(default_factory=dict[str, int])
    """Thousandth GPU-seconds that are lost by evictions, by rule."""
    promises: list[tuple[PodRef, str]] = field(default_factory=list[tuple[PodRef, str]])
    """Reservations that changed, and promises that are over."""
    turns: list[Turn] = field(default_factory=list[Turn])
    """Owners that are resumed, suspended again, or ours no more."""
    unsigned: list[Unsigned] = field(default_factory=list[Unsigned])
    """Suspended owners whose marks are not believed."""
    pages: list[GangMessages] = field(default_factory=list[GangMessages])
    statuses: list[Written] = field(default_factory=list[Written])
    marks: list[NodeMark] = field(default_factory=list[NodeMark])
    """What is to be written on nodes."""
    overdue: list[PodRef] = field(default_factory=list[PodRef])
    stranded: list[Stranded] = field(default_factory=list[Stranded])
    overlong: list[Shortening] = field(default_factory=list[Shortening])
    """Pods that terminate and have more time for that than the Policy allows."""
    wake_at: int | None = None
