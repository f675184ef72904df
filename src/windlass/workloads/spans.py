"""Times as people write them in annotations: `90s`, `45m`, `2h30m`, `1d`."""

from __future__ import annotations

import re

_SPAN = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)


def seconds(text: str) -> int | None:
    """The time in seconds; None if it cannot be read as one."""
    found = _SPAN.fullmatch(text)
    if not text or found is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest
