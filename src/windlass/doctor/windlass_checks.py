"""Checks of Windlass itself: its definitions, its rights, who leads, queues, pods that wait."""

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
from windlass.kube.writers.conditions import SCHEDULED
from windlass.model.units import parse_timestamp_or_none
from windlass.model.validation.problems import listed
from windlass.model.viewers import Right
from windlass.workloads.objects import wire
from windlass.workloads.pods.requests import request_of

APPLY = "run `windlass crds | kubectl apply --server-side -f -`"
GRANT = "grant it to the account of the scheduler, as the roles in `windlass install --print` do"
SILENT_S = 60
"""A pod that nobody has said anything about for so long was not looked at."""
ENDED = ("Succeeded", "Failed")


def definitions(found: Evidence) -> Iterator[DoctorFinding]:
    """Are our custom resources defined, and as this version defines them?"""
    made = {f"{kind.plural}.{GROUP}": definition(kind) for kind in KINDS.values()}
    there = {name: found.definitions.get(name) for name in sorted(made)}
    missing = [name for name, each in there.items() if each is None]
    unserved = [name for name, each in there.items() if each and not _is_established(each)]
    other = [name for name, each in there.items() if each and not _is_equal(made[name], each)]
    if missing:
        yield fail(f"definitions are missing: {listed(missing)}", APPLY)
    if unserved:
        look = f"see `kubectl describe crd {unserved[0]}`"
        yield fail(f"definitions are not served: {listed(unserved)}", look)
    if other:
        yield warn(f"definitions are of another version of Windlass: {listed(other)}", APPLY)
    if not (missing or unserved or other):
        yield ok(f"all {len(made)} definitions are installed and of this version")


def _is_established(there: Mapping[str, Any]) -> bool:
    conditions = there.get("status", {}).get("conditions", ())
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _is_equal(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """All that we say is there; in a version, where we say everything, nothing else."""
    spec, other = wanted["spec"], there.get("spec", {})
    names = spec["names"].items() <= other.get("names", {}).items()
    return names and spec["scope"] == other.get("scope") and spec["versions"] == other["versions"]


def rights(found: Evidence) -> Iterator[DoctorFinding]:
    """May the scheduler do all that it does?"""
    lacking: dict[Right, list[str]] = {}
    for right, allowed in found.rights.items():
        if not allowed:
            lacking.setdefault(replace(right, verb=""), []).append(right.verb)
    for right, verbs in lacking.items():
        said = replace(right, verb=", ".join(verbs))
        yield fail(f"no right to {said}", GRANT)
    if found.rights and not lacking:
        yield ok(f"all {len(found.rights)} rights that the scheduler needs are granted")


def leader(found: Evidence) -> Iterator[DoctorFinding]:
    """Is anybody at work?"""
    waiting = len(_waiting(found))
    if found.leader:
        yield ok(f"{found.leader} leads")
    elif waiting:
        yield fail(
            f"nobody leads, and pods wait: {waiting}",
            "start `windlass run`, or see why its pods do not become ready",
        )
    else:
        yield warn("nobody leads; no pod waits for it yet", "start `windlass run`")
    if found.paused:
        yield warn("evictions are paused, so no room is made", "run `windlass resume`")


def version(found: Evidence) -> Iterator[DoctorFinding]:
    """Are the installed scheduler and this command of one version?"""
    ours = [each for each in found.deployments if _label(each, "name") == "windlass"]
    tags = {tag for each in ours for tag in _tags(each) if re.match(r"v?\d+\.\d+", tag)}
    other = sorted(tag for tag in tags if tag.removeprefix("v") != __version__)
    if other:
        yield warn(
            f"this command is {__version__}, and what is installed is {listed(other)}",
            "use a command of that version, or upgrade with `windlass install --apply`",
        )
    elif tags:
        yield ok(f"what is installed is {__version__}, like this command")


def _label(thing: wire.Owner, name: str) -> str:
    return (thing.metadata.labels or {}).get(f"app.kubernetes.io/{name}", "")


def _tags(deployment: wire.Owner) -> Iterator[str]:
    containers = deployment.spec.get("template", {}).get("spec", {}).get("containers", ())
    for each in containers:
        yield str(each.get("image", "")).rpartition("/")[2].partition("@")[0].partition(":")[2]


def queues(found: Evidence) -> Iterator[DoctorFinding]:
    """Are there queues, and does each make sense?"""
    if not found.queues:
        yield warn(
            "there are no queues, so pods are refused unless there is a default queue",
            "write a Queue for each team: docs/reference/queue.md",
        )
        return
    troubles = {each.metadata.name: text for each in found.queues if (text := _trouble(each))}
    for name, text in sorted(troubles.items()):
        yield warn(f"queue {name} is not ready: {text}", f"correct it: `kubectl edit wq {name}`")
    parents = {each.spec.get("parent") for each in found.queues}
    closed = [each for each in found.queues if each.metadata.name in parents and _has_users(each)]
    for each in closed:
        yield warn(
            f"queue {each.metadata.name} names namespaces, but has queues below it and takes no "
            "jobs: their jobs wait",
            "name those namespaces in a queue below it",
        )
    if not troubles and not closed:
        count = len(found.queues)
        yield ok("the one queue makes sense" if count == 1 else f"all {count} queues make sense")


def _has_users(queue: wire.Owner) -> bool:
    return bool(queue.spec.get("namespaces") or queue.spec.get("namespaceSelector"))


def _trouble(queue: wire.Owner) -> str:
    conditions = cast(list[dict[str, Any]], queue.status.get("conditions") or [])
    for each in conditions:
        if each.get("type") == "Ready" and each.get("status") == "False":
            return str(each.get("message") or each.get("reason"))
    return ""


def pods(found: Evidence) -> Iterator[DoctorFinding]:
    """Was everybody who waits told why, and who goes past the queues?"""
    waiting = _waiting(found)
    silent = [each for each in waiting if _is_silent(each, found.now)]
    if silent:
        names = listed([_name(each) for each in silent], most=3)
        yield fail(
            f"of {len(waiting)} pods that wait, the scheduler has not looked at {len(silent)}: "
            f"{names}",
            "see who leads, and whether its --namespaces and --scheduler-names name them",
        )
    elif waiting:
        pods = "1 pod" if len(waiting) == 1 else f"{len(waiting)} pods"
        yield ok(f"everybody who waits was told why: {pods}")
    past = Counter(
        each.spec.scheduler_name
        for each in found.pods
        if each.spec.scheduler_name not in found.schedulers and _runs_on_gpus(each)
    )
    for scheduler, count in sorted(past.items()):
        yield warn(
            f"GPU pods were placed by {scheduler}, {count} of them: they are charged to their "
            "namespace's queue, but not kept within it",
            "set schedulerName: windlass in their templates",
        )


def _waiting(found: Evidence) -> list[wire.Pod]:
    return [
        each
        for each in found.pods
        if each.spec.scheduler_name in found.schedulers
        and not each.spec.node_name
        and not each.spec.scheduling_gates
        and not each.metadata.deletion_timestamp
        and each.status.phase not in ENDED
    ]


def _is_silent(pod: wire.Pod, now: int) -> bool:
    created = parse_timestamp_or_none(pod.metadata.creation_timestamp) or now
    return wire.condition(pod, SCHEDULED) is None and now - created > SILENT_S


def _runs_on_gpus(pod: wire.Pod) -> bool:
    is_there = bool(pod.spec.node_name) and pod.status.phase not in ENDED
    return is_there and request_of(pod).gpu is not None


def _name(pod: wire.Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
