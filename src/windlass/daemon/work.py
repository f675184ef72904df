"""What to do after a step of the brain: all that is to be written, and what is to be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.daemon.answers import Disbelieved
from windlass.daemon.overlong import Shortening
from windlass.daemon.parting import Ended
from windlass.daemon.quarantines import NodeMark
from windlass.daemon.statuses import Written
from windlass.engine.plan import Plan
from windlass.kube.asking import Asking, Saved, Withdrawal
from windlass.kube.believed import Unsigned
from windlass.kube.carry_out import PodRef, Start
from windlass.kube.evict import Clearing
from windlass.kube.force import Stranded
from windlass.kube.scribe import Page
from windlass.kube.suspend import Turn


@dataclass(slots=True)
class Work:
    """What follows from a plan."""

    plan: Plan
    starts: list[Start] = field(default_factory=list[Start])
    clearings: list[Clearing] = field(default_factory=list[Clearing])
    askings: list[Asking] = field(default_factory=list[Asking])
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    saved: list[Saved] = field(default_factory=list[Saved])
    """Answers that were believed."""
    disbelieved: list[Disbelieved] = field(default_factory=list[Disbelieved])
    ended: list[Ended] = field(default_factory=list[Ended])
    """Requests to save that are over."""
    lost: dict[str, int] = field(default_factory=dict[str, int])
    """Thousandth GPU-seconds that are lost by evictions, by rule."""
    promises: list[tuple[PodRef, str]] = field(default_factory=list[tuple[PodRef, str]])
    """Reservations that changed, and promises that are over."""
    turns: list[Turn] = field(default_factory=list[Turn])
    """Owners that are resumed, suspended again, or ours no more."""
    unsigned: list[Unsigned] = field(default_factory=list[Unsigned])
    """Suspended owners whose marks are not believed."""
    pages: list[Page] = field(default_factory=list[Page])
    statuses: list[Written] = field(default_factory=list[Written])
    marks: list[NodeMark] = field(default_factory=list[NodeMark])
    """What is to be written on nodes."""
    overdue: list[PodRef] = field(default_factory=list[PodRef])
    stranded: list[Stranded] = field(default_factory=list[Stranded])
    overlong: list[Shortening] = field(default_factory=list[Shortening])
    """Pods that terminate and have more time for that than the Policy allows."""
    wake_at: int | None = None
