"""Followers that a controller makes only after their leader has a node.

With exclusive placement, JobSet and LeaderWorkerSet give each group of pods a topology domain of
its own. The leader of a group seeks the domain by pod affinity; its controller makes the followers
once the leader is scheduled, with a node selector for the leader's domain. Here a leader tells of
its whole group, so that the group can be placed before its followers exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.jobs import TaskId
from windlass.workloads.kinds.gang_sizes import LWS, at_once
from windlass.workloads.objects.spec_fields import Spec, count, inner
from windlass.workloads.objects.wire import (
    Affinity,
    ObjectMeta,
    Owner,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    controller,
)

JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOBSET_BY_LABEL = "alpha.jobset.sigs.k8s.io/node-selector"
"""Annotation: nodes were labelled beforehand, so that followers need not wait for their leader."""
INDEX = "batch.kubernetes.io/job-completion-index"
LWS_EXCLUSIVE = LWS + "exclusive-topology"
MOST_FOLLOWERS = 10_000


def is_leader(pod: Pod) -> bool:
    """Does the controller of a pod make others of its group only once this one has a node?"""
    notes, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
    if JOBSET_EXCLUSIVE in notes:
        return JOBSET_BY_LABEL not in notes and notes.get(INDEX) == "0"
    return LWS_EXCLUSIVE in notes and labels.get(LWS + "worker-index") == "0"


def followers_of(leader: Pod, owner: Owner, there: int) -> dict[TaskId, Pod]:
    """Return a stand-in for each follower of a leader that is not there yet; all share one object.

    `owner` is the Job or the LeaderWorkerSet that makes the group, of which so many pods are
    `there`, the leader included. Empty if the followers are no gang with their leader, or their
    template cannot be read.
    """
    if LWS_EXCLUSIVE in (leader.metadata.annotations or {}):
        size = count(inner(owner.spec, "leaderWorkerTemplate"), "size", 1)
        is_apart = owner.spec.get("startupPolicy") == "LeaderReady"
        follower = None if is_apart else _worker(leader, owner)
    else:
        done = count(owner.status, "succeeded", 0)
        size = min(at_once(owner.spec), count(owner.spec, "completions", MOST_FOLLOWERS) - done)
        follower = _blank(leader, leader.spec)
    if follower is None or size > MOST_FOLLOWERS:
        return {}
    meta = leader.metadata
    names = (f"{meta.name}-place-{at}/{meta.uid}-place-{at}" for at in range(there, size))
    return {TaskId(f"{meta.namespace}/{name}"): follower for name in names}


def group_of(pod: Pod) -> str:
    """Return what the pods of one group have in common, other than those of other groups."""
    labels, above = pod.metadata.labels or {}, controller(pod.metadata)
    return labels.get(LWS + "group-index") or (above.uid if above else "")


def _worker(leader: Pod, owner: Owner) -> Pod | None:
    """Return a worker of a LeaderWorkerSet, bound to its leader's domain; None if unreadable."""
    template: Spec = inner(inner(owner.spec, "leaderWorkerTemplate"), "workerTemplate")
    try:
        spec = msgspec.convert(inner(template, "spec"), PodSpec)
        labels = msgspec.convert(inner(inner(template, "metadata"), "labels"), dict[str, str])
    except msgspec.ValidationError:
        return None
    own, its = leader.spec.affinity or Affinity(), spec.affinity or Affinity()
    affinity = msgspec.structs.replace(
        its,
        pod_affinity=_with_terms(its.pod_affinity, own.pod_affinity),
        pod_anti_affinity=_with_terms(its.pod_anti_affinity, own.pod_anti_affinity),
    )
    spec = msgspec.structs.replace(
        spec,
        affinity=affinity,
        priority=leader.spec.priority,
        scheduler_name=spec.scheduler_name or leader.spec.scheduler_name,
    )
    return _blank(leader, spec, {**(leader.metadata.labels or {}), **labels})


def _with_terms(own: PodAffinity | None, more: PodAffinity | None) -> PodAffinity | None:
    """Return an affinity with the required terms of another one added."""
    terms: Sequence[PodAffinityTerm] = (
        more.required_during_scheduling_ignored_during_execution or () if more else ()
    )
    if not terms:
        return own
    own = own or PodAffinity()
    both = [*(own.required_during_scheduling_ignored_during_execution or ()), *terms]
    return msgspec.structs.replace(own, required_during_scheduling_ignored_during_execution=both)


def _blank(leader: Pod, spec: PodSpec, labels: dict[str, str] | None = None) -> Pod:
    """Return a pod of the leader's group that has no node yet."""
    meta: ObjectMeta = msgspec.structs.replace(
        leader.metadata,
        name=f"{leader.metadata.name}-place",
        uid=f"{leader.metadata.uid}-place",
        labels=leader.metadata.labels if labels is None else labels,
        deletion_timestamp=None,
    )
    return Pod(meta, msgspec.structs.replace(spec, node_name=""), PodStatus(phase="Pending"))
