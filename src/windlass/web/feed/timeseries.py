"""The allocations of queues and the numbers of gangs over time, in bounded memory.

A sample is taken at most once per step. When there are `MOST_SAMPLES`, every second one is dropped
and the step doubles: a short past has a fine resolution, a long one a coarse one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from windlass.engine.plan import Plan
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster
from windlass.web.feed.requested_gpus import is_waiting
from windlass.web.schema import Past

MOST_SAMPLES = 480


@dataclass(frozen=True, slots=True)
class TimeseriesSample:
    """The GPU thousandths per queue at a moment, and the numbers of gangs that wait and run."""

    at: int
    allocated: dict[str, int]
    share: dict[str, int]
    waiting: int
    running: int


@dataclass(slots=True)
class Timeseries:
    """The samples so far, the oldest first."""

    step_s: int = 60
    """The shortest time between two samples, in seconds; it doubles when samples are dropped."""
    samples: list[TimeseriesSample] = field(default_factory=list[TimeseriesSample])

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """Take a sample if one is due."""
        if self.samples and cluster.now < self.samples[-1].at + self.step_s:
            return
        allocated = {name: cluster.allocated(name, GPU) for name in cluster.queues}
        share = {name: plan.shares.get(name, {}).get(GPU, 0) for name in cluster.queues}
        waiting = sum(is_waiting(decision) for decision in plan.decisions)
        self.samples.append(
            TimeseriesSample(cluster.now, allocated, share, waiting, len(cluster.active))
        )
        if len(self.samples) >= MOST_SAMPLES:
            self.samples, self.step_s = self.samples[::2], self.step_s * 2


def past_of(samples: Sequence[TimeseriesSample], queues: Iterable[str]) -> Past:
    """Return the samples as columns; a queue that did not exist at a sample had 0 then."""
    names = list(queues)
    return Past(
        at=[sample.at for sample in samples],
        allocated={name: [sample.allocated.get(name, 0) for sample in samples] for name in names},
        share={name: [sample.share.get(name, 0) for sample in samples] for name in names},
        waiting=[sample.waiting for sample in samples],
        running=[sample.running for sample in samples],
    )
