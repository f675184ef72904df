"""Checks of Windlass itself: definitions, rights, leader, version, queues and pending pods."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from windlass import __version__
from windlass.crds.definitions import GROUP, KINDS
from windlass.crds.manifest import definition
from windlass.doctor.evidence import DoctorFinding, Evidence, fail, ok, warn
from windlass.kube.writers import SCHEDULED
from windlass.model.units import parse_timestamp_or_none
from windlass.model.validation import join_names
from windlass.model.viewers import Right
from windlass.workloads.objects import wire
from windlass.workloads.pods import request_of

APPLY = "run `windlass crds | kubectl apply --server-side -f -`"
GRANT = "grant it to the account of the scheduler, as the roles in `windlass install --print` do"
SILENT_S = 60
"""A pod that has no `PodScheduled` condition for so long was overlooked by the scheduler."""
ENDED = ("Succeeded", "Failed")


def definitions(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that our custom resources are defined, served and of this version."""
    expected = {f"{kind.plural}.{GROUP}": definition(kind) for kind in KINDS.values()}
    live = {name: evidence.definitions.get(name) for name in sorted(expected)}
    missing = [name for name, crd in live.items() if crd is None]
    unserved = [name for name, crd in live.items() if crd and not _is_established(crd)]
    other = [name for name, crd in live.items() if crd and not _is_equal(expected[name], crd)]
    if missing:
        yield fail(f"definitions are missing: {join_names(missing)}", APPLY)
    if unserved:
        look = f"see `kubectl describe crd {unserved[0]}`"
        yield fail(f"definitions are not served: {join_names(unserved)}", look)
    if other:
        yield warn(f"definitions are of another version of Windlass: {join_names(other)}", APPLY)
    if not (missing or unserved or other):
        yield ok(f"all {len(expected)} definitions are installed and of this version")


def _is_established(crd: Mapping[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions", ())
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )


def _is_equal(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Return whether a definition on the cluster is that of this version.

    The names may have further fields, which the API server fills in; the versions must be equal.
    """
    spec, other = wanted["spec"], live.get("spec", {})
    names = spec["names"].items() <= other.get("names", {}).items()
    return names and spec["scope"] == other.get("scope") and spec["versions"] == other["versions"]


def rights(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that the scheduler has all rights that it needs."""
    lacking: dict[Right, list[str]] = {}
    for right, allowed in evidence.rights.items():
        if not allowed:
            lacking.setdefault(replace(right, verb=""), []).append(right.verb)
    for right, verbs in lacking.items():
        verbs_together = replace(right, verb=", ".join(verbs))
        yield fail(f"no right to {verbs_together}", GRANT)
    if evidence.rights and not lacking:
        yield ok(f"all {len(evidence.rights)} rights that the scheduler needs are granted")


def leader(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that a scheduler leads, and report paused evictions."""
    waiting = len(_waiting(evidence))
    if evidence.leader:
        yield ok(f"{evidence.leader} leads")
    elif waiting:
        yield fail(
            f"nobody leads, and pods wait: {waiting}",
            "start `windlass run`, or see why its pods do not become ready",
        )
    else:
        yield warn("nobody leads; no pod waits for it yet", "start `windlass run`")
    if evidence.paused:
        yield warn("evictions are paused, so no room is made", "run `windlass resume`")


def version(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that the installed scheduler and this command have the same version."""
    ours = [
        deployment
        for deployment in evidence.deployments
        if _label(deployment, "name") == "windlass"
    ]
    tags = {tag for deployment in ours for tag in _tags(deployment) if re.match(r"v?\d+\.\d+", tag)}
    other = sorted(tag for tag in tags if tag.removeprefix("v") != __version__)
    if other:
        yield warn(
            f"this command is {__version__}, and what is installed is {join_names(other)}",
            "use a command of that version, or upgrade with `windlass install --apply`",
        )
    elif tags:
        yield ok(f"what is installed is {__version__}, like this command")


def _label(thing: wire.Owner, name: str) -> str:
    return (thing.metadata.labels or {}).get(f"app.kubernetes.io/{name}", "")


def _tags(deployment: wire.Owner) -> Iterator[str]:
    containers = deployment.spec.get("template", {}).get("spec", {}).get("containers", ())
    for container in containers:
        yield str(container.get("image", "")).rpartition("/")[2].partition("@")[0].partition(":")[2]


def queues(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that there are queues, and that each is ready and can be used."""
    if not evidence.queues:
        yield warn(
            "there are no queues, so pods are refused unless there is a default queue",
            "write a Queue for each team: docs/reference/queue.md",
        )
        return
    troubles = {queue.metadata.name: text for queue in evidence.queues if (text := _trouble(queue))}
    for name, text in sorted(troubles.items()):
        yield warn(f"queue {name} is not ready: {text}", f"correct it: `kubectl edit wq {name}`")
    parents = {queue.spec.get("parent") for queue in evidence.queues}
    closed = [
        queue for queue in evidence.queues if queue.metadata.name in parents and _has_users(queue)
    ]
    for queue in closed:
        yield warn(
            f"queue {queue.metadata.name} names namespaces, but has queues below it and takes no "
            "jobs: their jobs wait",
            "name those namespaces in a queue below it",
        )
    if not troubles and not closed:
        count = len(evidence.queues)
        yield ok("the one queue makes sense" if count == 1 else f"all {count} queues make sense")


def _has_users(queue: wire.Owner) -> bool:
    return bool(queue.spec.get("namespaces") or queue.spec.get("namespaceSelector"))


def _trouble(queue: wire.Owner) -> str:
    conditions = cast(list[dict[str, Any]], queue.status.get("conditions") or [])
    for condition in conditions:
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason"))
    return ""


def pods(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that every pending pod has a condition; report GPU pods of other schedulers."""
    waiting = _waiting(evidence)
    silent = [pod for pod in waiting if _is_silent(pod, evidence.now)]
    if silent:
        names = join_names([_name(pod) for pod in silent], most=3)
        yield fail(
            f"of {len(waiting)} pods that wait, the scheduler has not looked at {len(silent)}: "
            f"{names}",
            "see who leads, and whether its --namespaces and --scheduler-names name them",
        )
    elif waiting:
        pods = "1 pod" if len(waiting) == 1 else f"{len(waiting)} pods"
        yield ok(f"everybody who waits was told why: {pods}")
    past = Counter(
        pod.spec.scheduler_name
        for pod in evidence.pods
        if pod.spec.scheduler_name not in evidence.schedulers and _runs_on_gpus(pod)
    )
    for scheduler, count in sorted(past.items()):
        yield warn(
            f"GPU pods were placed by {scheduler}, {count} of them: they are charged to their "
            "namespace's queue, but not kept within it",
            "set schedulerName: windlass in their templates",
        )


def _waiting(evidence: Evidence) -> list[wire.Pod]:
    return [
        pod
        for pod in evidence.pods
        if pod.spec.scheduler_name in evidence.schedulers
        and not pod.spec.node_name
        and not pod.spec.scheduling_gates
        and not pod.metadata.deletion_timestamp
        and pod.status.phase not in ENDED
    ]


def _is_silent(pod: wire.Pod, now: int) -> bool:
    created = parse_timestamp_or_none(pod.metadata.creation_timestamp) or now
    return wire.condition(pod, SCHEDULED) is None and now - created > SILENT_S


def _runs_on_gpus(pod: wire.Pod) -> bool:
    is_there = bool(pod.spec.node_name) and pod.status.phase not in ENDED
    return is_there and request_of(pod).gpu is not None


def _name(pod: wire.Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
