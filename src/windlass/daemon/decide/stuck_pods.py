"""Which pods are stranded: told to go, past their grace, on a node that is gone or silent."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.kube.ingest.translator import Translator
from windlass.kube.writers.binder import PodRef
from windlass.kube.writers.force_delete import Stranded, is_dead
from windlass.model.jobs import TaskId
from windlass.model.units import parse_timestamp_or_none
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire

SLACK_S = 10
"""Past the end of its grace a pod has so much longer: clocks differ, and so do kubelets."""
AGAIN_S = 30
"""A pod that is still there is looked at again after so long."""


class Strandeds:
    """Remembers which of them are being dealt with."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator
        self._tried: dict[TaskId, int] = {}

    def due(self, now: int) -> list[Stranded]:
        """Those that are to be deleted now."""
        found = {each.pod.task: each for each in self._stranded(now)}
        self._tried = {task: at for task, at in self._tried.items() if task in found}
        fresh = [
            each for task, each in found.items() if now - self._tried.get(task, -AGAIN_S) >= AGAIN_S
        ]
        self._tried |= {each.pod.task: now for each in fresh}
        return fresh

    def wake_at(self, now: int) -> int | None:
        """When the next one is."""
        instants = [at + AGAIN_S for at in self._tried.values()]
        instants += [end for _, _, end in self._ending() if end > now]
        return min(instants, default=None)

    def _stranded(self, now: int) -> Iterator[Stranded]:
        before = self._silent_before(now)
        for pod, node, end in self._ending():
            there = self._cluster.nodes.get(node)
            if end <= now and (there is None or is_dead(there.trouble, before)):
                yield Stranded(PodRef.of(pod), node, before)

    def _silent_before(self, now: int) -> int | None:
        settings = self._cluster.settings
        is_believed = settings.delete_from_lost and settings.lost_after_s >= 0
        return now - settings.lost_after_s if is_believed else None

    def _ending(self) -> Iterator[tuple[wire.Pod, str, int]]:
        """Our pods that terminate on nodes in trouble or gone, and when they should be gone."""
        for pod, node in self._candidates():
            end = parse_timestamp_or_none(pod.metadata.deletion_timestamp)
            if end is not None and self._translator.scope.has_pod(pod):
                yield pod, node, end + SLACK_S

    def _candidates(self) -> Iterator[tuple[wire.Pod, str]]:
        for task in self._cluster.leaving():
            node = self._cluster.nodes.get(task.node)
            pod = self._translator.pod(task.id)
            if pod is not None and (node is None or node.trouble is not None):
                yield pod, task.node
        yield from self._translator.away
