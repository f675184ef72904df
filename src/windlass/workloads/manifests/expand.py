"""The pods that a manifest would become: what its controllers make of it, before it is submitted.

One row for each kind: how many pods of which template, with the labels that decide about gangs, and
the owners between. Names and uids are made up; what is read from them later is only that they
differ. What takes no pods, such as a Service, becomes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import msgspec

from windlass.model.errors import UnknownName
from windlass.model.jobs import TaskId
from windlass.workloads.kinds.gang_sizes import JOBSET, LWS, at_once, of_group, resumed_first
from windlass.workloads.kinds.table import Key, Kinds
from windlass.workloads.objects.annotations import CREATOR
from windlass.workloads.objects.spec_fields import Spec, count, inner, items, roles, text
from windlass.workloads.objects.wire import Owner, Pod

MOST_PODS = 10_000
ROLE = "training.kubeflow.org/job-role"
_AMOUNTS = frozenset({"requests", "limits", "overhead"})


@dataclass(frozen=True, slots=True)
class Made:
    """What would be seen in a cluster after a manifest was submitted."""

    owners: list[tuple[Key, Owner]] = field(default_factory=list[tuple[Key, Owner]])
    pods: list[Pod] = field(default_factory=list[Pod])


@dataclass(frozen=True, slots=True)
class ClusterDefaults:
    """How the cluster would complete a manifest."""

    namespace: str
    """For what names none."""
    scheduler: str
    now: str
    priorities: Mapping[str, int] | None
    """Of PriorityClasses, by name; that of pods that name none, where there is one, by none. None
    if they are not known."""
    kinds: Kinds
    meek: Collection[str] = ()
    """The PriorityClasses whose pods displace nobody."""


@dataclass(frozen=True, slots=True)
class _Lot:
    """Equal pods."""

    template: Spec
    pods: int = 1
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    below: tuple[Key, str, Spec] | None = None
    """An owner between the manifest and the pods: its kind, name and spec."""


@dataclass(frozen=True, slots=True)
class ExpandedPods:
    """Equal pods that an owner would make: one object stands for all of them."""

    pod: Pod
    """The first of them."""
    tasks: tuple[TaskId, ...]
    """The task of each of them."""
    twin: Pod
    """The last of them: it differs from the first in its name and uid alone."""


class CannotMake(ValueError):
    """A manifest cannot be read; the sentence says why."""


def made(manifests: Iterable[Spec], terms: ClusterDefaults) -> Made:
    """The owners and pods of some manifests."""
    found = Made()
    for at, manifest in enumerate(manifests):
        try:
            _make(manifest, terms, f"{at:08x}-before", found)
        except msgspec.ValidationError as error:
            what = f"{text(manifest, 'kind') or 'a document'} {_name_of(manifest)}"
            raise CannotMake(f"{what} is not as Kubernetes wants it: {error}") from None
    if len(found.pods) > MOST_PODS:
        raise CannotMake(f"it makes {len(found.pods):,} pods; at most {MOST_PODS:,} are looked at")
    return found


def made_again(
    key: Key, owner: Owner, terms: ClusterDefaults, *, whole: bool = False
) -> list[ExpandedPods]:
    """Return the pods that an owner in the cluster would make as soon as it is resumed.

    With `whole` also those that it makes later, or would if they had not succeeded. They are made
    as if the owner had made each itself.
    """
    meta, row = owner.metadata, ROWS.get(key, _templates)
    own = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    lots = list(row(meta.name, owner.spec if whole else _left(key, owner)))
    if sum(lot.pods for lot in lots) > MOST_PODS:
        return []
    rows: dict[object, tuple[_Lot, list[str]]] = {}
    for number, lot in enumerate(lots):
        equal = id(lot.template), tuple(sorted(lot.labels.items()))
        names = rows.setdefault(equal, (lot, []))[1]
        names += [f"{number}-{index}" for index in range(lot.pods)]
    above, attempt = _reference(key, own, "v1"), str(count(owner.status, "restarts", 0))
    creator = (meta.annotations or {}).get(CREATOR)
    try:
        return [
            _row(_as_seen(_pod_of(lot, own, above, names[0], terms), creator, attempt), own, names)
            for lot, names in rows.values()
            if names
        ]
    except (msgspec.ValidationError, CannotMake):
        return []


def _row(pod: Pod, own: Mapping[str, str], names: Sequence[str]) -> ExpandedPods:
    pairs = [(f"{own['name']}-{each}", f"{own['uid']}-pod-{each}") for each in names]
    tasks = tuple([TaskId(f"{own['namespace']}/{name}/{uid}") for name, uid in pairs])
    name, uid = pairs[-1]
    twin = msgspec.structs.replace(pod.metadata, name=name, uid=uid)
    return ExpandedPods(pod, tasks, msgspec.structs.replace(pod, metadata=twin))


def _left(key: Key, owner: Owner) -> Spec:
    """A spec without what has succeeded already, or comes later, where the owner tells."""
    spec, done = owner.spec, count(owner.status, "succeeded", 0)
    if key == JOB_SET:
        return {**spec, "replicatedJobs": resumed_first(spec, owner.status)}
    if key != JOB or "completions" not in spec:
        return spec
    return {**spec, "completions": max(1, count(spec, "completions", 1) - done)}


def _as_seen(pod: Pod, creator: str | None, attempt: str) -> Pod:
    """With the owner's creator, whatever the template says, and the attempt of a JobSet.

    Without claims that will be made for it: they are not there yet, and nothing waits for them.
    """
    meta = pod.metadata
    notes = {key: value for key, value in (meta.annotations or {}).items() if key != CREATOR}
    labels = dict(meta.labels or {})
    if JOBSET + "restart-attempt" in labels:
        labels[JOBSET + "restart-attempt"] = attempt
    noted = notes | ({CREATOR: creator} if creator else {})
    meta = msgspec.structs.replace(meta, annotations=noted, labels=labels)
    volumes = [each for each in pod.spec.volumes or () if each.ephemeral is None]
    spec = msgspec.structs.replace(pod.spec, volumes=volumes)
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def key_of(manifest: Spec) -> Key:
    """The kind of a manifest."""
    return Key(text(manifest, "kind"), text(manifest, "apiVersion").rpartition("/")[0])


def name_of(manifest: Spec, terms: ClusterDefaults) -> str:
    """Namespace and name of what a manifest makes; empty if the name is yet to be made up."""
    meta = inner(manifest, "metadata")
    name = text(meta, "name")
    return name and f"{text(meta, 'namespace') or terms.namespace}/{name}"


def is_read(manifest: Spec, kinds: Kinds) -> bool:
    """Is it of a kind that makes pods, or says something about them?"""
    key = key_of(manifest)
    return key in (POD, GANG, *ROWS) or (key in kinds and key != DAEMON_SET)


def _make(manifest: Spec, terms: ClusterDefaults, uid: str, found: Made) -> None:
    key = key_of(manifest)
    meta = _meta(manifest, terms, uid)
    if key == POD:
        found.pods.append(_pod(manifest, meta, terms))
        return
    if not is_read(manifest, terms.kinds):
        return
    row = None if key == GANG else ROWS.get(key, _templates)
    found.owners.append((key, _owner(meta, inner(manifest, "spec"))))
    reference = _reference(key, meta, text(manifest, "apiVersion").rpartition("/")[2])
    for number, lot in enumerate(row(meta["name"], inner(manifest, "spec")) if row else ()):
        owner = reference
        if lot.below is not None:
            owner = _between(lot.below, meta, reference, number, found)
        for index in range(min(lot.pods, MOST_PODS + 1 - len(found.pods))):
            found.pods.append(_pod_of(lot, meta, owner, f"{number}-{index}", terms))


def _between(
    below: tuple[Key, str, Spec], meta: dict[str, Any], above: Spec, number: int, found: Made
) -> Spec:
    key, name, spec = below
    own = meta | {"name": name, "uid": f"{meta['uid']}-{number}", "ownerReferences": [above]}
    if not any(each == key and owner.metadata.name == name for each, owner in found.owners):
        found.owners.append((key, _owner(own, spec)))
    seen = next(o for k, o in found.owners if k == key and o.metadata.name == name)
    return _reference(key, own | {"uid": seen.metadata.uid}, "v1")


# --- objects --------------------------------------------------------------------------------------


def _pod_of(lot: _Lot, meta: Spec, owner: Spec, number: str, terms: ClusterDefaults) -> Pod:
    """One pod of a template."""
    of_template = inner(lot.template, "metadata")
    own: dict[str, Any] = {
        "name": f"{meta['name']}-{number}",
        "namespace": meta["namespace"],
        "uid": f"{meta['uid']}-pod-{number}",
        "creationTimestamp": terms.now,
        "labels": {**inner(of_template, "labels"), **lot.labels},
        "annotations": dict(inner(of_template, "annotations")),
        "ownerReferences": [owner],
    }
    return _pod(lot.template, own, terms)


def _pod(template: Spec, meta: dict[str, Any], terms: ClusterDefaults) -> Pod:
    spec = _completed(inner(template, "spec"))
    name, known = text(spec, "priorityClassName"), terms.priorities
    spec |= {"schedulerName": terms.scheduler, "nodeName": ""}
    if name and known is not None and name not in known:
        raise CannotMake(str(UnknownName("PriorityClass", name, known)))
    if known is not None and name in known:
        spec["priority"] = known[name]
    if name in terms.meek:
        spec["preemptionPolicy"] = "Never"
    written = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    return msgspec.convert(written, Pod)


def _completed(spec: Spec) -> dict[str, Any]:
    """A spec as the API server gives it out: amounts are text, and limits are requests as well."""
    found = cast(dict[str, Any], _worded(spec))
    for container in (*items(found, "containers"), *items(found, "initContainers")):
        amounts = cast(dict[str, Any], inner(container, "resources"))
        if limits := inner(amounts, "limits"):
            amounts["requests"] = {**limits, **inner(amounts, "requests")}
    return found


def _worded(value: object, is_amount: bool = False) -> object:
    """The same with amounts as text, on a copy."""
    if isinstance(value, dict):
        some = cast(dict[str, object], value)
        return {key: _worded(each, is_amount or key in _AMOUNTS) for key, each in some.items()}
    if isinstance(value, list):
        return [_worded(each) for each in cast(list[object], value)]
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
    of = f"{key.group}/{version}" if key.group else version
    named = {"kind": key.kind, "name": meta["name"], "uid": meta["uid"], "apiVersion": of}
    return named | {"controller": True}


# --- kinds ----------------------------------------------------------------------------------------

_Row: TypeAlias = Callable[[str, Spec], Iterator[_Lot]]
POD = Key("Pod", "")
GANG = Key("Gang", "windlass.dev")
DAEMON_SET = Key("DaemonSet", "apps")
JOB = Key("Job", "batch")
JOB_SET = Key("JobSet", "jobset.x-k8s.io")
RAY = Key("RayCluster", "ray.io")


def _job(_name: str, spec: Spec) -> Iterator[_Lot]:
    yield _Lot(inner(spec, "template"), at_once(spec))


def _cron_job(name: str, spec: Spec) -> Iterator[_Lot]:
    inside = inner(inner(spec, "jobTemplate"), "spec")
    yield _Lot(inner(inside, "template"), at_once(inside), below=(JOB, f"{name}-1", inside))


def _replicas(_name: str, spec: Spec) -> Iterator[_Lot]:
    yield _Lot(inner(spec, "template"), count(spec, "replicas", 1))


def _deployment(name: str, spec: Spec) -> Iterator[_Lot]:
    below = Key("ReplicaSet", "apps"), f"{name}-1", spec
    yield _Lot(inner(spec, "template"), count(spec, "replicas", 1), below=below)


def _job_set(name: str, spec: Spec) -> Iterator[_Lot]:
    for each in items(spec, "replicatedJobs"):
        role, inside = text(each, "name"), inner(inner(each, "template"), "spec")
        labels = {JOBSET + "replicatedjob-name": role, JOBSET + "restart-attempt": "0"}
        for number in range(min(count(each, "replicas", 1), MOST_PODS)):
            below = JOB, f"{name}-{role}-{number}", inside
            yield _Lot(inner(inside, "template"), at_once(inside), labels, below)


def _training(_name: str, spec: Spec) -> Iterator[_Lot]:
    for role, each in roles(spec):
        labels = {ROLE: role.lower()}
        yield _Lot(inner(each, "template"), count(each, "replicas", 1), labels)


def _ray(_name: str, spec: Spec) -> Iterator[_Lot]:
    yield _Lot(inner(inner(spec, "headGroupSpec"), "template"))
    autoscales = bool(spec.get("enableInTreeAutoscaling"))
    for group in items(spec, "workerGroupSpecs"):
        if not group.get("suspend"):
            yield _Lot(inner(group, "template"), of_group(group, autoscales))


def _ray_job(name: str, spec: Spec) -> Iterator[_Lot]:
    cluster = inner(spec, "rayClusterSpec")
    for lot in _ray(name, cluster):
        yield _Lot(lot.template, lot.pods, below=(RAY, f"{name}-cluster", cluster))


def _leaders_and_workers(name: str, spec: Spec) -> Iterator[_Lot]:
    both = inner(spec, "leaderWorkerTemplate")
    workers = inner(both, "workerTemplate")
    leader = inner(both, "leaderTemplate") or workers
    for group in range(min(count(spec, "replicas", 1), MOST_PODS)):
        labels = {LWS + "name": name, LWS + "group-index": str(group)}
        yield _Lot(leader, 1, labels | {LWS + "worker-index": "0"})
        rest = max(0, count(both, "size", 1) - 1)
        yield _Lot(workers, rest, labels | {LWS + "worker-index": "1"})


def _templates(_name: str, spec: Spec) -> Iterator[_Lot]:
    """Of a kind that only users know: every pod template in it, as often as stands beside it."""
    template = inner(spec, "template")
    if items(inner(template, "spec"), "containers"):
        yield _Lot(template, count(spec, "replicas", 1))
        return
    for value in spec.values():
        for each in cast(list[object], value) if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from _templates("", cast(Spec, each))


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
"""DaemonSets are left out: their pods are made for nodes, not by number."""
