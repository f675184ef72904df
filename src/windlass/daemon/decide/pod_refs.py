"""The pods behind tasks; behind a stand-in there is none."""

from __future__ import annotations

from windlass.kube.ingest.translator import Translator
from windlass.kube.writers.binder import PodRef
from windlass.kube.writers.conditions import WaitingPod
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.state.cluster import Cluster


class Pods:
    """Finds whom to write to."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator

    def of(self, task: TaskId) -> PodRef | None:
        """The pod behind a task."""
        pod = self._translator.pod(task)
        return PodRef.of(pod) if pod and task not in self._translator.filling else None

    def surely(self, task: TaskId) -> PodRef:
        """The pod behind a task that is bound or evicted: it has one."""
        pod = self._translator.pod(task)
        assert pod is not None, f"no pod behind {task}"
        return PodRef.of(pod)

    def first(self, gang: GangId) -> PodRef | None:
        """The first pod of a gang: what is said about all of it is said there."""
        members = self._translator.gangs.members(gang)
        return self.of(members[0]) if members else None

    def lead(self, gang: GangId) -> PodRef | None:
        """The first pod of a gang that waits: promises are written there."""
        for task in self._translator.gangs.members(gang):
            is_there = task not in self._translator.filling
            if is_there and self._cluster.tasks[task].state == TaskState.WAITING:
                return self.of(task)
        return None

    def waiting(self, gang: GangId) -> list[WaitingPod]:
        """All pods of a gang that wait."""
        return [
            WaitingPod.of(PodRef.of(pod), pod)
            for task in self._translator.gangs.members(gang)
            if self._cluster.tasks[task].state == TaskState.WAITING
            and task not in self._translator.filling
            and (pod := self._translator.pod(task))
        ]
