"""References to objects of the cluster, and objects as they were observed.

These values pass between the watches, `kube.ingest`, `daemon.decide` and `kube.writers`. The module
stands below all of them: it is pure and imports none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.jobs import TaskId
from windlass.workloads.objects import Stored, wire
from windlass.workloads.pods import task_id

Kind: TypeAlias = str
"""The kind of an object as the watches name it: `pods`, `nodes`, `queues`, `Job.batch`."""
ClusterObject: TypeAlias = wire.Pod | wire.NodeObject | wire.Owner | wire.PriorityClass | Stored


@dataclass(frozen=True, slots=True)
class ObjectObserved:
    """An object of a kind is new or has changed."""

    kind: Kind
    object: ClusterObject


@dataclass(frozen=True, slots=True)
class ObjectLost:
    """An object of a kind was deleted; the object as it was observed last."""

    kind: Kind
    object: ClusterObject


Observation: TypeAlias = ObjectObserved | ObjectLost


@dataclass(frozen=True, slots=True)
class PodRef:
    """The identity of a pod: all that a writer needs to write to it."""

    task: TaskId
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, pod: wire.Pod) -> PodRef:
        """Return the reference to a pod."""
        meta = pod.metadata
        return cls(task_id(pod), meta.namespace, meta.name, meta.uid)

    @property
    def path(self) -> str:
        """The path of the pod on the API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


@dataclass(frozen=True, slots=True)
class PodRead:
    """A pod that a writer has read again, as it is now."""

    pod: wire.Pod


@dataclass(frozen=True, slots=True)
class PodLost:
    """A pod that a writer has found to be deleted, or replaced by one of the same name."""

    ref: PodRef


@dataclass(frozen=True, slots=True)
class OwnerSwitch:
    """The owner that stops a whole gang, and the field that does so, such as `spec.suspend`."""

    path: str
    uid: str
    field: str
