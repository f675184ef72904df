"""One pod as a task of the model: its identity, its shape, its state and its end.

A pod that fails by itself counts against its node and its gang. A pod that was evicted, deleted,
preempted or refused for lack of room does not, and neither does one that made a checkpoint and
left.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from windlass.checkpoint.protocol import EXIT_SAVED
from windlass.model.events import WorkEnded
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, Shape, Task, TaskId, TaskState
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import pairs
from windlass.model.units import parse_timestamp_or_none
from windlass.model.validation import check_shape
from windlass.workloads.objects import Pod, PodAffinityTerm, PodSpec, Terminated, condition
from windlass.workloads.pods.constraints import Namespaces, constraints_of
from windlass.workloads.pods.requests import request_of

OWN = frozenset({"", "Error", "UnexpectedAdmissionError"})
"""The status reasons of pods that failed by themselves. UnexpectedAdmissionError: the kubelet could
not allocate a device."""


def task_id(pod: Pod) -> TaskId:
    """Return the id of a pod's task, with the uid: a later pod of the same name has another id."""
    meta = pod.metadata
    return TaskId(f"{meta.namespace}/{meta.name}/{meta.uid}")


def task_of(
    pod: Pod, gang: GangId, shape: Shape, devices: tuple[Slice, ...], group: str = ""
) -> Task:
    """Return the pod as a task of its gang, on these devices if it has a node."""
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
    """Return the request and the constraints of a pod; equal shapes are the same object.

    `namespaces` resolves pod affinity terms that select namespaces by label.
    """
    return _interned(Shape(request_of(pod), constraints_of(pod, namespaces)))


@lru_cache(maxsize=1 << 12)
def _interned(shape: Shape) -> Shape:
    """Return the first of equal shapes: one object saves memory, and comparing it is cheap."""
    return shape


def state_of(pod: Pod) -> TaskState:
    """Return the state of a pod's task. A terminal phase wins over a deletion timestamp."""
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
    """Return the reason why a pod can be placed in no cluster; None if there is none."""
    for what in _unsupported(pod.spec):
        return Reason(ReasonCode.LEFT_OUT, {"what": what})
    problem = _problem(shape)
    return Reason(ReasonCode.UNREADABLE, {"what": problem}) if problem else None


@lru_cache(maxsize=1 << 12)
def _problem(shape: Shape) -> str:
    """Return the first fault of a shape; "" if it has none."""
    return next((str(problem) for problem in check_shape(shape) if not problem.passing), "")


def _unsupported(spec: PodSpec) -> Iterator[str]:
    """Yield the features of a pod that Windlass does not support, in words."""
    if spec.resource_claims:
        yield "devices by resource claims"
    if any(volume.is_a_disk() for volume in spec.volumes or ()):
        yield "a disk that is named in the pod itself, instead of a claim"
    # The next two need features that nodes declare, and that only some nodes have.
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
    """Return whether a pod affinity term of the pod selects namespaces by label."""
    selectors = (term.namespace_selector for term in _pod_terms(pod))
    return any(
        selector and (selector.match_labels or selector.match_expressions) for selector in selectors
    )


def _pod_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if side is not None:
            yield from side.required_during_scheduling_ignored_during_execution or ()
            preferred = side.preferred_during_scheduling_ignored_during_execution or ()
            yield from (weighted.pod_affinity_term for weighted in preferred)


def end_of(pod: Pod, gang: GangId, now: int) -> WorkEnded | None:
    """Return the event of a pod's end; None if it has not ended, or did not end by itself.

    `now` is the time of the end if no container tells one.
    """
    succeeded = pod.status.phase == "Succeeded"
    if not pod.spec.node_name or not (succeeded or _failed_by_itself(pod)):
        return None
    finished = [end.finished_at for end in _terminations(pod)]
    at = max((at for text in finished if (at := parse_timestamp_or_none(text))), default=now)
    since = parse_timestamp_or_none(pod.status.start_time)
    return WorkEnded(gang, pod.spec.node_name, at if since is None else since, at, succeeded)


def _failed_by_itself(pod: Pod) -> bool:
    if pod.status.phase != "Failed" or pod.status.reason not in OWN:
        return False
    disruption = condition(pod, "DisruptionTarget")
    if pod.metadata.deletion_timestamp or (disruption and disruption.status == "True"):
        return False
    return all(end.exit_code != EXIT_SAVED for end in _terminations(pod))


def _terminations(pod: Pod) -> list[Terminated]:
    states = (status.state for status in pod.status.container_statuses or ())
    return [state.terminated for state in states if state.terminated]
