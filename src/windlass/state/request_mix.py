"""The request mix: the requests of recent tasks, as the best guess at those to come.

Each arrival of a task counts once. Counts decay by arrivals, not by time: when the total is full,
all counts are halved, and of too many different requests the rarest are dropped. Scores depend on
the mix, so placement does not follow every arrival; it uses the mix that was last adopted. Both the
recent counts and the adopted mix are part of a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.model.resources import Request
from windlass.state.snapshot import RequestArrivals

FEWEST = 32
"""The arrivals before a first mix is adopted; fewer say nothing."""
ONE = 16
"""The weight of one arrival: it survives four halvings."""
MOST = 8192 * ONE
"""The total at which all counts are halved."""
MOST_ROWS = 512
"""The number of different requests above which the rarer half is dropped."""


class ArrivalCounts:
    """The counts of arrivals. Until the first halving or drop, their order has no effect."""

    __slots__ = ("_kept", "_lately", "_total", "known", "since")

    def __init__(self, arrived: Iterable[RequestArrivals] = (), since: int = 0) -> None:
        rows = sorted(arrived, key=lambda row: _order(row.request))
        self._lately = {row.request: row.lately for row in rows if row.lately}
        """The weight of recent arrivals, by request without extras and ports."""
        self._total = sum(self._lately.values())
        """The sum of `_lately`, at most MOST."""
        self._kept: dict[Request, Request] = {}
        """A cache: the request without extras and ports, by request."""
        self.known: tuple[tuple[Request, int], ...] = tuple(
            (row.request, row.known) for row in rows if row.known
        )
        """The adopted mix: the requests that placement expects, and the weight of each."""
        self.since = since
        """The arrivals since that mix was adopted."""

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
        """Adopt the recent counts if half as many tasks again have arrived; return whether so."""
        if self.since < max(FEWEST, sum(count for _, count in self.known) // (2 * ONE)):
            return False
        self.known = tuple(sorted(self._lately.items(), key=lambda row: _order(row[0])))
        self.since = 0
        return True

    def arrived(self) -> tuple[RequestArrivals, ...]:
        """Return the recent counts and the adopted mix as rows, in order of the requests."""
        known = dict(self.known)
        requests = sorted({*self._lately, *known}, key=_order)
        return tuple(
            RequestArrivals(request, self._lately.get(request, 0), known.get(request, 0))
            for request in requests
        )

    def _halve(self) -> None:
        halved = ((request, count // 2) for request, count in self._lately.items())
        self._lately = {request: count for request, count in halved if count}
        self._total = sum(self._lately.values())

    def _drop_rare(self) -> None:
        rows = sorted(self._lately.items(), key=lambda row: (-row[1], _order(row[0])))
        self._lately = dict(rows[: MOST_ROWS // 2])
        self._total = sum(self._lately.values())


def _order(request: Request) -> str:
    return repr(request)
