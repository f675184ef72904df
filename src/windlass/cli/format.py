"""Numbers, times and sentences as people read them; used by every table and view."""

from __future__ import annotations

from windlass.model.gpus import WHOLE

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ENDINGS = (".", "?", "!", ":")


def sentence(clause: str, *names: str) -> str:
    """Return a clause as a sentence: with a capital first letter and a full stop at the end.

    Reasons and similar texts are clauses that begin in lower case ("it needs room for ..."), so
    that they can be joined. A clause that begins with one of the `names` keeps its first letter:
    names of gangs, pods and queues are printed as they are. An empty clause stays empty.
    """
    if not clause:
        return ""
    has_name = any(name and clause.startswith(f"{name} ") for name in names)
    first = clause[0] if has_name else clause[0].upper()
    return first + clause[1:] + ("" if clause.endswith(ENDINGS) else ".")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural, such as `1 task` or `2 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: int) -> str:
    """Return a duration such as `40 s`, `11 min`, `3 h 41` or `2 d 17 h`."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 100:
        return f"{seconds} s"
    if minutes < 100:
        return f"{minutes} min"
    if days < 2:
        return f"{hours} h {minutes % 60:02}"
    return f"{days} d {hours % 24} h"


def clock(seconds: int) -> str:
    """Return the day and time in a simulation, which begins on a Monday at midnight."""
    return f"{DAYS[seconds // 86400 % 7]} {seconds // 3600 % 24:02}:{seconds // 60 % 60:02}"


def percent(part: float) -> str:
    """Return a part of one as a percentage such as `92.7 %`."""
    return f"{part * 100:.1f} %"


def gpus(milli: int) -> str:
    """Return thousandths of GPUs as GPUs: whole numbers, or the decimals that are needed."""
    return f"{milli // WHOLE:,}" if milli % WHOLE == 0 else f"{milli / WHOLE:,.3f}".rstrip("0")


def rounded(amount: float) -> str:
    """Return a number of GPUs or GPU-hours, rounded: with one decimal if it is below 100."""
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.1f}"
