"""How many pods of an owner start together, family by family: pure functions of its spec.

Each answers a `Part` (so many, under this name, if an owner makes several gangs), `ALONE` if every
pod stands for itself, or `BELOW` if the owner between it and the pod decides. What a spec does not
say is taken as its own controller takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from windlass.workloads.objects.spec_fields import (
    MOST,
    Spec,
    count,
    inner,
    is_number,
    items,
    roles,
    text,
)
from windlass.workloads.objects.wire import ObjectMeta, Owner, Pod


@dataclass(frozen=True, slots=True)
class Link:
    """A pod, an owner above it, and the owners between, nearest to the pod first."""

    pod: Pod
    owner: Owner
    between: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnedGang:
    """A gang of an owner: how many start together, and which of its gangs it is."""

    minimum: int
    name: str = ""
    without_done: bool = False
    """Pods that succeeded are subtracted already: they do not count towards the minimum."""


class _Word:
    """An answer that is no number."""


ALONE: Final = _Word()
BELOW: Final = _Word()
Answer: TypeAlias = OwnedGang | _Word


def alone(_link: Link) -> Answer:
    """Each pod by itself."""
    return ALONE


def below(_link: Link) -> Answer:
    """As the owner below it says."""
    return BELOW


# --- batch ---------------------------------------------------------------------------------------


def job(link: Link) -> Answer:
    """All pods that run at once, if it is Indexed; else each pod by itself.

    It counts its own successes: their pods may have been cleaned up.
    """
    spec = link.owner.spec
    if spec.get("completionMode") != "Indexed":
        return ALONE
    left = count(spec, "completions", MOST) - count(link.owner.status, "succeeded", 0)
    return OwnedGang(max(1, min(at_once(spec), left)), without_done=True)


def at_once(spec: Spec) -> int:
    """How many pods of a Job run at the same time."""
    parallelism = count(spec, "parallelism", 1)
    return max(1, min(parallelism, count(spec, "completions", parallelism)))


# --- JobSet, and TrainJob above it ---------------------------------------------------------------

JOBSET = "jobset.sigs.k8s.io/"


def jobset(link: Link) -> Answer:
    """All Jobs that are made at the same time; a restart is a new gang.

    One after the other if it starts them in order; those that wait for the same others together.
    """
    spec, labels = link.owner.spec, link.pod.metadata.labels or {}
    jobs = {text(each, "name"): each for each in items(spec, "replicatedJobs")}
    attempt = labels.get(JOBSET + "restart-attempt", "0")
    mine = jobs.get(labels.get(JOBSET + "replicatedjob-name", ""))
    together = list(jobs.values())
    if mine is not None and text(inner(spec, "startupPolicy"), "startupPolicyOrder") == "InOrder":
        together = [mine]
    elif mine is not None:
        together = [each for each in together if _awaits(each) == _awaits(mine)]
    size = sum(map(_pods_of, together)) or 1
    if len(together) == len(jobs):
        return OwnedGang(size, attempt)
    return OwnedGang(size, f"{text(together[0], 'name')}.{attempt}")


def finished(status: Spec) -> dict[str, int]:
    """Return how many Jobs of each replicated job of a JobSet have succeeded, by its name."""
    rows = items(status, "replicatedJobsStatus")
    return {text(each, "name"): count(each, "succeeded", 0) for each in rows}


def resumed_first(spec: Spec, status: Spec) -> list[Spec]:
    """Return the replicated jobs whose pods a JobSet makes as soon as it is resumed.

    Jobs that have succeeded are left out, and so are those that wait for others.
    """
    done = finished(status)
    all_of = {text(e, "name"): count(e, "replicas", 1) for e in items(spec, "replicatedJobs")}
    ended = {name for name, replicas in all_of.items() if done.get(name, 0) >= replicas}
    found: list[Spec] = [
        {**each, "replicas": all_of[text(each, "name")] - done.get(text(each, "name"), 0)}
        for each in items(spec, "replicatedJobs")
        if text(each, "name") not in ended and _awaits(each) <= ended
    ]
    in_order = text(inner(spec, "startupPolicy"), "startupPolicyOrder") == "InOrder"
    return found[:1] if in_order else found


def _awaits(replicated: Spec) -> set[str]:
    return {text(each, "name") for each in items(replicated, "dependsOn")}


def _pods_of(replicated: Spec) -> int:
    spec = inner(inner(replicated, "template"), "spec")
    return count(replicated, "replicas", 1) * at_once(spec)


# --- Kubeflow's training jobs ---------------------------------------------------------------------


def training(link: Link) -> Answer:
    """All replicas; `minAvailable` if its scheduling policy says so, the least workers if elastic.

    A role that does not say how many it has is one.
    """
    spec = link.owner.spec
    said = inner(inner(spec, "runPolicy"), "schedulingPolicy").get("minAvailable")
    if is_number(said):
        return OwnedGang(max(1, said))
    counts = {role: count(each, "replicas", 1) for role, each in roles(spec)}
    if "Worker" in counts:
        least = count(inner(spec, "elasticPolicy"), "minReplicas", counts["Worker"])
        counts["Worker"] = min(counts["Worker"], least)
    return OwnedGang(sum(counts.values()) or 1)


def mpi(link: Link) -> Answer:
    """Launcher and workers; a launcher that is made once the workers run stands for itself."""
    spec = link.owner.spec
    if spec.get("launcherCreationPolicy") != "WaitForWorkersReady":
        return training(link)
    if (link.pod.metadata.labels or {}).get("training.kubeflow.org/job-role") == "launcher":
        return ALONE
    return OwnedGang(count(dict(roles(spec)).get("Worker", {}), "replicas", 1))


# --- Ray ------------------------------------------------------------------------------------------


def ray(link: Link) -> Answer:
    """The head and what each group of workers starts with; more join as its autoscaler asks."""
    spec = link.owner.spec
    autoscales = bool(spec.get("enableInTreeAutoscaling"))
    groups = (each for each in items(spec, "workerGroupSpecs") if not each.get("suspend"))
    return OwnedGang(1 + sum(of_group(each, autoscales) for each in groups))


def of_group(group: Spec, autoscales: bool) -> int:
    """How many workers a group of a RayCluster starts with."""
    least, wanted = count(group, "minReplicas", 0), count(group, "replicas", 0)
    return (least if autoscales else wanted or least) * count(group, "numOfHosts", 1)


# --- LeaderWorkerSet -------------------------------------------------------------------

LWS = "leaderworkerset.sigs.k8s.io/"


def leader_worker_set(link: Link) -> Answer:
    """Each of its groups: a leader and its workers, or the workers after a leader that is ready."""
    spec, labels = link.owner.spec, link.pod.metadata.labels or {}
    size = count(inner(spec, "leaderWorkerTemplate"), "size", 1)
    group = labels.get(LWS + "group-index", "0")
    if spec.get("startupPolicy") != "LeaderReady":
        return OwnedGang(max(1, size), group)
    return ALONE if labels.get(LWS + "worker-index") == "0" else OwnedGang(max(1, size - 1), group)


def set_of_leader(meta: ObjectMeta) -> str:
    """The LeaderWorkerSet of a pod: a worker's chain of owners leads through its leader's pod."""
    return (meta.labels or {}).get(LWS + "name", "")
