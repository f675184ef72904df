"""The expansion of a manifest to the owners and pods that its controllers would create.

`ROWS` has one function per kind, which yields batches of equal pods: the template, the number, the
labels that decide about gangs, and the owner between the manifest and the pods. Names and uids are
invented; later code relies only on their being different. Kinds without pods, such as a Service,
are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import msgspec

from windlass.model.errors import UnknownName
from windlass.model.jobs import TaskId
from windlass.workloads.kinds import (
    JOBSET,
    LWS,
    Key,
    Kinds,
    pods_at_once,
    resumed_first,
    workers_of_group,
)
from windlass.workloads.objects import CREATOR, Owner, Pod, Spec, count, inner, items, roles, text

MOST_PODS = 10_000
"""The most pods of an expansion."""
ROLE = "training.kubeflow.org/job-role"
"""The label by which training operators name the role of a pod."""
_AMOUNTS = frozenset({"requests", "limits", "overhead"})


@dataclass(frozen=True, slots=True)
class ExpandedManifests:
    """The objects that a cluster would have after manifests were submitted."""

    owners: list[tuple[Key, Owner]] = field(default_factory=list[tuple[Key, Owner]])
    pods: list[Pod] = field(default_factory=list[Pod])


@dataclass(frozen=True, slots=True)
class ClusterDefaults:
    """The values with which a cluster completes a manifest."""

    namespace: str
    """The namespace of manifests that name none."""
    scheduler: str
    """The scheduler name that all pods get."""
    now: str
    """The creation time of all objects, as Kubernetes writes it."""
    priorities: Mapping[str, int] | None
    """The values of PriorityClasses by name, and of the global default by ""; None if unknown."""
    kinds: Kinds
    """The kinds of owners."""
    never_preempting: Collection[str] = ()
    """The PriorityClasses with preemptionPolicy Never, whose pods preempt no others."""


@dataclass(frozen=True, slots=True)
class _PodBatch:
    """A number of equal pods."""

    template: Spec
    pods: int = 1
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    below: tuple[Key, str, Spec] | None = None
    """The owner between the manifest and the pods: kind, name and spec; None if there is none."""


@dataclass(frozen=True, slots=True)
class ExpandedPods:
    """Equal pods that an owner would create, represented by one object."""

    pod: Pod
    """The first of the pods."""
    tasks: tuple[TaskId, ...]
    """The task ids of all pods."""
    twin: Pod
    """The last of the pods; it differs from the first only in its name and uid."""


class CannotMake(ValueError):
    """A manifest cannot be expanded; the message says why."""


def expand_manifests(manifests: Iterable[Spec], terms: ClusterDefaults) -> ExpandedManifests:
    """Return the owners and pods of some manifests; CannotMake if one of them cannot be read."""
    result = ExpandedManifests()
    for at, manifest in enumerate(manifests):
        try:
            _expand(manifest, terms, f"{at:08x}-before", result)
        except msgspec.ValidationError as error:
            what = f"{text(manifest, 'kind') or 'a document'} {_name_of(manifest)}"
            raise CannotMake(f"{what} is not as Kubernetes wants it: {error}") from None
    if len(result.pods) > MOST_PODS:
        raise CannotMake(f"it makes {len(result.pods):,} pods; at most {MOST_PODS:,} are looked at")
    return result


def expand_owner(
    key: Key, owner: Owner, terms: ClusterDefaults, *, whole: bool = False
) -> list[ExpandedPods]:
    """Return the pods that an owner in the cluster would create as soon as it is resumed.

    With `whole` also those that it creates later, and those that have succeeded already. The owner
    is the direct owner of each pod, without owners between. The result is empty if there are too
    many pods or the spec cannot be read.
    """
    meta, row = owner.metadata, ROWS.get(key, _templates)
    own = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    batches = list(row(meta.name, owner.spec if whole else _remaining_spec(key, owner)))
    if sum(batch.pods for batch in batches) > MOST_PODS:
        return []
    # Batches of the same template and labels are joined. The templates are parts of one spec, so
    # that id() identifies them while the spec lives.
    joined: dict[object, tuple[_PodBatch, list[str]]] = {}
    for number, batch in enumerate(batches):
        equal = id(batch.template), tuple(sorted(batch.labels.items()))
        names = joined.setdefault(equal, (batch, []))[1]
        names += [f"{number}-{index}" for index in range(batch.pods)]
    above, attempt = _reference(key, own, "v1"), str(count(owner.status, "restarts", 0))
    creator = (meta.annotations or {}).get(CREATOR)
    try:
        return [
            _expanded(
                _as_created(_pod_of(batch, own, above, names[0], terms), creator, attempt),
                own,
                names,
            )
            for batch, names in joined.values()
            if names
        ]
    except (msgspec.ValidationError, CannotMake):
        return []


def _expanded(pod: Pod, own: Mapping[str, str], names: Sequence[str]) -> ExpandedPods:
    pairs = [(f"{own['name']}-{name}", f"{own['uid']}-pod-{name}") for name in names]
    tasks = tuple([TaskId(f"{own['namespace']}/{name}/{uid}") for name, uid in pairs])
    name, uid = pairs[-1]
    twin = msgspec.structs.replace(pod.metadata, name=name, uid=uid)
    return ExpandedPods(pod, tasks, msgspec.structs.replace(pod, metadata=twin))


def _remaining_spec(key: Key, owner: Owner) -> Spec:
    """Return the spec without pods that have succeeded or are created later, if that is known."""
    spec, done = owner.spec, count(owner.status, "succeeded", 0)
    if key == JOB_SET:
        return {**spec, "replicatedJobs": resumed_first(spec, owner.status)}
    if key != JOB or "completions" not in spec:
        return spec
    return {**spec, "completions": max(1, count(spec, "completions", 1) - done)}


def _as_created(pod: Pod, creator: str | None, attempt: str) -> Pod:
    """Return the pod with the owner's creator and, in a JobSet, the number of the restart.

    Ephemeral volumes are dropped: their claims do not exist before the pod, which would wait for
    them.
    """
    meta = pod.metadata
    notes = {key: value for key, value in (meta.annotations or {}).items() if key != CREATOR}
    labels = dict(meta.labels or {})
    if JOBSET + "restart-attempt" in labels:
        labels[JOBSET + "restart-attempt"] = attempt
    noted = notes | ({CREATOR: creator} if creator else {})
    meta = msgspec.structs.replace(meta, annotations=noted, labels=labels)
    volumes = [volume for volume in pod.spec.volumes or () if volume.ephemeral is None]
    spec = msgspec.structs.replace(pod.spec, volumes=volumes)
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def key_of(manifest: Spec) -> Key:
    """Return the kind of a manifest."""
    return Key(text(manifest, "kind"), text(manifest, "apiVersion").rpartition("/")[0])


def name_of(manifest: Spec, terms: ClusterDefaults) -> str:
    """Return namespace/name of a manifest; "" if the API server would generate the name."""
    meta = inner(manifest, "metadata")
    name = text(meta, "name")
    return name and f"{text(meta, 'namespace') or terms.namespace}/{name}"


def is_read(manifest: Spec, kinds: Kinds) -> bool:
    """Return whether a manifest is of a kind that creates pods, or describes a gang."""
    key = key_of(manifest)
    return key in (POD, GANG, *ROWS) or (key in kinds and key != DAEMON_SET)


def _expand(manifest: Spec, terms: ClusterDefaults, uid: str, result: ExpandedManifests) -> None:
    """Add the owners and pods of one manifest to the result."""
    key = key_of(manifest)
    meta = _meta(manifest, terms, uid)
    if key == POD:
        result.pods.append(_pod(manifest, meta, terms))
        return
    if not is_read(manifest, terms.kinds):
        return
    row = None if key == GANG else ROWS.get(key, _templates)
    result.owners.append((key, _owner(meta, inner(manifest, "spec"))))
    reference = _reference(key, meta, text(manifest, "apiVersion").rpartition("/")[2])
    for number, batch in enumerate(row(meta["name"], inner(manifest, "spec")) if row else ()):
        owner = reference
        if batch.below is not None:
            owner = _add_between(batch.below, meta, reference, number, result)
        for index in range(min(batch.pods, MOST_PODS + 1 - len(result.pods))):
            result.pods.append(_pod_of(batch, meta, owner, f"{number}-{index}", terms))


def _add_between(
    below: tuple[Key, str, Spec],
    meta: dict[str, Any],
    above: Spec,
    number: int,
    result: ExpandedManifests,
) -> Spec:
    """Add the owner between a manifest and its pods, unless it is there; return its reference."""
    key, name, spec = below
    own = meta | {"name": name, "uid": f"{meta['uid']}-{number}", "ownerReferences": [above]}
    for kind, owner in result.owners:
        if kind == key and owner.metadata.name == name:
            return _reference(key, own | {"uid": owner.metadata.uid}, "v1")
    result.owners.append((key, _owner(own, spec)))
    return _reference(key, own, "v1")


# --- objects --------------------------------------------------------------------------------------


def _pod_of(batch: _PodBatch, meta: Spec, owner: Spec, number: str, terms: ClusterDefaults) -> Pod:
    """Return one pod of a batch."""
    of_template = inner(batch.template, "metadata")
    own: dict[str, Any] = {
        "name": f"{meta['name']}-{number}",
        "namespace": meta["namespace"],
        "uid": f"{meta['uid']}-pod-{number}",
        "creationTimestamp": terms.now,
        "labels": {**inner(of_template, "labels"), **batch.labels},
        "annotations": dict(inner(of_template, "annotations")),
        "ownerReferences": [owner],
    }
    return _pod(batch.template, own, terms)


def _pod(template: Spec, meta: dict[str, Any], terms: ClusterDefaults) -> Pod:
    spec = _completed(inner(template, "spec"))
    name, priorities = text(spec, "priorityClassName"), terms.priorities
    spec |= {"schedulerName": terms.scheduler, "nodeName": ""}
    if name and priorities is not None and name not in priorities:
        raise CannotMake(str(UnknownName("PriorityClass", name, priorities)))
    if priorities is not None and name in priorities:
        spec["priority"] = priorities[name]
    if name in terms.never_preempting:
        spec["preemptionPolicy"] = "Never"
    written = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    return msgspec.convert(written, Pod)


def _completed(spec: Spec) -> dict[str, Any]:
    """Return a pod spec with the defaults of the API server: text amounts, requests from limits."""
    completed = cast(dict[str, Any], _with_text_amounts(spec))
    for container in (*items(completed, "containers"), *items(completed, "initContainers")):
        amounts = cast(dict[str, Any], inner(container, "resources"))
        if limits := inner(amounts, "limits"):
            amounts["requests"] = {**limits, **inner(amounts, "requests")}
    return completed


def _with_text_amounts(value: object, is_amount: bool = False) -> object:
    """Return a deep copy of a spec in which amounts that are numbers are text."""
    if isinstance(value, dict):
        mapping = cast(dict[str, object], value)
        return {
            key: _with_text_amounts(part, is_amount or key in _AMOUNTS)
            for key, part in mapping.items()
        }
    if isinstance(value, list):
        return [_with_text_amounts(item) for item in cast(list[object], value)]
    return str(value) if is_amount and isinstance(value, int | float) else value


def _owner(meta: Spec, spec: Spec) -> Owner:
    return msgspec.convert({"metadata": meta, "spec": spec}, Owner)


def _meta(manifest: Spec, terms: ClusterDefaults, uid: str) -> dict[str, Any]:
    meta = inner(manifest, "metadata")
    return {
        "name": _name_of(manifest),
        "namespace": text(meta, "namespace") or terms.namespace,
        "uid": uid,
        "creationTimestamp": terms.now,
        "labels": dict(inner(meta, "labels")),
        "annotations": dict(inner(meta, "annotations")),
    }


def _name_of(manifest: Spec) -> str:
    meta = inner(manifest, "metadata")
    return text(meta, "name") or f"{text(meta, 'generateName')}new"


def _reference(key: Key, meta: Spec, version: str) -> Spec:
    return {
        "kind": key.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": f"{key.group}/{version}" if key.group else version,
        "controller": True,
    }


# --- kinds ----------------------------------------------------------------------------------------

_Row: TypeAlias = Callable[[str, Spec], Iterator[_PodBatch]]
"""Yields the batches of pods of an owner with this name and spec."""
POD = Key("Pod", "")
GANG = Key("Gang", "windlass.dev")
DAEMON_SET = Key("DaemonSet", "apps")
JOB = Key("Job", "batch")
JOB_SET = Key("JobSet", "jobset.x-k8s.io")
RAY = Key("RayCluster", "ray.io")


def _job(_name: str, spec: Spec) -> Iterator[_PodBatch]:
    yield _PodBatch(inner(spec, "template"), pods_at_once(spec))


def _cron_job(name: str, spec: Spec) -> Iterator[_PodBatch]:
    inside = inner(inner(spec, "jobTemplate"), "spec")
    yield _PodBatch(
        inner(inside, "template"), pods_at_once(inside), below=(JOB, f"{name}-1", inside)
    )


def _replicas(_name: str, spec: Spec) -> Iterator[_PodBatch]:
    yield _PodBatch(inner(spec, "template"), count(spec, "replicas", 1))


def _deployment(name: str, spec: Spec) -> Iterator[_PodBatch]:
    below = Key("ReplicaSet", "apps"), f"{name}-1", spec
    yield _PodBatch(inner(spec, "template"), count(spec, "replicas", 1), below=below)


def _job_set(name: str, spec: Spec) -> Iterator[_PodBatch]:
    for replicated in items(spec, "replicatedJobs"):
        role, inside = text(replicated, "name"), inner(inner(replicated, "template"), "spec")
        labels = {JOBSET + "replicatedjob-name": role, JOBSET + "restart-attempt": "0"}
        for number in range(min(count(replicated, "replicas", 1), MOST_PODS)):
            below = JOB, f"{name}-{role}-{number}", inside
            yield _PodBatch(inner(inside, "template"), pods_at_once(inside), labels, below)


def _training(_name: str, spec: Spec) -> Iterator[_PodBatch]:
    for name, role in roles(spec):
        labels = {ROLE: name.lower()}
        yield _PodBatch(inner(role, "template"), count(role, "replicas", 1), labels)


def _ray(_name: str, spec: Spec) -> Iterator[_PodBatch]:
    yield _PodBatch(inner(inner(spec, "headGroupSpec"), "template"))
    autoscales = bool(spec.get("enableInTreeAutoscaling"))
    for group in items(spec, "workerGroupSpecs"):
        if not group.get("suspend"):
            yield _PodBatch(inner(group, "template"), workers_of_group(group, autoscales))


def _ray_job(name: str, spec: Spec) -> Iterator[_PodBatch]:
    cluster = inner(spec, "rayClusterSpec")
    for batch in _ray(name, cluster):
        yield _PodBatch(batch.template, batch.pods, below=(RAY, f"{name}-cluster", cluster))


def _leaders_and_workers(name: str, spec: Spec) -> Iterator[_PodBatch]:
    both = inner(spec, "leaderWorkerTemplate")
    workers = inner(both, "workerTemplate")
    leader = inner(both, "leaderTemplate") or workers
    for group in range(min(count(spec, "replicas", 1), MOST_PODS)):
        labels = {LWS + "name": name, LWS + "group-index": str(group)}
        yield _PodBatch(leader, 1, labels | {LWS + "worker-index": "0"})
        rest = max(0, count(both, "size", 1) - 1)
        yield _PodBatch(workers, rest, labels | {LWS + "worker-index": "1"})


def _templates(_name: str, spec: Spec) -> Iterator[_PodBatch]:
    """Yield every pod template in the spec of a declared kind, as often as its `replicas` say."""
    template = inner(spec, "template")
    if items(inner(template, "spec"), "containers"):
        yield _PodBatch(template, count(spec, "replicas", 1))
        return
    for value in spec.values():
        for part in cast(list[object], value) if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from _templates("", cast(Spec, part))


ROWS: dict[Key, _Row] = {
    JOB: _job,
    Key("CronJob", "batch"): _cron_job,
    Key("Deployment", "apps"): _deployment,
    Key("ReplicaSet", "apps"): _replicas,
    Key("StatefulSet", "apps"): _replicas,
    Key("ReplicationController", ""): _replicas,
    JOB_SET: _job_set,
    Key("PyTorchJob", "kubeflow.org"): _training,
    Key("TFJob", "kubeflow.org"): _training,
    Key("XGBoostJob", "kubeflow.org"): _training,
    Key("JAXJob", "kubeflow.org"): _training,
    Key("MPIJob", "kubeflow.org"): _training,
    RAY: _ray,
    Key("RayJob", "ray.io"): _ray_job,
    Key("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): _leaders_and_workers,
}
"""The kinds with pods. DaemonSets are left out: the number of their pods follows from the nodes."""
