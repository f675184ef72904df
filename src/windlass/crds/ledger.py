"""The ledger in a queue's status: usage per user and model that survives a restart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from windlass.crds.queue import MOST_ENTRIES, LedgerWords, UsageEntry
from windlass.model import units


class LedgerEntry(NamedTuple):
    """GPU time (thousandth GPU-seconds) of one user on one model."""

    user: str
    model: str
    milli_seconds: int


def write_ledger(used: Iterable[LedgerEntry], at: int) -> LedgerWords:
    """The ledger of one queue as of a moment.

    An object has little room. Of too many entries, the smallest are put together under no user,
    per model: the queue's own usage stays exact.
    """
    largest = sorted(used, key=lambda each: (-each.milli_seconds, each.user, each.model))
    kept, rest = largest, list[LedgerEntry]()
    if len(largest) > MOST_ENTRIES:
        most = max(0, MOST_ENTRIES - len({each.model for each in largest}))
        kept, rest = largest[:most], largest[most:]
    sums: dict[tuple[str, str], int] = {(each.user, each.model): each[2] for each in kept}
    for each in rest:
        sums["", each.model] = sums.get(("", each.model), 0) + each.milli_seconds
    entries = [
        UsageEntry(user=user, model=model, milli_seconds=value)
        for (user, model), value in sorted(sums.items())
        if value
    ]
    return LedgerWords(at=units.format_timestamp(at), entries=entries)


def read_ledger(
    ledger: Mapping[str, Any] | None, half_life_s: int, now: int
) -> Iterator[LedgerEntry]:
    """What was written down, decayed to now; a ledger that cannot be read counts as empty."""
    try:
        words = LedgerWords.model_validate(ledger)
        since = max(0, now - units.parse_timestamp(words.at))
    except (ValidationError, ValueError):
        return
    left = 2.0 ** (-since / half_life_s)
    for entry in words.entries:
        value = round(entry.milli_seconds * left)
        if value:
            yield LedgerEntry(entry.user, entry.model, value)
