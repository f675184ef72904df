"""One pod as a task: what it asks for, where it may run, how far it has come."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, Shape, Task, TaskId, TaskState
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import pairs
from windlass.model.units import parse_timestamp_or_none
from windlass.model.validation.shapes import check_shape
from windlass.workloads.objects.wire import Pod, PodAffinityTerm, PodSpec
from windlass.workloads.pods.constraints import Namespaces, constraints_of
from windlass.workloads.pods.requests import request_of


def task_id(pod: Pod) -> TaskId:
    """Unique for ever: a pod of the same name has another uid."""
    meta = pod.metadata
    return TaskId(f"{meta.namespace}/{meta.name}/{meta.uid}")


def task_of(
    pod: Pod, gang: GangId, shape: Shape, devices: tuple[Slice, ...], group: str = ""
) -> Task:
    """The pod as a task of its gang, on these devices if it has a node."""
    return Task(
        id=task_id(pod),
        gang=gang,
        shape=shape,
        group=group,
        labels=pairs(pod.metadata.labels or {}),
        state=state_of(pod),
        node=pod.spec.node_name,
        devices=devices,
        started_at=parse_timestamp_or_none(pod.status.start_time),
        releasing_since=parse_timestamp_or_none(pod.metadata.deletion_timestamp),
    )


def shape_of(pod: Pod, namespaces: Namespaces | None = None) -> Shape:
    """All that decides where the pod can run, given the namespaces that there are."""
    return _known(Shape(request_of(pod), constraints_of(pod, namespaces)))


@lru_cache(maxsize=1 << 12)
def _known(shape: Shape) -> Shape:
    """The first of equal shapes: what is one object is kept once, and compared in no time."""
    return shape


def state_of(pod: Pod) -> TaskState:
    """How far the pod has come; terminal phases win, since nothing runs any more."""
    match pod.status.phase:
        case "Succeeded":
            return TaskState.SUCCEEDED
        case "Failed":
            return TaskState.FAILED
        case phase:
            if not pod.spec.node_name:
                return TaskState.WAITING
            if pod.metadata.deletion_timestamp:
                return TaskState.RELEASING
            return TaskState.RUNNING if phase == "Running" else TaskState.BOUND


def refusal_of(pod: Pod, shape: Shape) -> Reason | None:
    """What keeps a pod from being placed, whatever the cluster is like."""
    for what in _left_out(pod.spec):
        return Reason(ReasonCode.LEFT_OUT, {"what": what})
    problem = _problem(shape)
    return Reason(ReasonCode.UNREADABLE, {"what": problem}) if problem else None


@lru_cache(maxsize=1 << 12)
def _problem(shape: Shape) -> str:
    """What is wrong with a shape by itself; empty if nothing is."""
    return next((str(each) for each in check_shape(shape) if not each.passing), "")


def _left_out(spec: PodSpec) -> Iterator[str]:
    if spec.resource_claims:
        yield "devices by resource claims"
    if any(each.is_a_disk() for each in spec.volumes or ()):
        yield "a disk that is named in the pod itself, instead of a claim"
    # features that nodes declare, and that only some of them have
    if spec.host_network and spec.host_users is False:
        yield "the network of its node together with users of its own"
    rules = (
        rule
        for container in (*spec.containers, *(spec.init_containers or ()))
        for rule in container.restart_policy_rules or ()
    )
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield "a rule that restarts all its containers"


def chooses_namespaces(pod: Pod) -> bool:
    """Does a term of the pod look at namespaces that are chosen by their labels?"""
    selectors = (term.namespace_selector for term in _pod_terms(pod))
    return any(each and (each.match_labels or each.match_expressions) for each in selectors)


def _pod_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if side is not None:
            yield from side.required_during_scheduling_ignored_during_execution or ()
            wishes = side.preferred_during_scheduling_ignored_during_execution or ()
            yield from (each.pod_affinity_term for each in wishes)
