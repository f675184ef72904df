"""ETAs: when each waiting gang starts, from many runs forward, with their spread.

All runs share one snapshot; each draws its own future from a seed that the snapshot gives. The
ETA is the median of the starts, the band reaches from the tenth to the ninetieth of a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from windlass.forecast.experience import Experience
from windlass.forecast.forward_run import Ahead
from windlass.forecast.sampling import Luck
from windlass.model.jobs import GangId, TaskState
from windlass.state.snapshot import Snapshot

RUNS = 12
SEARCH_AGAIN_S = 300
LEAST_RUNS = 5
"""Fewer runs say too little."""
STRETCH = 2.0
"""How much wider the band is than the runs say, on a scale of factors: found on played days."""
HORIZON_S = 8 * 3600
"""Nothing is said about starts that are further away."""


@dataclass(frozen=True, slots=True)
class StartEta:
    """When a gang is expected to start: eight of ten times between `early` and `late`."""

    early: int
    at: int | None
    """As likely before as after; None: not before the forecast ends."""
    late: int | None
    """None: not before the forecast ends."""


class Forecast:
    """The starts of all waiting gangs in several futures."""

    def __init__(
        self,
        snapshot: Snapshot,
        experience: Experience,
        runs: int = RUNS,
        horizon_s: int = HORIZON_S,
    ) -> None:
        self._snapshot, self._experience = _hurried(snapshot), experience.copy()
        self._runs, self._until = runs, snapshot.now + horizon_s
        self.starts: list[Mapping[GangId, int]] = []

    def steps(self) -> Iterator[None]:
        """Work on it, one cycle of one run at a time: whoever asks decides how fast."""
        seed = f"{self._snapshot.now} {len(self._snapshot.tasks)}"
        for run in range(self._runs):
            luck = Luck.draw(seed, run, self._runs)
            ahead = Ahead(self._snapshot, self._experience, self._until, luck)
            yield from ahead.steps()
            self.starts.append(ahead.started)

    def etas(self) -> dict[GangId, StartEta]:
        """What the runs so far say; nothing where nobody ever starts: too little is known."""
        waiting = {each.gang for each in self._snapshot.tasks if each.state is TaskState.WAITING}
        if not any(starts.keys() & waiting for starts in self.starts):
            return {}
        return {name: self._eta(name) for name in sorted(waiting)}

    def _eta(self, name: GangId) -> StartEta:
        never = self._until + 1
        starts = sorted(each.get(name, never) for each in self.starts)
        early, at, late = (quantile(starts, part) for part in (0.1, 0.5, 0.9))
        reached = [each if each <= self._until else None for each in (at, late)]
        found = StartEta(min(early, self._until), *reached)
        return stretched(found, self._snapshot.now, self._until)


def _hurried(snapshot: Snapshot) -> Snapshot:
    """The same, with fewer searches in vain: they are most of what a run costs."""
    settings = snapshot.settings
    seldom = max(settings.search_again_s, SEARCH_AGAIN_S)
    return replace(snapshot, settings=replace(settings, search_again_s=seldom))


def stretched(eta: StartEta, now: int, until: int) -> StartEta:
    """The same middle with a wider band: real futures differ by more than the drawn ones do.

    Where the forecast ends before the middle, its end stands for it; and what no run has reached is
    not put off by more than half of it.
    """
    middle = max(1, (until if eta.at is None else eta.at) - now)

    def away(from_middle: int) -> int:
        return now + round(middle * (max(1, from_middle - now) / middle) ** STRETCH)

    early = away(eta.early)
    if eta.at is None:
        early = min(early, now + middle // 2)
    return StartEta(early, eta.at, eta.late if eta.late is None else away(eta.late))


def quantile(ordered: list[int], part: float) -> int:
    """The value below which this part of the ordered values lies."""
    place = part * len(ordered) - 0.5
    below = max(0, min(len(ordered) - 1, int(place)))
    above = min(len(ordered) - 1, below + 1)
    share = min(1.0, max(0.0, place - below))
    return round(ordered[below] + (ordered[above] - ordered[below]) * share)
