"""The expected start (ETA) of each waiting gang, from many forward runs, with a band.

All runs begin with one snapshot; each draws its own future from a seed that the snapshot gives. The
ETA is the median of the starts; the band reaches from the 10th to the 90th percentile, stretched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from windlass.forecast.experience import Experience
from windlass.forecast.forward_run import ForwardRun
from windlass.forecast.sampling import RunRandomness
from windlass.model.jobs import GangId, TaskState
from windlass.state.snapshot import Snapshot

RUNS = 12
SEARCH_AGAIN_S = 300
"""The least time between two searches for victims in a run; see `_with_fewer_searches`."""
LEAST_RUNS = 5
"""The number of finished runs from which on ETAs are shown."""
STRETCH = 2.0
"""The exponent by which the band is widened, on a scale of factors; fitted to simulated days."""
HORIZON_S = 8 * 3600
"""The length of a forecast; later starts are not predicted."""


@dataclass(frozen=True, slots=True)
class StartEta:
    """The expected start of a gang: with a probability of 80 % between `early` and `late`."""

    early: int
    at: int | None
    """The median; None: after the end of the forecast."""
    late: int | None
    """The end of the band; None: after the end of the forecast."""


class Forecast:
    """The starts of all waiting gangs in several futures."""

    def __init__(
        self,
        snapshot: Snapshot,
        experience: Experience,
        runs: int = RUNS,
        horizon_s: int = HORIZON_S,
    ) -> None:
        self._snapshot, self._experience = _with_fewer_searches(snapshot), experience.copy()
        self._runs, self._until = runs, snapshot.now + horizon_s
        self.starts: list[Mapping[GangId, int]] = []
        """By finished run, the starts of its gangs. Append only, so that readers may look early."""

    def steps(self) -> Iterator[None]:
        """Do the work, one cycle of one run per step, so that the caller decides how fast."""
        seed = f"{self._snapshot.now} {len(self._snapshot.tasks)}"
        for run in range(self._runs):
            randomness = RunRandomness.draw(seed, run, self._runs)
            forward = ForwardRun(self._snapshot, self._experience, self._until, randomness)
            yield from forward.steps()
            self.starts.append(forward.started)

    def etas(self) -> dict[GangId, StartEta]:
        """Return the ETAs of all waiting gangs by the runs so far.

        Empty if no waiting gang started in any run: then too little is known.
        """
        waiting = {task.gang for task in self._snapshot.tasks if task.state is TaskState.WAITING}
        if not any(starts.keys() & waiting for starts in self.starts):
            return {}
        return {name: self._eta(name) for name in sorted(waiting)}

    def _eta(self, name: GangId) -> StartEta:
        never = self._until + 1
        starts = sorted(run.get(name, never) for run in self.starts)
        early, at, late = (quantile(starts, part) for part in (0.1, 0.5, 0.9))
        reached = [start if start <= self._until else None for start in (at, late)]
        eta = StartEta(min(early, self._until), *reached)
        return stretched(eta, self._snapshot.now, self._until)


def _with_fewer_searches(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with rarer searches for victims, most of the cost of a run."""
    settings = snapshot.settings
    seldom = max(settings.search_again_s, SEARCH_AGAIN_S)
    return replace(snapshot, settings=replace(settings, search_again_s=seldom))


def stretched(eta: StartEta, now: int, until: int) -> StartEta:
    """Return the ETA with the same median and a wider band.

    Real futures differ more than the drawn ones. If the median is after the end of the forecast,
    that end takes its place, and `early` is at most halfway to it.
    """
    median_s = max(1, (until if eta.at is None else eta.at) - now)

    def widen(at: int) -> int:
        return now + round(median_s * (max(1, at - now) / median_s) ** STRETCH)

    early = widen(eta.early)
    if eta.at is None:
        early = min(early, now + median_s // 2)
    return StartEta(early, eta.at, eta.late if eta.late is None else widen(eta.late))


def quantile(ordered: list[int], part: float) -> int:
    """Return the value below which a part (0 to 1) of the ordered values lies, interpolated."""
    place = part * len(ordered) - 0.5
    below = max(0, min(len(ordered) - 1, int(place)))
    above = min(len(ordered) - 1, below + 1)
    share = min(1.0, max(0.0, place - below))
    return round(ordered[below] + (ordered[above] - ordered[below]) * share)
