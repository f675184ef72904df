"""Groups whose followers are created only after their leader has a node.

With exclusive placement, JobSet and LeaderWorkerSet give each group of pods a topology domain of
its own. The leader of a group selects the domain by pod affinity; the controller creates the
followers after the leader is scheduled, with a node selector for the leader's domain. This module
derives placeholders for the followers from the leader and its owner, so that the whole group can be
placed before its followers exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.jobs import TaskId
from windlass.workloads.kinds.gang_sizes import LWS, pods_at_once
from windlass.workloads.objects import (
    Affinity,
    ObjectMeta,
    Owner,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    Spec,
    controller,
    count,
    inner,
)

JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation: the topology label of whose domains each Job gets one for itself."""
JOBSET_BY_LABEL = "alpha.jobset.sigs.k8s.io/node-selector"
"""Annotation: the nodes were labelled beforehand, so that followers do not wait for their
leader."""
INDEX = "batch.kubernetes.io/job-completion-index"
LWS_EXCLUSIVE = LWS + "exclusive-topology"
MOST_FOLLOWERS = 10_000


def is_leader(pod: Pod) -> bool:
    """Return whether the other pods of its group are created only after this one has a node."""
    notes, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
    if JOBSET_EXCLUSIVE in notes:
        return JOBSET_BY_LABEL not in notes and notes.get(INDEX) == "0"
    return LWS_EXCLUSIVE in notes and labels.get(LWS + "worker-index") == "0"


def followers_of(leader: Pod, owner: Owner, there: int) -> dict[TaskId, Pod]:
    """Return a placeholder for each follower that does not exist yet; all share one pod object.

    `owner` is the Job or the LeaderWorkerSet that creates the group; `there` is the number of
    existing pods of the group, with the leader. The result is empty if the followers are not in the
    gang of their leader, or if their template cannot be read.
    """
    if LWS_EXCLUSIVE in (leader.metadata.annotations or {}):
        size = count(inner(owner.spec, "leaderWorkerTemplate"), "size", 1)
        is_apart = owner.spec.get("startupPolicy") == "LeaderReady"
        follower = None if is_apart else _worker_placeholder(leader, owner)
    else:
        done = count(owner.status, "succeeded", 0)
        size = min(
            pods_at_once(owner.spec), count(owner.spec, "completions", MOST_FOLLOWERS) - done
        )
        follower = _placeholder(leader, leader.spec)
    if follower is None or size > MOST_FOLLOWERS:
        return {}
    meta = leader.metadata
    names = (f"{meta.name}-place-{at}/{meta.uid}-place-{at}" for at in range(there, size))
    return {TaskId(f"{meta.namespace}/{name}"): follower for name in names}


def group_of(pod: Pod) -> str:
    """Return a key that is equal for the pods of one group, and differs between groups."""
    labels, above = pod.metadata.labels or {}, controller(pod.metadata)
    return labels.get(LWS + "group-index") or (above.uid if above else "")


def _worker_placeholder(leader: Pod, owner: Owner) -> Pod | None:
    """Return a worker of a LeaderWorkerSet with the affinity of its leader; None if unreadable."""
    template: Spec = inner(inner(owner.spec, "leaderWorkerTemplate"), "workerTemplate")
    try:
        spec = msgspec.convert(inner(template, "spec"), PodSpec)
        labels = msgspec.convert(inner(inner(template, "metadata"), "labels"), dict[str, str])
    except msgspec.ValidationError:
        return None
    of_leader, own = leader.spec.affinity or Affinity(), spec.affinity or Affinity()
    affinity = msgspec.structs.replace(
        own,
        pod_affinity=_with_terms(own.pod_affinity, of_leader.pod_affinity),
        pod_anti_affinity=_with_terms(own.pod_anti_affinity, of_leader.pod_anti_affinity),
    )
    spec = msgspec.structs.replace(
        spec,
        affinity=affinity,
        priority=leader.spec.priority,
        scheduler_name=spec.scheduler_name or leader.spec.scheduler_name,
    )
    return _placeholder(leader, spec, {**(leader.metadata.labels or {}), **labels})


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


def _placeholder(leader: Pod, spec: PodSpec, labels: dict[str, str] | None = None) -> Pod:
    """Return a pod of the leader's group without a node."""
    meta: ObjectMeta = msgspec.structs.replace(
        leader.metadata,
        name=f"{leader.metadata.name}-place",
        uid=f"{leader.metadata.uid}-place",
        labels=leader.metadata.labels if labels is None else labels,
        deletion_timestamp=None,
    )
    return Pod(meta, msgspec.structs.replace(spec, node_name=""), PodStatus(phase="Pending"))
