"""The table of job kinds, and the membership of a pod in its gang.

The gang of a pod follows from the specs of its owners, never from the pods seen so far, because
pods arrive one at a time. The chain of owners is followed as long as their kinds have rows in the
table; the topmost owner decides, or passes the decision to the owner below it. The label
`windlass.dev/gang` puts any pods into one gang, with or without a Gang object of that name. A pod
without an owner, or with one whose kind has no row, is a gang of its own.
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
from windlass.workloads.kinds.suspension import OwnerState, owner_state
from windlass.workloads.objects import (
    GANG,
    GROUP,
    MINIMUM,
    ObjectMeta,
    Owner,
    OwnerRef,
    Pod,
    controller,
    count,
    inner,
    items,
    mark,
    text,
)

MOST_MEMBERS = 100_000
"""The largest minimum of a gang."""
RAY_PRIORITY = "ray.io/priority-class-name"
"""The label of a RayCluster that names the PriorityClass of its pods."""
MAY_STAND_ABOVE = frozenset({"CronJob"})
"""Kinds of owners that tolerate that we suspend an object of theirs. Others may resume it."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The gang that a pod belongs to."""

    gang: str
    """The id of the gang, unique in the cluster: namespace, name and, if it has an owner, its
    uid."""
    job: str
    """The name of the job that the gang belongs to."""
    minimum: int = 1
    """The number of pods that start together."""
    survives: Survives = Survives.LOST
    """The fate of an evicted pod."""
    refusal: Reason | None = None
    """The reason why the gang cannot be placed; None if it can."""
    without_done: bool = False
    """True if the minimum is reduced by the succeeded pods, which do not count towards it."""
    owners: tuple[str, ...] = ()
    """The keys of the owners that were looked up, found or not: a change of one may change this."""
    priority_class: str = ""
    """The PriorityClass that replaces the priority of the pods; empty: their own counts."""
    group: str = ""
    """The group of the gang that the pod names; empty if it names none."""
    explicit: bool = False
    """True if a Gang object describes the gang."""
    forgives: int = UNLIMITED
    """The number of its pods that may be evicted before an owner fails for good."""
    counted_by: str = ""
    """The key of the owner that counts these failures; empty if none does."""
    remade_within_s: int = 0
    """The most seconds that its owner waits before it recreates a lost pod."""
    stops_with: str = ""
    """The key of the owner that can be suspended to stop the gang as a whole; empty if none can."""


class Key(NamedTuple):
    """A kind with its API group, because names of kinds are not unique."""

    kind: str
    group: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}"

    @classmethod
    def of(cls, written: str) -> Key:
        """Return the key that a text such as `Job.batch` names."""
        kind, _, group = written.partition(".")
        return cls(kind, group)


def pods_own(_owner: Owner) -> str:
    """The class of its pods."""
    return ""


@dataclass(frozen=True, slots=True)
class JobKind:
    """One row of the table: the API path of the kind, and functions of its owners.

    The docstrings of `gang`, `survives` and `priority` are cells of docs/reference/job-kinds.md.
    """

    path: str
    """The API path of the collection; empty if objects of the kind need not be read."""
    gang: Callable[[Link], Answer]
    """Returns the gang of a pod of such an owner."""
    survives: Survival = eviction_survival.recreated
    """Returns the fate of an evicted pod."""
    priority: Callable[[Owner], str] = pods_own
    """Returns the PriorityClass that the owner names; empty if it names none."""
    above: tuple[str, ...] = ()
    """The kinds that create such owners and do not decide about the gang."""
    suspend: str = ""
    """The path of the field that suspends it, such as `spec.suspend`; empty if it has none."""
    forgives: Forgives = eviction_survival.no_count
    """Returns the number of evictions of single pods that the owner tolerates."""
    backoff_s: Backoff = eviction_survival.at_once
    """Returns the seconds that the owner waits before it recreates a lost pod."""


Kinds: TypeAlias = Mapping[Key, JobKind]
Owners: TypeAlias = Callable[[OwnerRef, str], Owner | None]
"""Returns an owner by reference (by name, if that has no uid) and namespace; None if unknown."""


class OwnerStep(NamedTuple):
    """One owner in the chain of owners of a pod."""

    ref: OwnerRef
    row: JobKind
    owner: Owner | None
    """None if the object is not known yet; only the last step of a chain may be so."""


def membership(pod: Pod, owners: Owners, kinds: Kinds | None = None) -> Membership:
    """Return the gang of a pod, with the reason if it cannot be placed."""
    meta = pod.metadata
    way = owner_chain(pod, owners, KINDS if kinds is None else kinds)
    references = [step.ref for step in way]
    if name := mark(meta, GANG):
        references.append(gang_named(name))
    keys = tuple([key_of(ref, meta.namespace) for ref in references])
    forgives, counted_by = _forgives(way, meta.namespace)
    # The fields that all cases share are bound here: replacing them in a frozen object costs more.
    make = partial(
        Membership,
        owners=keys,
        survives=_survives(way),
        forgives=forgives,
        counted_by=counted_by,
        remade_within_s=_remade_within_s(way),
    )
    if name:
        return _labelled(make, meta, name, owners(references[-1], meta.namespace))
    return _owned(make, pod, way) if way else _alone(make, meta, controller(meta))


_MakeMembership: TypeAlias = Callable[..., Membership]
"""Makes a membership; the fields that follow from the chain of owners are bound already."""


def key_of(ref: OwnerRef, namespace: str) -> str:
    """Return the key of an owner: its uid or, without one, its kind, namespace and name."""
    return ref.uid or f"{kind_of(ref)}/{namespace}/{ref.name}"


def kind_of(ref: OwnerRef) -> Key:
    """Return the kind that a reference names."""
    return Key(ref.kind, ref.api_version.rpartition("/")[0])


def gang_named(name: str) -> OwnerRef:
    """Return a reference to the Gang object that pods name by a label."""
    return OwnerRef("Gang", name, "", "windlass.dev/v1alpha1")


def owner_chain(pod: Pod, owners: Owners, kinds: Kinds) -> list[OwnerStep]:
    """Return the chain of owners of a pod, nearest first, as far as rows and known objects go."""
    meta, way = pod.metadata, list[OwnerStep]()
    ref = controller(meta)
    if name := gang_sizes.set_of_leader(meta):
        ref = OwnerRef("LeaderWorkerSet", name, "", "leaderworkerset.x-k8s.io/v1")
    while ref is not None and len(way) < MOST_STEPS:
        row = kinds.get(kind_of(ref))
        if row is None:
            break
        owner = owners(ref, meta.namespace) if row.path else _from_reference(ref, meta.namespace)
        way.append(OwnerStep(ref, row, owner))
        ref = controller(owner.metadata) if owner else None
    return way


MOST_STEPS = 8
"""The most owners above a pod; this also ends a cycle of references."""


def _from_reference(ref: OwnerRef, namespace: str) -> Owner:
    """Return an owner of a kind whose objects are not read, made from its reference."""
    return Owner(ObjectMeta(name=ref.name, namespace=namespace, uid=ref.uid))


def _owned(make: _MakeMembership, pod: Pod, way: list[OwnerStep]) -> Membership:
    """Return the membership that the topmost deciding owner gives."""
    last = way[-1]
    if last.owner is None:
        missing = Reason(ReasonCode.OWNER_UNSEEN, {"kind": last.ref.kind, "owner": last.ref.name})
        return make(_id(pod.metadata, last.ref.name, last.ref.uid), last.ref.name, refusal=missing)
    below = [step.owner for step in way if step.owner is not None]
    for step in reversed(way):
        owner = below.pop()
        answer = step.row.gang(Link(pod, owner, tuple(below)))
        if answer is not BELOW:
            # The pods of a plain Job are independent: the Job is not suspended for one of them.
            is_whole = isinstance(answer, OwnedGang) or len(way) > 1
            stops_with = suspendable_owner(way, pod.metadata.namespace) if is_whole else ""
            make = partial(make, priority_class=step.row.priority(owner), stops_with=stops_with)
            return _from_answer(make, pod.metadata, owner, answer, _suspension(way))
    return _alone(make, pod.metadata, way[0].ref)


def suspendable_owner(way: list[OwnerStep], namespace: str) -> str:
    """Return the key of the topmost owner if we can suspend it, else "".

    An owner above it, of a kind without a row, might resume it.
    """
    last = way[-1]
    above = controller(last.owner.metadata) if last.owner else None
    if not last.row.suspend or (above and above.kind not in MAY_STAND_ABOVE):
        return ""
    return key_of(last.ref, namespace)


def _from_answer(
    make: _MakeMembership, meta: ObjectMeta, owner: Owner, answer: Answer, refusal: Reason | None
) -> Membership:
    """Return the membership for the answer of a row; a minimum that the user wrote comes first."""
    above, written = owner.metadata, mark(owner.metadata, MINIMUM) or mark(meta, MINIMUM)
    if not isinstance(answer, OwnedGang) and not written:
        return make(_id(meta, meta.name, meta.uid), above.name, refusal=refusal)
    part = answer if isinstance(answer, OwnedGang) else OwnedGang(1)
    gang = _id(meta, f"{above.name}.{part.name}" if part.name else above.name, above.uid)
    if written:
        size, wrong = _size(written)
        return make(gang, above.name, size, refusal=wrong or refusal)
    size = min(part.minimum, MOST_MEMBERS)
    return make(gang, above.name, size, refusal=refusal, without_done=part.without_done)


def _suspension(way: list[OwnerStep]) -> Reason | None:
    """Return the reason not to place the pods of a suspended owner; None if none is suspended.

    Such pods are about to be deleted. An owner that we have suspended ourselves is no reason: its
    gang keeps its position in the queue.
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
    state = owner_state(step.owner, step.row.suspend) if step.owner else None
    return state is not None and state is not OwnerState.TAKEN


def _labelled(make: _MakeMembership, meta: ObjectMeta, name: str, gang: Owner | None) -> Membership:
    """Return the membership in the gang that the pod names; `gang` is its Gang object, if any."""
    make = partial(make, f"{meta.namespace}/{name}", name, group=mark(meta, GROUP))
    if gang is not None:
        spec = gang.spec
        groups = sum(count(group, "minimum", 1) for group in items(spec, "groups"))
        minimum = max(1, count(spec, "minimum", 0), groups)
        return make(minimum, priority_class=text(spec, "priorityClassName"), explicit=True)
    if written := mark(meta, MINIMUM):
        size, wrong = _size(written)
        return make(size, refusal=wrong)
    what = (
        f"label {GANG} is set, but there is no Gang {name} in its namespace and {MINIMUM} is not "
        "set; say in one of them how many pods the gang starts with"
    )
    return make(refusal=Reason(ReasonCode.UNREADABLE, {"what": what}))


def _alone(make: _MakeMembership, meta: ObjectMeta, ref: OwnerRef | None) -> Membership:
    return make(_id(meta, meta.name, meta.uid), ref.name if ref else meta.name)


def _size(written: str) -> tuple[int, Reason | None]:
    """Return the minimum that a user wrote; for an unreadable one, 1 and the reason."""
    if _is_size(written):
        return int(written), None
    what = f'{MINIMUM} is "{written[:40]}"; write a whole number from 1 to {MOST_MEMBERS}'
    return 1, Reason(ReasonCode.UNREADABLE, {"what": what})


def _is_size(written: str) -> bool:
    # The length comes first: int() raises for thousands of digits.
    is_short = len(written) <= len(str(MOST_MEMBERS))
    is_number = is_short and written.isascii() and written.isdecimal()
    return is_number and 1 <= int(written) <= MOST_MEMBERS


def _id(meta: ObjectMeta, name: str, uid: str) -> str:
    # Names are reused; eight digits of the uid tell a gang from an earlier one of the same name.
    return f"{meta.namespace}/{name}~{uid[:8]}"


def _survives(way: list[OwnerStep]) -> Survives:
    """Return the fate of an evicted pod, by the topmost owner that decides it; else LOST."""
    for step in reversed(way):
        survives = step.row.survives(step.owner.spec if step.owner else {})
        if survives is not None:
            return survives
    return Survives.LOST


def _forgives(way: list[OwnerStep], namespace: str) -> tuple[int, str]:
    """Return the number of evictions that the owners tolerate, and the key of the deciding owner.

    The topmost owner that counts failures decides.
    """
    for step in reversed(way):
        left = step.row.forgives(step.owner) if step.owner else None
        if left is not None:
            return left, key_of(step.ref, namespace)
    return UNLIMITED, ""


def _remade_within_s(way: list[OwnerStep]) -> int:
    """Return the most seconds until the owners recreate the next lost pod."""
    waits = max((step.row.backoff_s(step.owner, 1) for step in way if step.owner), default=0)
    return waits + BACKOFF_SLACK_S if waits else 0


def _of_policy(owner: Owner) -> str:
    """The `runPolicy.schedulingPolicy.priorityClass`, or else the class of its pods."""
    return text(inner(inner(owner.spec, "runPolicy"), "schedulingPolicy"), "priorityClass")


def _of_label(owner: Owner) -> str:
    """The label `ray.io/priority-class-name`, or else the class of its pods."""
    return (owner.metadata.labels or {}).get(RAY_PRIORITY, "")


STOPS = "spec.suspend"
STOPS_BY_POLICY = "spec.runPolicy.suspend"
"""The paths of the fields that suspend an owner."""


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
"""The built-in rows. The submitter of a RayJob is a Job that is not Indexed, and so a gang
alone."""
