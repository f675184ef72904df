"""Numbers and times as people read them; used by every table and view of the command line."""

from __future__ import annotations

from windlass.model.gpus import WHOLE

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def duration(seconds: int) -> str:
    """Such as `40 s`, `11 min`, `3 h 41` or `2 d 17 h`."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 100:
        return f"{seconds} s"
    if minutes < 100:
        return f"{minutes} min"
    if days < 2:
        return f"{hours} h {minutes % 60:02}"
    return f"{days} d {hours % 24} h"


def clock(seconds: int) -> str:
    """The time of day in a simulation that began on a Monday at midnight."""
    return f"{DAYS[seconds // 86400 % 7]} {seconds // 3600 % 24:02}:{seconds // 60 % 60:02}"


def percent(part: float) -> str:
    """Such as `92.7 %`."""
    return f"{part * 100:.1f} %"


def gpus(milli: int) -> str:
    """Thousandths as GPUs: whole ones without, parts with as many decimals as they need."""
    return f"{milli // WHOLE:,}" if milli % WHOLE == 0 else f"{milli / WHOLE:,.3f}".rstrip("0")


def about(amount: float) -> str:
    """A number of GPUs or GPU-hours, rounded to what matters: one decimal below a hundred."""
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.1f}"
