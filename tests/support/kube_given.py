"""Builders of small Kubernetes objects, and a stage on which a scheduler step observes them.

there = Stage(node("n1", gpus=2), queue("team", "ml"), pod("a", gpus=1))
assert there.step().bound == {"a": "n1"}

Objects are written as JSON and decoded as in the daemon: fields that it does not read are lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from windlass.crds.read import OwnedQueue, QueueUsers
from windlass.daemon.decide.inputs import StepInput
from windlass.daemon.decide.step import SchedulerStep, StepOutput
from windlass.kube.ingest.scope import Scope
from windlass.kube.ingest.translator import Translator
from windlass.kube.refs import ObjectLost, ObjectObserved
from windlass.kube.writers.signing import Signing
from windlass.model.events import Event
from windlass.model.jobs import Gang, GangId, Task, TaskId
from windlass.model.queues import Queue
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.workloads.kinds.suspension import SuspensionMark, mark_text
from windlass.workloads.kinds.table import Key
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import GANG, MINIMUM, PROMISE, QUEUE, SEAL, SUSPENDED

Json: TypeAlias = dict[str, Any]
Thing: TypeAlias = wire.Pod | wire.NodeObject | wire.Owner | StepInput

NAMESPACE = "ml"
"""The default namespace of pods and jobs."""
EARLY = "2026-01-01T00:00:00Z"
READY = {"type": "Ready", "status": "True"}

KEY = Signing(b"a key for tests, of 32 bytes ...")
"""The key with which the scheduler of a test signs its marks."""
OURS = Scope(seal=KEY)

_pod = msgspec.json.Decoder(wire.Pod)
_node = msgspec.json.Decoder(wire.NodeObject)
_owner = msgspec.json.Decoder(wire.Owner)


# --- objects --------------------------------------------------------------------------------------


def pod(name: str, gpus: int = 0, **fields: Any) -> wire.Pod:
    """Return a pod in scope with one container; `pod_json` lists the other fields."""
    main = fields.pop("requests", {}) | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    fields.setdefault("containers", [container("main", **main)])
    return decoded(pod_json(name, **fields))


def decoded(written: Json) -> wire.Pod:
    """Return a pod that was encoded and decoded."""
    return _pod.decode(json.dumps(written))


def pod_json(name: str, **fields: Any) -> Json:
    """Return a pod as JSON; fields that are not named here go into its spec."""
    meta = {
        "name": name,
        "namespace": fields.pop("namespace", NAMESPACE),
        "uid": fields.pop("uid", f"uid-of-{name}"),
        "creationTimestamp": fields.pop("created", EARLY),
        "labels": _labels(fields),
        "annotations": fields.pop("annotations", {}),
    }
    if deleted := fields.pop("deleted", ""):
        meta["deletionTimestamp"] = deleted
    if owner := fields.pop("owner", None):
        meta["ownerReferences"] = [reference(owner) if isinstance(owner, wire.Owner) else owner]
    status = {"phase": fields.pop("phase", "Pending")} | fields.pop("status", {})
    if promise := fields.pop("promise", ""):
        kept = {"type": PROMISE, "status": "True", "message": promise}
        status["conditions"] = [*status.get("conditions", ()), kept]
    spec = {"schedulerName": "windlass", "nodeName": fields.pop("node", "")} | fields
    return {"metadata": meta, "spec": spec, "status": status}


def _labels(fields: Json) -> dict[str, str]:
    """Return the labels for the short forms `queue=` and `gang=("train", 4)`."""
    labels = dict(fields.pop("labels", {}))
    if queue := fields.pop("queue", ""):
        labels[QUEUE] = queue
    if gang := fields.pop("gang", None):
        labels |= {GANG: gang[0], MINIMUM: str(gang[1])}
    return labels


def crew(name: str, count: int, gpus: int = 1, **fields: Any) -> list[wire.Pod]:
    """Return pods `name-0`, `name-1` ... of one gang by label."""
    return [pod(f"{name}-{i}", gpus, gang=(name, count), **fields) for i in range(count)]


def container(name: str = "main", sidecar: Any = False, **requests: Any) -> Json:
    """Return a container with its requests; pass names with dots as a mapping with `**`."""
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests}} | policy


def node(name: str, gpus: int = 0, **fields: Any) -> wire.NodeObject:
    """Return a ready node with plenty of everything but GPUs; also `labels`, `taints` ..."""
    offered = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {"kubernetes.io/hostname": name} | gfd() | fields.pop("labels", {})
    written = {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": labels,
            "creationTimestamp": fields.pop("created", None),
        },
        "status": {
            "allocatable": offered | fields.pop("offers", {}),
            "conditions": fields.pop("conditions", [READY]),
        },
        "spec": fields,
    }
    return _node.decode(json.dumps(written))


def gfd(product: str = "NVIDIA-H100-80GB-HBM3", memory: int = 81559) -> dict[str, str]:
    """Return the labels that GPU Feature Discovery writes."""
    return {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": str(memory)}


def job(name: str, count: int = 1, **fields: Any) -> wire.Owner:
    """Return an Indexed Job of so many parallel pods; other fields go into its spec."""
    meta = {
        "name": name,
        "namespace": fields.pop("namespace", NAMESPACE),
        "uid": fields.pop("uid", f"{name}-uid"),
        "annotations": fields.pop("annotations", {}),
    }
    status = fields.pop("status", {})
    spec = {"completionMode": "Indexed", "parallelism": count, "completions": count} | fields
    return _owner.decode(json.dumps({"metadata": meta, "spec": spec, "status": status}))


def marked(uid: str, mark: SuspensionMark | str, key: Signing = KEY) -> dict[str, str]:
    """Return the annotations of an owner with this uid that our scheduler has suspended."""
    said = mark if isinstance(mark, str) else mark_text(mark)
    return {SUSPENDED: said, SEAL: key.sign(uid, SUSPENDED, said)}


def reference(owner: wire.Owner, kind: str = "Job", api: str = "batch/v1") -> Json:
    """Return the owner reference of a pod to its owner."""
    meta = owner.metadata
    named = {"kind": kind, "apiVersion": api, "name": meta.name, "uid": meta.uid}
    return named | {"controller": True}


def made_by(kind: str, api: str = "apps/v1", name: str = "maker") -> Json:
    """Return a reference to an owner that is not observed."""
    return {"kind": kind, "apiVersion": api, "name": name, "uid": f"{name}-uid", "controller": True}


def queue(name: str, *namespaces: str, **spec: Any) -> ObjectObserved:
    """Return a queue with its namespaces; `guarantee=` and others go into its spec."""
    written = {"metadata": {"name": name}, "spec": {"namespaces": list(namespaces)} | spec}
    return ObjectObserved("queues", _owner.decode(json.dumps(written)))


def policy(**spec: Any) -> ObjectObserved:
    """Return the policy in force."""
    return ObjectObserved(
        "policies", _owner.decode(json.dumps({"metadata": {"name": "default"}, "spec": spec}))
    )


def namespace(name: str, **labels: str) -> ObjectObserved:
    """Return a namespace with labels."""
    written = {"metadata": {"name": name, "labels": labels}}
    return ObjectObserved("namespaces", _owner.decode(json.dumps(written)))


# --- a stage --------------------------------------------------------------------------------------


@dataclass
class Step:
    """The output of a step, in a short form for tests."""

    work: StepOutput

    @property
    def bound(self) -> dict[str, str]:
        """The node of every pod that is bound."""
        return {each.pod.name: each.node for start in self.work.starts for each in start.bindings}

    @property
    def said(self) -> dict[str, str]:
        """The reason that is written on every pod."""
        return {each.pod.name: each.message.reason.value for each in self._conditions()}

    @property
    def texts(self) -> dict[str, str]:
        """The message that is written on every pod."""
        return {each.pod.name: each.message.text for each in self._conditions()}

    @property
    def events(self) -> list[tuple[str, str]]:
        """The pod and the reason of every Event."""
        notes = [page.note for page in self.work.messages if page.note]
        return [(note.pod.name, note.reason) for note in notes]

    def _conditions(self):
        return [each for page in self.work.messages for each in page.conditions]


class Stage:
    """A scheduler step without I/O: it observes objects and returns its output."""

    def __init__(self, *things: Thing, scope: Scope | None = None, now: int = 1000) -> None:
        self.now = now
        self.brain = SchedulerStep(scope or OURS, now)
        self.see(*things)

    @property
    def cluster(self) -> Cluster:
        return self.brain.cluster

    @property
    def translator(self) -> Translator:
        return self.brain._translator

    def see(self, *things: Thing) -> None:
        """Observe objects that are new or have changed, or take results of writes."""
        self.brain.take(_piece(each) for each in things)

    def apply(self, some: Iterable[Event]) -> None:
        """Apply events of the translator, as a step does."""
        self.brain._apply(some)

    def lose(self, *things: Thing) -> None:
        """Observe that objects were deleted."""
        pieces = [_piece(each) for each in things]
        self.brain.take(
            ObjectLost(each.kind, each.object)
            for each in pieces
            if isinstance(each, ObjectObserved)
        )

    def step(self, seconds: int = 0) -> Step:
        """Return the output of a step, some seconds later."""
        self.now += seconds
        return Step(self.brain.step(self.now))

    def settle(self, seconds: int = 2) -> Step:
        """Step twice, so that messages are stable for long enough to be written."""
        self.step()
        return self.step(seconds)

    def task(self, name: str) -> Task:
        return task_called(self.cluster, name)

    def gang_of(self, name: str) -> Gang:
        return self.cluster.gangs[self.task(name).gang]


class Reading:
    """A translator and a cluster that applies its events; queue `team` is open to all."""

    def __init__(
        self, *things: wire.Pod | wire.NodeObject | wire.Owner, scope: Scope | None = None
    ) -> None:
        self.cluster = Cluster(Settings(), 0)
        self.translator = Translator(scope or OURS)
        self.queue("team", QueueUsers(term=()))
        self.see(*things)

    def apply(self, some: Iterable[Event]) -> None:
        """Apply events of the translator to the cluster."""
        for event in some:
            self.cluster.apply(event)

    def queue(self, name: str, users: QueueUsers) -> None:
        self.apply(self.translator.queue_seen(OwnedQueue(Queue(name), users)))

    def see(self, *things: wire.Pod | wire.NodeObject | wire.Owner) -> None:
        for each in things:
            match each:
                case wire.Pod():
                    self.apply(self.translator.pod_seen(each))
                case wire.NodeObject():
                    self.apply(self.translator.node_seen(each))
                case wire.Owner():
                    self.apply(self.translator.owner_seen(Key("Job", "batch"), each))

    def task(self, name: str) -> Task:
        return task_called(self.cluster, name)

    @property
    def names(self) -> set[str]:
        return {task.split("/")[1] for task in self.cluster.tasks}

    def gang_of(self, name: str) -> Gang:
        return self.cluster.gangs[self.task(name).gang]


def task_called(cluster: Cluster, name: str) -> Task:
    """Return the task of the pod with this name."""
    return next(task for key, task in cluster.tasks.items() if key.split("/")[1] == name)


def task_id(name: str) -> TaskId:
    """Return the task id of a pod that was built here."""
    return TaskId(f"{NAMESPACE}/{name}/uid-of-{name}")


def gang_id(name: str) -> GangId:
    """Return the id of a gang by label."""
    return GangId(f"{NAMESPACE}/{name}")


def _piece(thing: Thing) -> StepInput:
    match thing:
        case wire.Pod():
            return ObjectObserved("pods", thing)
        case wire.NodeObject():
            return ObjectObserved("nodes", thing)
        case wire.Owner():
            return ObjectObserved("Job.batch", thing)
        case _:
            return thing
