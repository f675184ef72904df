"""How long work will run: as its user said, else as long as most of its queue's work.

Where gangs are ordered by estimates, what was learned from like work that has ended comes before
the last.

Where nothing is known nothing is guessed: such work is never taken to end in time.
"""

from __future__ import annotations

from windlass.model.jobs import Gang
from windlass.model.settings import Ordering
from windlass.state.cluster import Cluster
from windlass.usage.run_times import WorkGroup


class Estimates:
    """Expected run times in one cluster, at one moment."""

    __slots__ = ("_cluster", "_usual")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._usual: dict[str, int | None] | None = None

    def of(self, gang: Gang) -> int | None:
        """The expected run time of a gang in seconds; None if there is nothing to go by."""
        if gang.duration_s is not None:
            return gang.duration_s
        if self._cluster.settings.order is Ordering.SHORTEST:
            like = WorkGroup.of(gang, self._cluster.members(gang.id))
            learned = self._cluster.runs.estimate(like)
            if learned is not None:
                return learned.seconds
        if self._usual is None:
            self._usual = self._work_out()
        return self._usual.get(gang.queue)

    def _work_out(self) -> dict[str, int | None]:
        """Per queue what three of four known gangs do not exceed."""
        known: dict[str, list[int]] = {}
        for gang in self._cluster.gangs.values():
            if gang.duration_s is not None:
                known.setdefault(gang.queue, []).append(gang.duration_s)
        return {queue: sorted(some)[len(some) * 3 // 4] for queue, some in known.items()}
