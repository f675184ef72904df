"""The number of pods of an owner that start together: one pure function per family of kinds.

Each function returns an `OwnedGang` (its size, and its name if the owner makes several gangs),
`ALONE` if every pod is a gang of its own, or `BELOW` if the owner between this one and the pod
decides. Missing fields count with the default of their controller.

The first paragraph of the docstring of each such function is shown to users: it is a cell of the
table in docs/reference/job-kinds.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from windlass.workloads.objects import (
    MOST,
    ObjectMeta,
    Owner,
    Pod,
    Spec,
    count,
    inner,
    is_number,
    items,
    roles,
    text,
)


@dataclass(frozen=True, slots=True)
class Link:
    """A pod, one of its owners, and the owners between them, nearest to the pod first."""

    pod: Pod
    owner: Owner
    between: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnedGang:
    """A gang of an owner."""

    minimum: int
    """The number of pods that start together."""
    name: str = ""
    """The name of the gang among those of the owner; empty if the owner has only one."""
    without_done: bool = False
    """True if succeeded pods are subtracted from the minimum, and do not count towards it."""


class _NoGang:
    """An answer without a size."""


ALONE: Final = _NoGang()
"""Every pod is a gang of its own."""
BELOW: Final = _NoGang()
"""The owner below this one decides."""
Answer: TypeAlias = OwnedGang | _NoGang


def alone(_link: Link) -> Answer:
    """Each pod alone."""
    return ALONE


def below(_link: Link) -> Answer:
    """The pods of the object that it creates, by the row of that kind."""
    return BELOW


# --- batch ---------------------------------------------------------------------------------------


def job(link: Link) -> Answer:
    """All pods that run at once if it is Indexed, else each pod alone.

    Successes are counted by the Job's status, because the pods may have been cleaned up.
    """
    spec = link.owner.spec
    if spec.get("completionMode") != "Indexed":
        return ALONE
    left = count(spec, "completions", MOST) - count(link.owner.status, "succeeded", 0)
    return OwnedGang(max(1, min(pods_at_once(spec), left)), without_done=True)


def pods_at_once(spec: Spec) -> int:
    """Return the number of pods of a Job that run at the same time."""
    parallelism = count(spec, "parallelism", 1)
    return max(1, min(parallelism, count(spec, "completions", parallelism)))


# --- JobSet, and TrainJob above it ---------------------------------------------------------------

JOBSET = "jobset.sigs.k8s.io/"


def jobset(link: Link) -> Answer:
    """All replicated jobs that are created together; a restart is a new gang.

    With the startup policy InOrder each replicated job is a gang of its own; without it, those with
    the same dependencies form a gang.
    """
    spec, labels = link.owner.spec, link.pod.metadata.labels or {}
    jobs = {text(replicated, "name"): replicated for replicated in items(spec, "replicatedJobs")}
    attempt = labels.get(JOBSET + "restart-attempt", "0")
    own = jobs.get(labels.get(JOBSET + "replicatedjob-name", ""))
    together = list(jobs.values())
    if own is not None and text(inner(spec, "startupPolicy"), "startupPolicyOrder") == "InOrder":
        together = [own]
    elif own is not None:
        dependencies = _dependencies(own)
        together = [other for other in together if _dependencies(other) == dependencies]
    size = sum(map(_pods_of, together)) or 1
    if len(together) == len(jobs):
        return OwnedGang(size, attempt)
    return OwnedGang(size, f"{text(together[0], 'name')}.{attempt}")


def succeeded_jobs(status: Spec) -> dict[str, int]:
    """Return the number of succeeded Jobs of each replicated job of a JobSet, by its name."""
    rows = items(status, "replicatedJobsStatus")
    return {text(row, "name"): count(row, "succeeded", 0) for row in rows}


def resumed_first(spec: Spec, status: Spec) -> list[Spec]:
    """Return the replicated jobs whose pods a JobSet creates as soon as it is resumed.

    Succeeded Jobs are subtracted; replicated jobs with unfinished dependencies are left out.
    """
    done = succeeded_jobs(status)
    jobs = {text(replicated, "name"): replicated for replicated in items(spec, "replicatedJobs")}
    left = {
        name: count(replicated, "replicas", 1) - done.get(name, 0)
        for name, replicated in jobs.items()
    }
    ended = {name for name, replicas in left.items() if replicas <= 0}
    ready: list[Spec] = [
        {**replicated, "replicas": left[text(replicated, "name")]}
        for replicated in items(spec, "replicatedJobs")
        if text(replicated, "name") not in ended and _dependencies(replicated) <= ended
    ]
    in_order = text(inner(spec, "startupPolicy"), "startupPolicyOrder") == "InOrder"
    return ready[:1] if in_order else ready


def _dependencies(replicated: Spec) -> set[str]:
    return {text(dependency, "name") for dependency in items(replicated, "dependsOn")}


def _pods_of(replicated: Spec) -> int:
    spec = inner(inner(replicated, "template"), "spec")
    return count(replicated, "replicas", 1) * pods_at_once(spec)


# --- Kubeflow's training jobs ---------------------------------------------------------------------


def training(link: Link) -> Answer:
    """All replicas, or `minAvailable` of its policy; of elastic workers only `minReplicas`."""
    spec = link.owner.spec
    minimum = inner(inner(spec, "runPolicy"), "schedulingPolicy").get("minAvailable")
    if is_number(minimum):
        return OwnedGang(max(1, minimum))
    counts = {name: count(role, "replicas", 1) for name, role in roles(spec)}
    if "Worker" in counts:
        least = count(inner(spec, "elasticPolicy"), "minReplicas", counts["Worker"])
        counts["Worker"] = min(counts["Worker"], least)
    return OwnedGang(sum(counts.values()) or 1)


def mpi(link: Link) -> Answer:
    """The launcher and its workers; a launcher that waits for its workers starts alone."""
    spec = link.owner.spec
    if spec.get("launcherCreationPolicy") != "WaitForWorkersReady":
        return training(link)
    if (link.pod.metadata.labels or {}).get("training.kubeflow.org/job-role") == "launcher":
        return ALONE
    return OwnedGang(count(dict(roles(spec)).get("Worker", {}), "replicas", 1))


# --- Ray ------------------------------------------------------------------------------------------


def ray(link: Link) -> Answer:
    """The head and the initial workers of each group; the autoscaler may add more."""
    spec = link.owner.spec
    autoscales = bool(spec.get("enableInTreeAutoscaling"))
    groups = (group for group in items(spec, "workerGroupSpecs") if not group.get("suspend"))
    return OwnedGang(1 + sum(workers_of_group(group, autoscales) for group in groups))


def workers_of_group(group: Spec, autoscales: bool) -> int:
    """Return the number of workers that a group of a RayCluster starts with."""
    least, wanted = count(group, "minReplicas", 0), count(group, "replicas", 0)
    return (least if autoscales else wanted or least) * count(group, "numOfHosts", 1)


# --- LeaderWorkerSet -------------------------------------------------------------------

LWS = "leaderworkerset.sigs.k8s.io/"


def leader_worker_set(link: Link) -> Answer:
    """Each group: the leader and its workers; with LeaderReady the leader before the workers."""
    spec, labels = link.owner.spec, link.pod.metadata.labels or {}
    size = count(inner(spec, "leaderWorkerTemplate"), "size", 1)
    group = labels.get(LWS + "group-index", "0")
    if spec.get("startupPolicy") != "LeaderReady":
        return OwnedGang(max(1, size), group)
    return ALONE if labels.get(LWS + "worker-index") == "0" else OwnedGang(max(1, size - 1), group)


def set_of_leader(meta: ObjectMeta) -> str:
    """Return the name of the LeaderWorkerSet of a pod, from its label; "" if it has none.

    The chain of owners of a worker leads through the pod of its leader, so that it is not followed.
    """
    return (meta.labels or {}).get(LWS + "name", "")
