"""An ETA in words, the same everywhere; times are rounded as people round them."""

from __future__ import annotations

from windlass.forecast.eta import Eta
from windlass.model.moments import written

FIVE_MINUTES = 300


def eta_sentence(eta: Eta, now: int) -> str:
    """Such as "starts in about 40 min (20 min to 1 h 30)"."""
    early = span(eta.early - now)
    if eta.at is None:
        return f"starts in {early} at the earliest"
    late = f"to {span(eta.late - now)}" if eta.late is not None else "at the earliest"
    about = span(eta.at - now)
    if eta.late is not None and early == span(eta.late - now):
        return f"starts in about {about}"
    return f"starts in about {about} ({early} {late})"


def eta_by_the_clock(eta: Eta) -> str:
    """The same where it is read later, such as on a pod: by the clock, to five minutes."""
    if eta.at is None:
        return f"starts at {_clock(eta.early)} UTC at the earliest"
    late = f"to {_clock(eta.late)[11:]}" if eta.late is not None else "at the earliest"
    return f"starts at about {_clock(eta.at)} UTC ({_clock(eta.early)[11:]} {late})"


def found_in(message: str) -> str:
    """That sentence in what a pod was told; empty if it is not there."""
    last = message.rpartition("; ")[2]
    return last if last.lower().startswith("starts at ") else ""


def _clock(at: int) -> str:
    rounded = (at + FIVE_MINUTES // 2) // FIVE_MINUTES * FIVE_MINUTES
    return written(rounded)[:16].replace("T", " ")


def span(seconds: int) -> str:
    """A time in a few words: minutes, beyond a quarter of an hour in fives, hours in tens."""
    minutes = max(1, round(seconds / 60))
    step = 1 if minutes < 15 else 5 if minutes < 120 else 10
    hours, minutes = divmod(step * round(minutes / step), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02}" if minutes else f"{hours} h"
