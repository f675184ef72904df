"""Which pods start together: one row for each kind of owner.

A pod belongs to the gang that its owners' specs describe, never the pods seen so far: pods come one
at a time. The way up its owners is followed as far as there are rows; the topmost decides, or
passes it down. The label `windlass.dev/gang` makes a gang of any pods, with a Gang object of that
name or without; a pod whose owner has no row, or none at all, is a gang of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from windlass.model.reasons import Reason, ReasonCode
from windlass.workloads.kinds import eviction_survival, gang_sizes
from windlass.workloads.kinds.eviction_survival import (
    BACKOFF_SLACK_S,
    UNLIMITED,
    Backoff,
    Forgives,
    Survival,
    Survives,
)
from windlass.workloads.kinds.gang_sizes import BELOW, Answer, Link, OwnedGang
from windlass.workloads.kinds.suspension import OwnerState, standing
from windlass.workloads.objects.annotations import GANG, GROUP, MINIMUM, mark
from windlass.workloads.objects.spec_fields import count, inner, items, text
from windlass.workloads.objects.wire import ObjectMeta, Owner, OwnerRef, Pod, controller

MOST_MEMBERS = 100_000
RAY_PRIORITY = "ray.io/priority-class-name"
"""The label of a RayCluster that names the PriorityClass of its pods."""
MAY_STAND_ABOVE = frozenset({"CronJob"})
"""Owners that do not mind that an object they made is suspended. Others may resume it."""


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
    priority_class: str = ""
    """Whose value counts instead of the pods' own priority."""
    group: str = ""
    """Which part of a gang it says it belongs to."""
    explicit: bool = False
    """A Gang object says what the gang is like."""
    forgives: int = UNLIMITED
    """The number of its pods that may be evicted one by one before an owner fails for good."""
    counted_by: str = ""
    """The key of the owner that counts these failures; empty if none does."""
    remade_within_s: int = 0
    """The seconds that its owner may wait before it makes a lost pod again."""
    stops_with: str = ""
    """The key of the owner that is suspended to stop the gang whole; empty if none can be."""


class Key(NamedTuple):
    """What a kind is known by; names of kinds alone are not unique."""

    kind: str
    group: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}"

    @classmethod
    def of(cls, written: str) -> Key:
        """A kind as it is written: `Job.batch`."""
        kind, _, group = written.partition(".")
        return cls(kind, group)


def pods_own(_owner: Owner) -> str:
    """That of the pods."""
    return ""


@dataclass(frozen=True, slots=True)
class JobKind:
    """One row: where such owners are found, and what they say about their pods."""

    path: str
    """Where all of them are read; empty if the reference to one says enough."""
    gang: Callable[[Link], Answer]
    survives: Survival = eviction_survival.recreated
    priority: Callable[[Owner], str] = pods_own
    """The PriorityClass that it names beside its pods."""
    above: tuple[str, ...] = ()
    """Kinds that make such owners and have no say in the gang."""
    suspend: str = ""
    """The field that stops it whole, such as `spec.suspend`; empty if it has none."""
    forgives: Forgives = eviction_survival.no_count
    """Returns the number of evictions of single pods that it survives."""
    backoff_s: Backoff = eviction_survival.at_once
    """Returns the seconds that it waits before it makes a lost pod again."""


Kinds: TypeAlias = Mapping[Key, JobKind]
Owners: TypeAlias = Callable[[OwnerRef, str], Owner | None]
"""Finds an owner that has been seen, by reference (without a uid: by name) and namespace."""


class OwnerStep(NamedTuple):
    """An owner above a pod."""

    ref: OwnerRef
    row: JobKind
    owner: Owner | None


def membership(pod: Pod, owners: Owners, kinds: Kinds | None = None) -> Membership:
    """The gang of a pod, with what speaks against it."""
    meta = pod.metadata
    way = climb(pod, owners, KINDS if kinds is None else kinds)
    asked = [step.ref for step in way]
    if name := mark(meta, GANG):
        asked.append(gang_named(name))
    keys = tuple([key_of(ref, meta.namespace) for ref in asked])
    forgives, counted_by = _forgives(way, meta.namespace)
    say = partial(
        Membership,
        owners=keys,
        survives=_survives(way),
        forgives=forgives,
        counted_by=counted_by,
        remade_within_s=_remade_within_s(way),
    )
    if name:
        return _labelled(say, meta, name, owners(asked[-1], meta.namespace))
    return _owned(say, pod, way) if way else _alone(say, meta, controller(meta))


_Say: TypeAlias = Callable[..., Membership]
"""Makes a membership that knows its owners already: a frozen one is not changed cheaply."""


def key_of(ref: OwnerRef, namespace: str) -> str:
    """What an owner is remembered by."""
    return ref.uid or f"{kind_of(ref)}/{namespace}/{ref.name}"


def kind_of(ref: OwnerRef) -> Key:
    """The kind that a reference names."""
    return Key(ref.kind, ref.api_version.rpartition("/")[0])


def gang_named(name: str) -> OwnerRef:
    """The Gang object that pods name by a label."""
    return OwnerRef("Gang", name, "", "windlass.dev/v1alpha1")


def climb(pod: Pod, owners: Owners, kinds: Kinds) -> list[OwnerStep]:
    """The owners above a pod, nearest first, as far as there are rows and they have been seen."""
    meta, way = pod.metadata, list[OwnerStep]()
    ref = controller(meta)
    if name := gang_sizes.set_of_leader(meta):
        ref = OwnerRef("LeaderWorkerSet", name, "", "leaderworkerset.x-k8s.io/v1")
    while ref is not None and len(way) < MOST_STEPS:
        row = kinds.get(kind_of(ref))
        if row is None:
            break
        owner = owners(ref, meta.namespace) if row.path else _as_named(ref, meta.namespace)
        way.append(OwnerStep(ref, row, owner))
        ref = controller(owner.metadata) if owner else None
    return way


MOST_STEPS = 8
"""No chain of owners is longer, unless somebody made a circle."""


def _as_named(ref: OwnerRef, namespace: str) -> Owner:
    """An owner that is not read: all that its reference says."""
    return Owner(ObjectMeta(name=ref.name, namespace=namespace, uid=ref.uid))


def _owned(say: _Say, pod: Pod, way: list[OwnerStep]) -> Membership:
    """What the topmost owner says that has something to say."""
    last = way[-1]
    if last.owner is None:
        missing = Reason(ReasonCode.OWNER_UNSEEN, {"kind": last.ref.kind, "owner": last.ref.name})
        return say(_id(pod.metadata, last.ref.name, last.ref.uid), last.ref.name, refusal=missing)
    below = [step.owner for step in way if step.owner is not None]
    for step in reversed(way):
        owner = below.pop()
        answer = step.row.gang(Link(pod, owner, tuple(below)))
        if answer is not BELOW:
            # the pods of a plain Job have nothing to do with each other: nobody stops all for one
            is_whole = isinstance(answer, OwnedGang) or len(way) > 1
            stops_with = stopping(way, pod.metadata.namespace) if is_whole else ""
            more = partial(say, priority_class=step.row.priority(owner), stops_with=stops_with)
            return _said(more, pod.metadata, owner, answer, _suspension(way))
    return _alone(say, pod.metadata, way[0].ref)


def stopping(way: list[OwnerStep], namespace: str) -> str:
    """Return the key of the topmost owner if it can be suspended and nobody above could object."""
    last = way[-1]
    above = controller(last.owner.metadata) if last.owner else None
    if not last.row.suspend or (above and above.kind not in MAY_STAND_ABOVE):
        return ""
    return key_of(last.ref, namespace)


def _said(
    say: _Say, meta: ObjectMeta, owner: Owner, answer: Answer, refusal: Reason | None
) -> Membership:
    above, written = owner.metadata, mark(owner.metadata, MINIMUM) or mark(meta, MINIMUM)
    if not isinstance(answer, OwnedGang) and not written:
        return say(_id(meta, meta.name, meta.uid), above.name, refusal=refusal)
    part = answer if isinstance(answer, OwnedGang) else OwnedGang(1)
    gang = _id(meta, f"{above.name}.{part.name}" if part.name else above.name, above.uid)
    if written:
        size, wrong = _size(written)
        return say(gang, above.name, size, refusal=wrong or refusal)
    size = min(part.minimum, MOST_MEMBERS)
    return say(gang, above.name, size, refusal=refusal, without_done=part.without_done)


def _suspension(way: list[OwnerStep]) -> Reason | None:
    """Pods of a suspended owner are about to be deleted: a place would be wasted on them.

    What we have suspended ourselves keeps its place in line.
    """
    if any(_is_ours(step) for step in way):
        return None
    for step in way:
        spec = step.owner.spec if step.owner else {}
        if spec.get("suspend") is True or inner(spec, "runPolicy").get("suspend") is True:
            return Reason(
                ReasonCode.OWNER_SUSPENDED, {"kind": step.ref.kind, "owner": step.ref.name}
            )
    return None


def _is_ours(step: OwnerStep) -> bool:
    how = standing(step.owner, step.row.suspend) if step.owner else None
    return how is not None and how is not OwnerState.TAKEN


def _labelled(say: _Say, meta: ObjectMeta, name: str, seen: Owner | None) -> Membership:
    say = partial(say, f"{meta.namespace}/{name}", name, group=mark(meta, GROUP))
    if seen is not None:
        spec = seen.spec
        groups = sum(count(each, "minimum", 1) for each in items(spec, "groups"))
        minimum = max(1, count(spec, "minimum", 0), groups)
        return say(minimum, priority_class=text(spec, "priorityClassName"), explicit=True)
    if written := mark(meta, MINIMUM):
        size, wrong = _size(written)
        return say(size, refusal=wrong)
    what = (
        f"label {GANG} is set, but there is no Gang {name} in its namespace and {MINIMUM} is not "
        "set; say in one of them how many pods the gang starts with"
    )
    return say(refusal=Reason(ReasonCode.UNREADABLE, {"what": what}))


def _alone(say: _Say, meta: ObjectMeta, ref: OwnerRef | None) -> Membership:
    return say(_id(meta, meta.name, meta.uid), ref.name if ref else meta.name)


def _size(written: str) -> tuple[int, Reason | None]:
    """The size that a user wrote, and what is wrong with it."""
    if _is_size(written):
        return int(written), None
    what = f'{MINIMUM} is "{written[:40]}"; write a whole number from 1 to {MOST_MEMBERS}'
    return 1, Reason(ReasonCode.UNREADABLE, {"what": what})


def _is_size(written: str) -> bool:
    # the length first: thousands of digits are no number to Python
    is_short = len(written) <= len(str(MOST_MEMBERS))
    is_number = is_short and written.isascii() and written.isdecimal()
    return is_number and 1 <= int(written) <= MOST_MEMBERS


def _id(meta: ObjectMeta, name: str, uid: str) -> str:
    # names are recycled: the uid tells a gang from its namesake, eight digits of it are plenty
    return f"{meta.namespace}/{name}~{uid[:8]}"


def _survives(way: list[OwnerStep]) -> Survives:
    """What the topmost owner says that has a say in it; without one, it is lost."""
    for step in reversed(way):
        said = step.row.survives(step.owner.spec if step.owner else {})
        if said is not None:
            return said
    return Survives.LOST


def _forgives(way: list[OwnerStep], namespace: str) -> tuple[int, str]:
    """Return how many evictions the owners forgive, and the key of the one that decides it.

    That is the topmost owner that counts failures.
    """
    for step in reversed(way):
        left = step.row.forgives(step.owner) if step.owner else None
        if left is not None:
            return left, key_of(step.ref, namespace)
    return UNLIMITED, ""


def _remade_within_s(way: list[OwnerStep]) -> int:
    """Return how many seconds the owners may take to make the next lost pod again."""
    waits = max((step.row.backoff_s(step.owner, 1) for step in way if step.owner), default=0)
    return waits + BACKOFF_SLACK_S if waits else 0


def _of_policy(owner: Owner) -> str:
    """`runPolicy.schedulingPolicy.priorityClass`, or that of the pods."""
    return text(inner(inner(owner.spec, "runPolicy"), "schedulingPolicy"), "priorityClass")


def _of_label(owner: Owner) -> str:
    """The label `ray.io/priority-class-name`, or that of the pods."""
    return (owner.metadata.labels or {}).get(RAY_PRIORITY, "")


STOPS = "spec.suspend"
STOPS_BY_POLICY = "spec.runPolicy.suspend"


def _kubeflow(plural: str) -> JobKind:
    path = f"/apis/kubeflow.org/v1/{plural}"
    return JobKind(
        path, gang_sizes.training, eviction_survival.training, _of_policy, suspend=STOPS_BY_POLICY
    )


KINDS: dict[Key, JobKind] = {
    Key("Job", "batch"): JobKind(
        "/apis/batch/v1/jobs",
        gang_sizes.job,
        eviction_survival.job,
        above=("CronJob",),
        suspend=STOPS,
        forgives=eviction_survival.job_forgives,
        backoff_s=eviction_survival.job_backoff_s,
    ),
    Key("ReplicaSet", "apps"): JobKind("", gang_sizes.alone, above=("Deployment",)),
    Key("StatefulSet", "apps"): JobKind("", gang_sizes.alone),
    Key("DaemonSet", "apps"): JobKind("", gang_sizes.alone),
    Key("ReplicationController", ""): JobKind("", gang_sizes.alone),
    Key("JobSet", "jobset.x-k8s.io"): JobKind(
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
        gang_sizes.jobset,
        eviction_survival.jobset,
        suspend=STOPS,
        forgives=eviction_survival.jobset_forgives,
    ),
    Key("TrainJob", "trainer.kubeflow.org"): JobKind(
        "/apis/trainer.kubeflow.org/v1alpha1/trainjobs",
        gang_sizes.below,
        eviction_survival.left_open,
        suspend=STOPS,
    ),
    Key("PyTorchJob", "kubeflow.org"): _kubeflow("pytorchjobs"),
    Key("TFJob", "kubeflow.org"): _kubeflow("tfjobs"),
    Key("XGBoostJob", "kubeflow.org"): _kubeflow("xgboostjobs"),
    Key("JAXJob", "kubeflow.org"): _kubeflow("jaxjobs"),
    Key("MPIJob", "kubeflow.org"): JobKind(
        "/apis/kubeflow.org/v2beta1/mpijobs",
        gang_sizes.mpi,
        eviction_survival.mpi,
        _of_policy,
        suspend=STOPS_BY_POLICY,
    ),
    Key("RayCluster", "ray.io"): JobKind(
        "/apis/ray.io/v1/rayclusters",
        gang_sizes.ray,
        priority=_of_label,
        above=("RayService",),
        suspend=STOPS,
    ),
    Key("RayJob", "ray.io"): JobKind(
        "/apis/ray.io/v1/rayjobs", gang_sizes.below, eviction_survival.ray_job
    ),
    Key("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): JobKind(
        "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets", gang_sizes.leader_worker_set
    ),
}
"""The submitter of a RayJob is a Job that is not Indexed, and so stands for itself."""
