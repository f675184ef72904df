"""What pods say about saving and cannot be read: told once per gang, and refused to nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.kube.writers.binder import PodRef
from windlass.kube.writers.conditions import EventMessage, GangMessages
from windlass.model.jobs import GangId, TaskId
from windlass.workloads.objects.wire import Pod
from windlass.workloads.pods.checkpointing import complaints
from windlass.workloads.pods.task import task_id

MOST = 10_000


class Complaints:
    """What was told to whom."""

    def __init__(self, gang_of: Callable[[TaskId], GangId | None]) -> None:
        self._gang_of = gang_of
        self._told: dict[tuple[GangId, str], None] = {}
        self._due: list[GangMessages] = []

    def see(self, pod: Pod) -> None:
        """A pod of ours is new or has changed."""
        if not pod.metadata.annotations or not (found := "; ".join(complaints(pod))):
            return
        task = task_id(pod)
        gang = self._gang_of(task)
        if gang is None or (gang, found) in self._told:
            return
        self._told[gang, found] = None
        if len(self._told) > MOST:
            self._told.pop(next(iter(self._told)))
        meta = pod.metadata
        ref = PodRef(task, meta.namespace, meta.name, meta.uid)
        text = found[:1].upper() + found[1:]
        self._due.append(
            GangMessages(note=EventMessage(ref, "CheckpointUnreadable", text, is_warning=True))
        )

    def due(self) -> Iterator[GangMessages]:
        """What is to be told now."""
        yield from self._due
        self._due = []
