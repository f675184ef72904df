"""The gangs that are eligible in this cycle, and the reasons against the others.

A gang that only an outside change can unblock is refused: a missing queue, members that do not
exist yet, a pending checkpoint, or failures on several nodes. Repeated failures also tell which
side is to blame: several gangs that failed on one node speak against the node; one gang that failed
on several nodes speaks against itself, and against none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.engine.queueing.progress import Progress, ProgressCache
from windlass.model.jobs import GangId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.units import duration_in_words
from windlass.state.cluster import Cluster
from windlass.state.failures import TaskFailure

DIFFERENT = 3
"""The number of different nodes on which a gang has to fail until it is itself to blame."""


def eligible_gangs(cluster: Cluster) -> tuple[list[Progress], list[Progress]]:
    """Return the gangs with waiting tasks that are eligible, and those that are not, by name."""
    refusals = Refusals(cluster)
    eligible: list[Progress] = []
    refused: list[Progress] = []
    for progress in cluster.recall(ProgressCache).waiting():
        (eligible if refusals.reason(progress) is None else refused).append(progress)
    refused.sort(key=lambda progress: progress.gang.id)
    return eligible, refused


class Refusals:
    """The reasons against gangs as the cluster stands; most gangs have none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leaves = {queue for queue in cluster.waiting if cluster.is_leaf(queue)}
        self._checkpointing = cluster.partings.standing
        self._failing = cluster.failures.gangs()

    def reason(self, progress: Progress) -> Reason | None:
        """Return why a gang with waiting tasks is not eligible; None if it is."""
        gang = progress.gang
        if gang.refusal is not None:
            return gang.refusal
        if gang.queue not in self._leaves:
            return Reason(ReasonCode.UNKNOWN_QUEUE, {"queue": gang.queue})
        if gang.id in self._checkpointing:
            return Reason(ReasonCode.SAVING)
        if gang.id in self._failing:
            failing = _failed_everywhere(self._cluster, gang.id)
            if failing is not None:
                return failing
        if progress.short:
            seen = gang.needed() - progress.short
            return Reason(ReasonCode.INCOMPLETE, {"seen": seen, "needed": gang.needed()})
        return None


def retry_times(cluster: Cluster) -> Iterator[int]:
    """Yield the instants at which gangs that failed everywhere become eligible again."""
    for gang in cluster.failures.gangs():
        if (at := _retry_at(cluster, gang)) is not None:
            yield at


def suspect_nodes(cluster: Cluster) -> dict[str, int]:
    """Return the nodes on which gangs failed that are not to blame, with the number of gangs."""
    recent = list(_recent(cluster, cluster.failures))
    nodes: dict[GangId, set[str]] = {}
    for failure in recent:
        nodes.setdefault(failure.gang, set()).add(failure.node)
    gangs: dict[str, set[GangId]] = {}
    for failure in recent:
        if failure.against_node and len(nodes[failure.gang]) < DIFFERENT:
            gangs.setdefault(failure.node, set()).add(failure.gang)
    return {node: len(failed) for node, failed in sorted(gangs.items())}


def _failed_everywhere(cluster: Cluster, gang: GangId) -> Reason | None:
    """Return why a gang that failed everywhere is not retried yet; None if it may be."""
    retry_at = _retry_at(cluster, gang)
    if retry_at is None or retry_at <= cluster.now:
        return None
    failures = list(_recent(cluster, cluster.failures.of_gang(gang)))
    nodes = len({failure.node for failure in failures})
    values = {
        "failures": len(failures),
        "nodes": nodes,
        "wait": duration_in_words(retry_at - cluster.now),
    }
    return Reason(ReasonCode.FAILS_EVERYWHERE, values)


def _retry_at(cluster: Cluster, gang: GangId) -> int | None:
    """Return when enough of a gang's failures are old to retry it; None if nothing forbids it."""
    settings, failures = cluster.settings, cluster.failures.of_gang(gang)
    if not settings.give_up_after or len(failures) < settings.give_up_after:
        return None
    recent = list(_recent(cluster, failures))
    nodes = {failure.node for failure in recent}
    if len(recent) < settings.give_up_after or len(nodes) < DIFFERENT:
        return None
    return recent[-settings.give_up_after].at + settings.failure_window_s


def _recent(cluster: Cluster, failures: Iterable[TaskFailure]) -> Iterator[TaskFailure]:
    """Yield the failures inside the window of the settings."""
    since = cluster.now - cluster.settings.failure_window_s
    return (failure for failure in failures if failure.at > since)
