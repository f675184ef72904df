"""References to the pods behind tasks; a placeholder has no pod."""

from __future__ import annotations

from windlass.kube.ingest import Translator
from windlass.kube.refs import PodRef
from windlass.kube.writers import WaitingPod
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.state.cluster import Cluster


class PodRefs:
    """Finds the pods to write to."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator

    def of(self, task: TaskId) -> PodRef | None:
        """Return the pod behind a task; None if it is gone or a placeholder."""
        pod = self._translator.pod(task)
        return PodRef.of(pod) if pod and task not in self._translator.placeholders else None

    def surely(self, task: TaskId) -> PodRef:
        """Return the pod behind a task that is bound or evicted; it always has one."""
        pod = self._translator.pod(task)
        assert pod is not None, f"no pod behind {task}"
        return PodRef.of(pod)

    def first(self, gang: GangId) -> PodRef | None:
        """Return the first pod of a gang, which carries the Events about the whole gang."""
        members = self._translator.gangs.members(gang)
        return self.of(members[0]) if members else None

    def lead(self, gang: GangId) -> PodRef | None:
        """Return the first waiting pod of a gang, which carries its promise; None if none waits."""
        for task in self._translator.gangs.members(gang):
            is_pod = task not in self._translator.placeholders
            if is_pod and self._cluster.tasks[task].state == TaskState.WAITING:
                return self.of(task)
        return None

    def waiting(self, gang: GangId) -> list[WaitingPod]:
        """Return all waiting pods of a gang, with their present condition."""
        return [
            WaitingPod.of(PodRef.of(pod), pod)
            for task in self._translator.gangs.members(gang)
            if self._cluster.tasks[task].state == TaskState.WAITING
            and task not in self._translator.placeholders
            and (pod := self._translator.pod(task))
        ]
