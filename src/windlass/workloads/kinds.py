"""Which pods start together: one row for each kind of owner.

A pod belongs to the gang that its owners' specs describe, never the pods seen so far: pods come one
at a time. The way up its owners is followed as far as there are rows; the topmost decides, or
passes it down. The label `windlass.dev/gang` makes a gang of any pods; a pod whose owner has no
row, or none at all, is a gang of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from windlass.model.reasons import Reason, Why
from windlass.workloads import gangs
from windlass.workloads.gangs import BELOW, Answer, Link, Part
from windlass.workloads.marks import GANG, MINIMUM, mark
from windlass.workloads.wire import Meta, Owner, OwnerRef, Pod, controller

MOST_MEMBERS = 100_000


class Survives(StrEnum):
    """What becomes of a pod that is evicted."""

    RECREATED = "recreated"
    """Its owner makes another."""
    LOST = "lost"
    """It is gone for good: not to be preempted unless its owner opted in."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The gang that a pod belongs to."""

    gang: str
    """Unique in the cluster: namespace, name and, where there is one, the owner's uid."""
    job: str
    minimum: int = 1
    survives: Survives = Survives.LOST
    refusal: Reason | None = None
    """Why it cannot be placed as it stands."""
    without_done: bool = False
    """Pods that succeeded do not count towards the minimum; it is smaller by their number."""
    owners: tuple[str, ...] = ()
    """The owners that were asked for, seen or not: if one changes, so may this."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: where such owners are found, and how many of an owner's pods start together."""

    path: str
    gang: Callable[[Link], Answer]
    survives: Survives = Survives.RECREATED


Owners: TypeAlias = Callable[[OwnerRef, str], Owner | None]
"""Finds an owner that has been seen, by reference (without a uid: by name) and namespace."""


def membership(pod: Pod, owners: Owners) -> Membership:
    """The gang of a pod, with what speaks against it."""
    meta = pod.metadata
    way = list(_climb(pod, owners))
    keys = tuple(key_of(ref, meta.namespace) for ref, _ in way)
    return replace(_decide(pod, way), owners=keys)


def key_of(ref: OwnerRef, namespace: str) -> str:
    """What an owner is remembered by."""
    return ref.uid or f"{ref.kind}/{namespace}/{ref.name}"


_Way: TypeAlias = list[tuple[OwnerRef, Owner | None]]


def _climb(pod: Pod, owners: Owners) -> _Way:
    """The owners above a pod, nearest first, as far as there are rows and they have been seen."""
    meta, way = pod.metadata, list[tuple[OwnerRef, Owner | None]]()
    if name := gangs.set_of_leader(meta):
        ref = OwnerRef("LeaderWorkerSet", name, "", "leaderworkerset.x-k8s.io/v1")
        return [(ref, owners(ref, meta.namespace))]
    ref = controller(meta)
    while ref is not None and _row(ref) is not None and len(way) < MOST_STEPS:
        owner = owners(ref, meta.namespace)
        way.append((ref, owner))
        ref = controller(owner.metadata) if owner else None
    return way


MOST_STEPS = 8
"""No chain of owners is longer, unless somebody made a circle."""


def _decide(pod: Pod, way: _Way) -> Membership:
    meta, ref = pod.metadata, controller(pod.metadata)
    row = _row(way[0][0]) if way else None
    survives = row.survives if row else _survives(ref)
    if name := mark(meta, GANG):
        return _labelled(meta, name, survives)
    if not way:
        return _alone(meta, ref, survives)
    last, seen = way[-1]
    if seen is None:
        missing = Reason(Why.OWNER_UNSEEN, {"kind": last.kind, "owner": last.name})
        return Membership(_id(meta, last.name, last.uid), last.name, 1, survives, missing)
    return _owned(pod, way, survives)


def _owned(pod: Pod, way: _Way, survives: Survives) -> Membership:
    meta, between = pod.metadata, [owner for _, owner in way if owner is not None]
    while between:
        owner, ref = between[-1], way[len(between) - 1][0]
        row = _row(ref)
        answer = row.gang(Link(pod, owner, tuple(between[:-1]))) if row else BELOW
        if answer is BELOW:
            between.pop()
            continue
        written = mark(owner.metadata, MINIMUM) or mark(meta, MINIMUM)
        if not isinstance(answer, Part) and not written:
            return _alone(meta, ref, survives)
        part = answer if isinstance(answer, Part) else Part(1)
        name = f"{ref.name}.{part.name}" if part.name else ref.name
        gang = _id(meta, name, owner.metadata.uid)
        found = Membership(gang, ref.name, min(part.minimum, MOST_MEMBERS), survives)
        if written:
            return _sized(found, written)
        return replace(found, without_done=part.without_done)
    return _alone(meta, controller(meta), survives)


def _row(ref: OwnerRef) -> Kind | None:
    return KINDS.get((ref.kind, _group(ref.api_version)))


def _labelled(meta: Meta, name: str, survives: Survives) -> Membership:
    gang = f"{meta.namespace}/{name}"
    written = mark(meta, MINIMUM)
    if not written:
        missing = Reason(
            Why.UNREADABLE,
            {
                "what": f"label {GANG} is set but {MINIMUM} is not; "
                "say there how many pods the gang starts with"
            },
        )
        return Membership(gang, name, 1, survives, missing)
    return _sized(Membership(gang, name, 1, survives), written)


def _alone(meta: Meta, ref: OwnerRef | None, survives: Survives) -> Membership:
    return Membership(_id(meta, meta.name, meta.uid), ref.name if ref else meta.name, 1, survives)


def _sized(found: Membership, written: str) -> Membership:
    if not _is_size(written):
        what = f'{MINIMUM} is "{written[:40]}"; write a whole number from 1 to {MOST_MEMBERS}'
        refusal = Reason(Why.UNREADABLE, {"what": what})
        return replace(found, refusal=refusal)
    return replace(found, minimum=int(written))


def _is_size(written: str) -> bool:
    # the length first: thousands of digits are no number to Python
    is_short = len(written) <= len(str(MOST_MEMBERS))
    is_number = is_short and written.isascii() and written.isdecimal()
    return is_number and 1 <= int(written) <= MOST_MEMBERS


def _id(meta: Meta, name: str, uid: str) -> str:
    # names are recycled: the uid tells a gang from its namesake, eight digits of it are plenty
    return f"{meta.namespace}/{name}~{uid[:8]}"


def _survives(ref: OwnerRef | None) -> Survives:
    return Survives.RECREATED if ref is not None and ref.kind in _RECREATING else Survives.LOST


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


_KUBEFLOW = "/apis/kubeflow.org/v1/"

KINDS: dict[tuple[str, str], Kind] = {
    ("Job", "batch"): Kind("/apis/batch/v1/jobs", gangs.job),
    ("JobSet", "jobset.x-k8s.io"): Kind("/apis/jobset.x-k8s.io/v1alpha2/jobsets", gangs.jobset),
    ("PyTorchJob", "kubeflow.org"): Kind(_KUBEFLOW + "pytorchjobs", gangs.training),
    ("TFJob", "kubeflow.org"): Kind(_KUBEFLOW + "tfjobs", gangs.training),
    ("XGBoostJob", "kubeflow.org"): Kind(_KUBEFLOW + "xgboostjobs", gangs.training),
    ("JAXJob", "kubeflow.org"): Kind(_KUBEFLOW + "jaxjobs", gangs.training),
    ("MPIJob", "kubeflow.org"): Kind("/apis/kubeflow.org/v2beta1/mpijobs", gangs.mpi),
    ("RayCluster", "ray.io"): Kind("/apis/ray.io/v1/rayclusters", gangs.ray),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): Kind(
        "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets", gangs.leader_worker_set
    ),
}
"""What stands above these (CronJob, TrainJob, RayJob, RayService) need not be read: the gang is the
same. A RayJob's submitter is a Job that is not Indexed, and so stands for itself."""
_RECREATING = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"})
"""Owners whose pods stand for themselves and are made again."""
