"""One pod as a task: what it asks for, where it may run, how far it has come."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from windlass.model.check_shapes import check_shape
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, Shape, Task, TaskId, TaskState
from windlass.model.moments import read_if_any
from windlass.model.reasons import Reason, Why
from windlass.model.resources import pairs
from windlass.workloads.constraints import constraints_of
from windlass.workloads.requests import request_of
from windlass.workloads.wire import LabelSelector, Pod, PodTerm


def task_id(pod: Pod) -> TaskId:
    """Unique for ever: a pod of the same name has another uid."""
    meta = pod.metadata
    return TaskId(f"{meta.namespace}/{meta.name}/{meta.uid}")


def task_of(pod: Pod, gang: GangId, shape: Shape, devices: tuple[Slice, ...]) -> Task:
    """The pod as a task of its gang, on these devices if it has a node."""
    return Task(
        id=task_id(pod),
        gang=gang,
        shape=shape,
        labels=pairs(pod.metadata.labels or {}),
        state=state_of(pod),
        node=pod.spec.node_name,
        devices=devices,
        started_at=read_if_any(pod.status.start_time),
        releasing_since=read_if_any(pod.metadata.deletion_timestamp),
    )


def shape_of(pod: Pod) -> Shape:
    """All that decides where the pod can run."""
    return Shape(request_of(pod), constraints_of(pod))


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
    for what in _left_out(pod):
        return Reason(Why.LEFT_OUT, {"what": what})
    problem = _problem(shape)
    return Reason(Why.UNREADABLE, {"what": problem}) if problem else None


@lru_cache(maxsize=1 << 14)
@lru_cache(maxsize=1 << 12)
def _problem(shape: Shape) -> str:
    """What is wrong with a shape by itself; empty if nothing is."""
    return next((str(each) for each in check_shape(shape) if not each.passing), "")


def _left_out(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    if spec.resource_claims:
        yield "devices by resource claims"
    claims = [(each.persistent_volume_claim, each.ephemeral) for each in spec.volumes or ()]
    if any(each != (None, None) for each in claims):
        yield "a volume by claim"
    staying = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    if any(port.host_port for each in (*spec.containers, *staying) for port in each.ports or ()):
        yield "a port of its node"
    if any((each.min_domains or 1) > 1 for each in spec.topology_spread_constraints or ()):
        yield "a spread over a minimum of domains"
    if any(_selects(term.namespace_selector) for term in _pod_terms(pod)):
        yield "pods of namespaces chosen by labels"


def _pod_terms(pod: Pod) -> Iterator[PodTerm]:
    affinity = pod.spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if side is not None:
            yield from side.required_during_scheduling_ignored_during_execution or ()
            wishes = side.preferred_during_scheduling_ignored_during_execution or ()
            yield from (each.pod_affinity_term for each in wishes)


def _selects(selector: LabelSelector | None) -> bool:
    return selector is not None and bool(selector.match_labels or selector.match_expressions)
