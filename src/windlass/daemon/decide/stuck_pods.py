"""Pods that were told to terminate and do not do so in time.

`StuckPods` finds pods past their grace on a node that is gone or silent: no kubelet will end them.

`OverlongTerminations` finds pods that have more grace than the Policy allows. Evictions of this
scheduler are sent with a bounded grace, but others delete pods with the pod's own grace: the
controller of an owner that was suspended, or the user. The places of such a pod are not free before
it ends, so its grace is shortened. The API server counts it from the deletion on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.kube.ingest import Translator
from windlass.kube.refs import PodRef
from windlass.kube.writes import StuckPod, is_dead
from windlass.model.jobs import TaskId
from windlass.model.units import parse_timestamp_or_none
from windlass.state.cluster import Cluster
from windlass.workloads.objects import wire

SLACK_S = 10
"""Seconds that a pod has beyond the end of its grace: clocks differ, and so do kubelets."""
AGAIN_S = 30
"""Seconds after which a pod that is still there, or still has too long a grace, is tried again."""


class StuckPods:
    """Finds pods to delete by force, and remembers the last attempt of each."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator
        self._tried: dict[TaskId, int] = {}
        """The second of the last attempt; only pods that are still stuck."""

    def due(self, now: int) -> list[StuckPod]:
        """Return the pods to delete now, each at most once in `AGAIN_S`."""
        stuck = {each.pod.task: each for each in self._stuck(now)}
        self._tried = {task: at for task, at in self._tried.items() if task in stuck}
        fresh = [task for task in stuck if now - self._tried.get(task, -AGAIN_S) >= AGAIN_S]
        self._tried |= dict.fromkeys(fresh, now)
        return [stuck[task] for task in fresh]

    def wake_at(self, now: int) -> int | None:
        """Return when the next pod is due; None if none terminates on a node in trouble."""
        instants = [at + AGAIN_S for at in self._tried.values()]
        instants += [end for _, _, end in self._terminating() if end > now]
        return min(instants, default=None)

    def _stuck(self, now: int) -> Iterator[StuckPod]:
        silent_before = self._silent_before(now)
        for pod, name, end in self._terminating():
            node = self._cluster.nodes.get(name)
            if end <= now and (node is None or is_dead(node.trouble, silent_before)):
                yield StuckPod(PodRef.of(pod), name, silent_before)

    def _silent_before(self, now: int) -> int | None:
        """Return since when a node must be silent to count as dead; None: silence is no proof."""
        settings = self._cluster.settings
        is_proof = settings.delete_from_lost and settings.lost_after_s >= 0
        return now - settings.lost_after_s if is_proof else None

    def _terminating(self) -> Iterator[tuple[wire.Pod, str, int]]:
        """Yield each of our terminating pods whose node is in trouble or no longer exists, with the
        name of the node and the instant by which the pod should have ended."""
        for pod, node in self._on_bad_nodes():
            end = parse_timestamp_or_none(pod.metadata.deletion_timestamp)
            if end is not None and self._translator.scope.has_pod(pod):
                yield pod, node, end + SLACK_S

    def _on_bad_nodes(self) -> Iterator[tuple[wire.Pod, str]]:
        for task in self._cluster.leaving():
            node = self._cluster.nodes.get(task.node)
            pod = self._translator.pod(task.id)
            if pod is not None and (node is None or node.trouble is not None):
                yield pod, task.node
        yield from self._translator.orphans


@dataclass(frozen=True, slots=True)
class Shortening:
    """A terminating pod, and the grace in seconds that it has from its deletion on."""

    pod: PodRef
    grace_s: int


class OverlongTerminations:
    """Finds pods whose grace is too long, and remembers the last attempt to shorten it."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator
        self._tried: dict[TaskId, int] = {}
        """The second of the last attempt; only pods whose grace is still too long."""

    def due(self, now: int) -> list[Shortening]:
        """Return the pods in scope whose termination grace is to be shortened now."""
        longest_s = self._cluster.settings.longest_grace_s
        refs = {ref.task: ref for ref in self._above(longest_s)}
        self._tried = {task: at for task, at in self._tried.items() if task in refs}
        fresh = [task for task in refs if now - self._tried.get(task, -AGAIN_S) >= AGAIN_S]
        self._tried |= dict.fromkeys(fresh, now)
        return [Shortening(refs[task], longest_s) for task in fresh]

    def _above(self, longest_s: int) -> Iterator[PodRef]:
        for task in self._cluster.leaving():
            pod = self._translator.pod(task.id)
            if pod is None or not self._translator.scope.has_pod(pod):
                continue
            if (pod.metadata.deletion_grace_period_seconds or 0) > longest_s:
                yield PodRef.of(pod)
