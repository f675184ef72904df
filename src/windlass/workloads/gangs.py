"""How many pods of an owner start together, family by family: pure functions of its spec.

Each answers a `Part` (so many, under this name, if an owner makes several gangs), `ALONE` if every
pod stands for itself, or `BELOW` if the owner between it and the pod decides. What a spec does not
say is taken as its own controller takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from windlass.workloads.wire import Meta, Owner, Pod

Spec: TypeAlias = Mapping[str, Any]
MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class Link:
    """A pod, an owner above it, and the owners between, nearest to the pod first."""

    pod: Pod
    owner: Owner
    between: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A gang of an owner: how many start together, and which of its gangs it is."""

    minimum: int
    name: str = ""
    without_done: bool = False
    """Pods that succeeded are subtracted already: they do not count towards the minimum."""


class _Word:
    """An answer that is no number."""


ALONE: Final = _Word()
BELOW: Final = _Word()
Answer: TypeAlias = Part | _Word


# --- batch ---------------------------------------------------------------------------------------


def job(link: Link) -> Answer:
    """An Indexed Job starts whole; the pods of any other come and go by themselves.

    It counts its own successes: their pods may have been cleaned up.
    """
    spec = link.owner.spec
    if spec.get("completionMode") != "Indexed":
        return ALONE
    left = _count(spec, "completions", MOST) - _count(link.owner.status, "succeeded", 0)
    return Part(max(1, min(_at_once(spec), left)), without_done=True)


def _at_once(spec: Spec) -> int:
    parallelism = _count(spec, "parallelism", 1)
    completions = spec.get("completions")
    return max(1, parallelism if completions is None else min(parallelism, int(completions)))


# --- JobSet, and TrainJob above it ---------------------------------------------------------------

JOBSET = "jobset.sigs.k8s.io/"


def jobset(link: Link) -> Answer:
    """All its Jobs together; one after the other, if it starts them in order.

    A restart makes all pods anew: each attempt is a gang of its own.
    """
    spec, labels = link.owner.spec, link.pod.metadata.labels or {}
    jobs = {cast(str, each["name"]): each for each in _list(spec, "replicatedJobs")}
    attempt = labels.get(JOBSET + "restart-attempt", "0")
    in_order = _dict(spec, "startupPolicy").get("startupPolicyOrder") == "InOrder"
    if in_order or any(each.get("dependsOn") for each in jobs.values()):
        name = labels.get(JOBSET + "replicatedjob-name", "")
        if name in jobs:
            return Part(_pods_of(jobs[name]), f"{name}.{attempt}")
    return Part(sum(map(_pods_of, jobs.values())) or 1, attempt)


def _pods_of(replicated: Spec) -> int:
    spec = _dict(_dict(replicated, "template"), "spec")
    return _count(replicated, "replicas", 1) * _at_once(spec)


# --- Kubeflow's training jobs ---------------------------------------------------------------------


def training(link: Link) -> Answer:
    """All replicas; an elastic one starts with its minimum, and a scheduling policy is obeyed."""
    spec = link.owner.spec
    said = _dict(_dict(spec, "runPolicy"), "schedulingPolicy").get("minAvailable")
    elastic = _dict(spec, "elasticPolicy").get("minReplicas")
    if said is not None:
        return Part(max(1, int(said)))
    counts = {role: _count(each, "replicas", 1) for role, each in _replicas(spec)}
    if elastic is not None and "Worker" in counts:
        counts["Worker"] = min(counts["Worker"], int(elastic))
    return Part(sum(counts.values()) or 1)


def mpi(link: Link) -> Answer:
    """Launcher and workers; a launcher that is made once the workers run stands for itself."""
    spec = link.owner.spec
    waits = spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
    if not waits:
        return training(link)
    if (link.pod.metadata.labels or {}).get("training.kubeflow.org/job-role") == "launcher":
        return ALONE
    workers = dict(_replicas(spec)).get("Worker", {})
    return Part(_count(workers, "replicas", 1))


def _replicas(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """The roles of a training job: `pytorchReplicaSpecs`, `mpiReplicaSpecs` and the like."""
    for key, roles in spec.items():
        if key.endswith("ReplicaSpecs") and isinstance(roles, dict):
            yield from cast(dict[str, Spec], roles).items()


# --- Ray ------------------------------------------------------------------------------------------


def ray(link: Link) -> Answer:
    """The head and what each group of workers starts with; more join as its autoscaler asks."""
    spec = link.owner.spec
    autoscales = bool(spec.get("enableInTreeAutoscaling"))
    groups = (each for each in _list(spec, "workerGroupSpecs") if not each.get("suspend"))
    return Part(1 + sum(_of_group(each, autoscales) for each in groups))


def _of_group(group: Spec, autoscales: bool) -> int:
    least, wanted = _count(group, "minReplicas", 0), _count(group, "replicas", 0)
    return (least if autoscales else wanted or least) * _count(group, "numOfHosts", 1)


# --- LeaderWorkerSet -------------------------------------------------------------------

LWS = "leaderworkerset.sigs.k8s.io/"


def leader_worker_set(link: Link) -> Answer:
    """Each of its groups: a leader and its workers, or the workers after a leader that is ready."""
    spec, labels = link.owner.spec, link.pod.metadata.labels or {}
    size = _count(_dict(spec, "leaderWorkerTemplate"), "size", 1)
    group = labels.get(LWS + "group-index", "0")
    if spec.get("startupPolicy") != "LeaderReady":
        return Part(size, group)
    return ALONE if labels.get(LWS + "worker-index") == "0" else Part(max(1, size - 1), group)


def set_of_leader(meta: Meta) -> str:
    """The LeaderWorkerSet of a pod: a worker's chain of owners leads through its leader's pod."""
    return (meta.labels or {}).get(LWS + "name", "")


# --- reading what others wrote ---------------------------------------------------------


def _dict(spec: Spec, key: str) -> Spec:
    found = spec.get(key)
    return cast(Spec, found) if isinstance(found, dict) else {}


def _list(spec: Spec, key: str) -> list[Spec]:
    found = spec.get(key)
    items = cast(list[object], found) if isinstance(found, list) else []
    return [cast(Spec, each) for each in items if isinstance(each, dict)]


def _count(spec: Spec, key: str, otherwise: int) -> int:
    found = spec.get(key)
    return max(0, found) if isinstance(found, int) else otherwise
