"""Who may stand in line: not whom nothing but somebody else's deed would help."""

from __future__ import annotations

from windlass.engine.queueing.failing import gives_up
from windlass.engine.queueing.progress import Progress, Progresses
from windlass.model.reasons import Reason, ReasonCode
from windlass.state.cluster import Cluster


class Refusals:
    """What speaks against gangs, as things stand; against most of them nothing does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leaves = {queue for queue in cluster.waiting if cluster.is_leaf(queue)}
        self._saving = cluster.partings.standing
        self._failing = cluster.failures.gangs()

    def of(self, progress: Progress) -> Reason | None:
        """Why a gang with waiting tasks may not stand in line; None if it may."""
        gang = progress.gang
        if gang.refusal is not None:
            return gang.refusal
        if gang.queue not in self._leaves:
            return Reason(ReasonCode.UNKNOWN_QUEUE, {"queue": gang.queue})
        if gang.id in self._saving:
            return Reason(ReasonCode.SAVING)
        if gang.id in self._failing and (failing := gives_up(self._cluster, gang.id)) is not None:
            return failing
        if progress.short:
            seen = gang.needed() - progress.short
            return Reason(ReasonCode.INCOMPLETE, {"seen": seen, "needed": gang.needed()})
        return None


def in_line(cluster: Cluster) -> tuple[list[Progress], list[Progress]]:
    """The gangs with waiting tasks that may stand in line, and those that may not, by name."""
    refusals = Refusals(cluster)
    ready: list[Progress] = []
    refused: list[Progress] = []
    for progress in cluster.recall(Progresses).waiting():
        (ready if refusals.of(progress) is None else refused).append(progress)
    refused.sort(key=lambda each: each.gang.id)
    return ready, refused
