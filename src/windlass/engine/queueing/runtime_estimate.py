"""The expected run time of gangs: as the user said, else as most gangs of the queue run.

Where gangs are ordered by their expected run time, an estimate that was learned from finished work
of the same kind comes between the two. Without any of these nothing is guessed: such work is never
assumed to end in time.
"""

from __future__ import annotations

from windlass.model.jobs import Gang
from windlass.model.settings import Ordering
from windlass.state.cluster import Cluster
from windlass.usage.run_times import WorkGroup


class Estimates:
    """The expected run times in one cluster, at one moment."""

    __slots__ = ("_cluster", "_typical")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._typical: dict[str, int | None] | None = None
        """Per queue; worked out on the first question, which many cycles never ask."""

    def of(self, gang: Gang) -> int | None:
        """Return the expected run time of a gang in seconds; None if nothing is known."""
        if gang.duration_s is not None:
            return gang.duration_s
        if self._cluster.settings.order is Ordering.SHORTEST:
            group = WorkGroup.of(gang, self._cluster.members(gang.id))
            learned = self._cluster.runs.estimate(group)
            if learned is not None:
                return learned.seconds
        if self._typical is None:
            self._typical = self._typical_run_times()
        return self._typical.get(gang.queue)

    def _typical_run_times(self) -> dict[str, int | None]:
        """Return the third quartile of the stated run times, per queue, in seconds."""
        stated: dict[str, list[int]] = {}
        for gang in self._cluster.gangs.values():
            if gang.duration_s is not None:
                stated.setdefault(gang.queue, []).append(gang.duration_s)
        return {queue: sorted(times)[len(times) * 3 // 4] for queue, times in stated.items()}
