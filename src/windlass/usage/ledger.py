"""The ledger: GPU time by queue, user and model, decayed with time.

Usage decays with a half-life h. While a holder has a constant rate r of GPUs, then after d seconds

    U(t) = U0 * 2^(-d/h)  +  r * (h / ln 2) * (1 - 2^(-d/h))

so an entry changes only when its rate changes: no sampling, no time series. All entries have the
same half-life, so sums over users, models and queues are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple


class Holder(NamedTuple):
    """The key of an entry."""

    queue: str
    user: str
    model: str


class _Entry:
    """The usage of one holder as of a time, and the rate since then."""

    __slots__ = ("at", "rate", "value")

    def __init__(self, value: float, at: int) -> None:
        self.value = value
        """Decayed thousandth GPU-seconds as of `at`."""
        self.at = at
        self.rate = 0
        """Thousandths of GPU that the holder has had since `at`. Never written to disk: tasks are
        charged anew after a restart."""


class Ledger:
    """Decayed GPU time, in thousandth GPU-seconds."""

    __slots__ = ("_entries", "half_life_s")

    def __init__(self, half_life_s: int) -> None:
        self.half_life_s = half_life_s
        self._entries: dict[Holder, _Entry] = {}

    def change(self, holder: Holder, milli: int, now: int) -> None:
        """Add to the GPU thousandths that a holder has from now on; negative takes away."""
        entry = self._entries.get(holder)
        if entry is None:
            entry = self._entries[holder] = _Entry(0.0, now)
        entry.value, entry.at = self._value(entry, now), now
        entry.rate += milli

    def restore(self, holder: Holder, value: int, now: int) -> None:
        """Set the usage of a holder as of now, from a snapshot."""
        self.put(holder, float(value), now)

    def entries(self) -> Iterator[tuple[Holder, float, int]]:
        """Yield holder, value and its time for each entry: without loss, unlike `at`."""
        for holder in sorted(self._entries):
            yield holder, self._entries[holder].value, self._entries[holder].at

    def put(self, holder: Holder, value: float, at: int) -> None:
        """Set an entry to values that `entries` has yielded."""
        entry = self._entries.setdefault(holder, _Entry(0.0, at))
        entry.value, entry.at = value, at

    def keep_for(self, half_life_s: int, now: int) -> None:
        """Let usage decay with another half-life from now on."""
        for entry in self._entries.values():
            entry.value, entry.at = self._value(entry, now), now
        self.half_life_s = half_life_s

    def at(self, now: int) -> Iterator[tuple[Holder, int]]:
        """Yield the rounded usage of each holder as of now, without zeros, by holder."""
        for holder in sorted(self._entries):
            value = round(self._value(self._entries[holder], now))
            if value:
                yield holder, value

    def _value(self, entry: _Entry, now: int) -> float:
        """Return the usage of an entry as of now, by the formula above."""
        if now == entry.at:
            return entry.value
        left = 2.0 ** ((entry.at - now) / self.half_life_s)
        gained = entry.rate * (self.half_life_s / math.log(2)) * (1.0 - left)
        return entry.value * left + gained
