"""The mix: what tasks have asked for lately, which is the best guess at what comes next.

A tally of requests, each arrival once. It forgets by arrivals, not by the clock: when it is full,
all counts are halved, and of too many different requests the rarest are dropped. Placement does not
follow every arrival, for a new mix makes every score anew; it reckons with the mix that was last
taken over. Both are part of a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.model.resources import Request
from windlass.state.snapshot import RequestArrivals

FEWEST = 32
"""Fewer arrivals say nothing about the mix: until then none is known."""
ONE = 16
"""What an arrival counts, so that halving leaves something of it four times."""
MOST = 8192 * ONE
"""The tally is halved here."""
MOST_ROWS = 512
"""Of more different requests than this, which is far more than matter, half are dropped."""


class ArrivalCounts:
    """Counts arrivals; the order in which they come does not show until it begins to forget."""

    __slots__ = ("_kept", "_lately", "_total", "known", "since")

    def __init__(self, arrived: Iterable[RequestArrivals] = (), since: int = 0) -> None:
        rows = sorted(arrived, key=lambda each: _order(each.request))
        self._lately = {each.request: each.lately for each in rows if each.lately}
        self._total = sum(self._lately.values())
        self._kept: dict[Request, Request] = {}
        self.known: tuple[tuple[Request, int], ...] = tuple(
            (each.request, each.known) for each in rows if each.known
        )
        """The requests with which placement reckons, and how much each counts."""
        self.since = since
        """Arrivals since that mix was taken over."""

    def see(self, request: Request) -> None:
        """Count an arrival."""
        kept = self._kept.get(request)
        if kept is None:
            if len(self._kept) >= MOST_ROWS:
                self._kept.clear()
            kept = self._kept[request] = replace(request, extra=(), ports=())
        self._lately[kept] = self._lately.get(kept, 0) + ONE
        self._total += ONE
        self.since += 1
        if self._total > MOST:
            self._halve()
        elif len(self._lately) > MOST_ROWS:
            self._drop_rare()

    def take_over(self) -> bool:
        """Reckon with the tally as it is now, if half as many again have come; was it so?"""
        if self.since < max(FEWEST, sum(count for _, count in self.known) // (2 * ONE)):
            return False
        self.known = tuple(sorted(self._lately.items(), key=lambda row: _order(row[0])))
        self.since = 0
        return True

    def arrived(self) -> tuple[RequestArrivals, ...]:
        """The tally and the known mix as rows, in an order that does not depend on history."""
        known = dict(self.known)
        requests = sorted({*self._lately, *known}, key=_order)
        return tuple(
            RequestArrivals(each, self._lately.get(each, 0), known.get(each, 0))
            for each in requests
        )

    def _halve(self) -> None:
        halved = ((each, count // 2) for each, count in self._lately.items())
        self._lately = {each: count for each, count in halved if count}
        self._total = sum(self._lately.values())

    def _drop_rare(self) -> None:
        rows = sorted(self._lately.items(), key=lambda row: (-row[1], _order(row[0])))
        self._lately = dict(rows[: MOST_ROWS // 2])
        self._total = sum(self._lately.values())


def _order(request: Request) -> str:
    return repr(request)
