"""Times as people write them: `90s`, `45m`, `2h30m`, `1d`; inside, seconds."""

from __future__ import annotations

import re

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_SPAN = re.compile("".join(rf"(?:(\d{{1,12}}){unit})?" for _, unit in _UNITS), re.ASCII)


def seconds(text: str) -> int | None:
    """A time in seconds; None if the text is none."""
    found = _SPAN.fullmatch(text)
    if not text or found is None:
        return None
    return sum(
        int(part or 0) * each for part, (each, _) in zip(found.groups(), _UNITS, strict=True)
    )


def clock(span_s: int) -> str:
    """A time as it is written, largest unit first."""
    text = ""
    for each, unit in _UNITS:
        number, span_s = divmod(span_s, each)
        text += f"{number}{unit}" if number else ""
    return text or "0s"
