"""An ETA in words, the same in all outputs, with times rounded as people round them."""

from __future__ import annotations

import re

from windlass.forecast.eta import StartEta
from windlass.model.units import format_timestamp, parse_timestamp_or_none

FIVE_MINUTES = 300


def eta_sentence(eta: StartEta, now: int) -> str:
    """Return a sentence such as "starts in about 40 min (20 min to 1 h 30)"."""
    early = rounded_duration(eta.early - now)
    if eta.at is None:
        return f"starts in {early} at the earliest"
    late = f"to {rounded_duration(eta.late - now)}" if eta.late is not None else "at the earliest"
    about = rounded_duration(eta.at - now)
    if eta.late is not None and early == rounded_duration(eta.late - now):
        return f"starts in about {about}"
    return f"starts in about {about} ({early} {late})"


def eta_by_the_clock(eta: StartEta, now: int) -> str:
    """Return a sentence with times of day (UTC), for readers at a later time, as on pods."""
    early = _clock(max(eta.early, now))
    if eta.at is None:
        return f"starts at {early} UTC at the earliest"
    about = _clock(max(eta.at, now))
    if eta.late is None:
        return f"starts at about {about} UTC ({early[11:]} at the earliest)"
    late = _clock(max(eta.late, now))
    band = "" if early == late else f" ({early[11:]} to {late[11:]})"
    return f"starts at about {about} UTC{band}"


def eta_in_message(message: str, now: int) -> str:
    """Return the sentence of `eta_by_the_clock` in a pod's message.

    Empty if the message has none, or if its time has passed.
    """
    last = message.rpartition("; ")[2]
    if not last.lower().startswith("starts at "):
        return ""
    time = _TIME.search(last)
    at = parse_timestamp_or_none(f"{time[1]}T{time[2]}:00Z") if time else None
    return last if at is None or at >= now else ""


_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}) UTC")


def _clock(at: int) -> str:
    """Return a time rounded up to five minutes, so that it is never in the past."""
    rounded = -(-at // FIVE_MINUTES) * FIVE_MINUTES
    return format_timestamp(rounded)[:16].replace("T", " ")


def rounded_duration(seconds: int) -> str:
    """Return a rounded duration: to minutes, from 15 min to 5 min, from 2 h to 10 min."""
    minutes = max(1, round(seconds / 60))
    step = 1 if minutes < 15 else 5 if minutes < 120 else 10
    hours, minutes = divmod(step * round(minutes / step), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02}" if minutes else f"{hours} h"
