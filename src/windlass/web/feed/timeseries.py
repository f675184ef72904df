"""What the queues had over time, and how many gangs waited and ran, in bounded memory.

A sample is taken at most once per step. When the book is full every second sample goes and the
step doubles: a short past is told finely, a long one coarsely, and neither grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from windlass.engine.plan import Plan
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster
from windlass.web.documents.requested_gpus import is_waiting
from windlass.web.schema.documents import Past

MOST_SAMPLES = 480


@dataclass(frozen=True, slots=True)
class TimeseriesSample:
    """GPU thousandths per queue at a moment, and gangs."""

    at: int
    allocated: dict[str, int]
    share: dict[str, int]
    waiting: int
    running: int


@dataclass(slots=True)
class Timeseries:
    """The samples so far."""

    step_s: int = 60
    samples: list[TimeseriesSample] = field(default_factory=list[TimeseriesSample])

    def note(self, cluster: Cluster, plan: Plan) -> None:
        """Take a sample, if one is due."""
        if self.samples and cluster.now < self.samples[-1].at + self.step_s:
            return
        allocated = {name: cluster.allocated(name, GPU) for name in cluster.queues}
        share = {name: plan.shares.get(name, {}).get(GPU, 0) for name in cluster.queues}
        waiting = sum(is_waiting(each) for each in plan.decisions)
        self.samples.append(
            TimeseriesSample(cluster.now, allocated, share, waiting, len(cluster.active))
        )
        if len(self.samples) >= MOST_SAMPLES:
            self.samples, self.step_s = self.samples[::2], self.step_s * 2


def past_of(samples: Sequence[TimeseriesSample], queues: Iterable[str]) -> Past:
    """Samples as columns; a queue that did not exist then had nothing."""
    names = list(queues)
    return Past(
        at=[each.at for each in samples],
        allocated={name: [each.allocated.get(name, 0) for each in samples] for name in names},
        share={name: [each.share.get(name, 0) for each in samples] for name in names},
        waiting=[each.waiting for each in samples],
        running=[each.running for each in samples],
    )
