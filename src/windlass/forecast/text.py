"""An ETA in words, the same everywhere; times are rounded as people round them."""

from __future__ import annotations

import re

from windlass.forecast.eta import StartEta
from windlass.model.units import format_timestamp, parse_timestamp_or_none

FIVE_MINUTES = 300


def eta_sentence(eta: StartEta, now: int) -> str:
    """Such as "starts in about 40 min (20 min to 1 h 30)"."""
    early = span(eta.early - now)
    if eta.at is None:
        return f"starts in {early} at the earliest"
    late = f"to {span(eta.late - now)}" if eta.late is not None else "at the earliest"
    about = span(eta.at - now)
    if eta.late is not None and early == span(eta.late - now):
        return f"starts in about {about}"
    return f"starts in about {about} ({early} {late})"


def eta_by_the_clock(eta: StartEta, now: int) -> str:
    """The same where it is read later, such as on a pod: by the clock, to five minutes."""
    early = _clock(max(eta.early, now))
    if eta.at is None:
        return f"starts at {early} UTC at the earliest"
    about = _clock(max(eta.at, now))
    if eta.late is None:
        return f"starts at about {about} UTC ({early[11:]} at the earliest)"
    late = _clock(max(eta.late, now))
    band = "" if early == late else f" ({early[11:]} to {late[11:]})"
    return f"starts at about {about} UTC{band}"


def found_in(message: str, now: int) -> str:
    """That sentence in what a pod was told; empty if it is not there, or of a time gone by."""
    last = message.rpartition("; ")[2]
    if not last.lower().startswith("starts at "):
        return ""
    told = _TIME.search(last)
    at = parse_timestamp_or_none(f"{told[1]}T{told[2]}:00Z") if told else None
    return last if at is None or at >= now else ""


_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}) UTC")


def _clock(at: int) -> str:
    """The next full five minutes: what is expected never lies in the past."""
    rounded = -(-at // FIVE_MINUTES) * FIVE_MINUTES
    return format_timestamp(rounded)[:16].replace("T", " ")


def span(seconds: int) -> str:
    """A time in a few words: minutes, beyond a quarter of an hour in fives, hours in tens."""
    minutes = max(1, round(seconds / 60))
    step = 1 if minutes < 15 else 5 if minutes < 120 else 10
    hours, minutes = divmod(step * round(minutes / step), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02}" if minutes else f"{hours} h"
