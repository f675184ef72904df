"""The ledger: GPU time per queue, user and model, counting less the longer ago it was.

Usage decays with a half-life h. While someone holds GPUs at a constant rate r,

    U(t) = U0 * 2^(-d/h)  +  r * (h / ln 2) * (1 - 2^(-d/h))

so an entry is only touched when a rate changes: no sampling, no time series. All entries share one
half-life, hence sums over users, models and queues are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple


class Holder(NamedTuple):
    """Whose use is counted."""

    queue: str
    user: str
    model: str


class _Entry:
    __slots__ = ("at", "rate", "value")

    def __init__(self, value: float, at: int) -> None:
        self.value, self.rate, self.at = value, 0, at


class Ledger:
    """Decayed GPU time, in thousandth GPU-seconds."""

    __slots__ = ("_entries", "half_life_s")

    def __init__(self, half_life_s: int) -> None:
        self.half_life_s = half_life_s
        self._entries: dict[Holder, _Entry] = {}

    def change(self, holder: Holder, milli: int, now: int) -> None:
        """From now on the holder has so much more (or less) GPU."""
        entry = self._entries.get(holder)
        if entry is None:
            entry = self._entries[holder] = _Entry(0.0, now)
        entry.value, entry.at = self._value(entry, now), now
        entry.rate += milli

    def restore(self, holder: Holder, value: int, now: int) -> None:
        """Take over usage that was written down."""
        self.put(holder, float(value), now)

    def entries(self) -> Iterator[tuple[Holder, float, int]]:
        """Every value as it is kept, and since when: without loss, unlike `at`."""
        for holder in sorted(self._entries):
            yield holder, self._entries[holder].value, self._entries[holder].at

    def put(self, holder: Holder, value: float, at: int) -> None:
        """Take over an entry as `entries` gave it."""
        entry = self._entries.setdefault(holder, _Entry(0.0, at))
        entry.value, entry.at = value, at

    def keep_for(self, half_life_s: int, now: int) -> None:
        """From now on usage decays with another half-life."""
        for entry in self._entries.values():
            entry.value, entry.at = self._value(entry, now), now
        self.half_life_s = half_life_s

    def at(self, now: int) -> Iterator[tuple[Holder, int]]:
        """All usage as of now, in order of the holders."""
        for holder in sorted(self._entries):
            value = round(self._value(self._entries[holder], now))
            if value:
                yield holder, value

    def _value(self, entry: _Entry, now: int) -> float:
        if now == entry.at:
            return entry.value
        left = 2.0 ** ((entry.at - now) / self.half_life_s)
        gained = entry.rate * (self.half_life_s / math.log(2)) * (1.0 - left)
        return entry.value * left + gained
