"""Which pods have been told to end and have more time for it than the Policy allows.

Evictions of ours are sent with a bounded grace. Others delete pods with the pod's own grace: the
controller of an owner that was suspended, or the user. Whoever did it, the places of such a pod are
not free before it ends, so its grace is shortened. The API server counts it from the deletion on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.kube.ingest.translator import Translator
from windlass.kube.writers.binder import PodRef
from windlass.model.jobs import TaskId
from windlass.state.cluster import Cluster

AGAIN_S = 30
"""A pod whose grace is still too long is asked about again after so long."""


@dataclass(frozen=True, slots=True)
class Shortening:
    """A pod that terminates, and the seconds that it has for that from its deletion on."""

    pod: PodRef
    grace_s: int


class Overlong:
    """Remembers when the grace of a pod was last shortened."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator
        self._tried: dict[TaskId, int] = {}

    def due(self, now: int) -> list[Shortening]:
        """Return the pods of our scope whose termination grace is to be shortened now."""
        longest_s = self._cluster.settings.longest_grace_s
        found = {each.task: each for each in self._above(longest_s)}
        self._tried = {task: at for task, at in self._tried.items() if task in found}
        fresh = [each for each in found if now - self._tried.get(each, -AGAIN_S) >= AGAIN_S]
        self._tried |= dict.fromkeys(fresh, now)
        return [Shortening(found[each], longest_s) for each in fresh]

    def _above(self, longest_s: int) -> Iterator[PodRef]:
        for task in self._cluster.leaving():
            pod = self._translator.pod(task.id)
            if pod is None or not self._translator.scope.has_pod(pod):
                continue
            if (pod.metadata.deletion_grace_period_seconds or 0) > longest_s:
                yield PodRef.of(pod)
