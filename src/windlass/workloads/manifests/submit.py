"""A command that runs as a gang: the Job and the Service that `windlass submit` makes of it.

    Job       Indexed, all pods at once: they start together, and each knows its own number
    Service   headless, only where there are several: a name for pod 0, at which the others meet

Programs find what they need to meet in variables, under the names that PyTorch reads: `torchrun`
takes its arguments from PET_*, a program of one process per pod takes RANK and WORLD_SIZE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.workloads.objects.annotations import DURATION, MAX_RUN, QUEUE
from windlass.workloads.pods.requests import GPU

Json = dict[str, Any]
PORT = 29500
"""Where pod 0 listens; PyTorch's own choice."""
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOB_NAME = "batch.kubernetes.io/job-name"
LONGEST_NAME = 63
"""Of a host: a pod's is the name of its Job and its number."""


def _none() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """What somebody wants to run."""

    name: str
    namespace: str
    image: str
    command: Sequence[str]
    count: int = 1
    gpus: int = 0
    """Of each pod, like cpu and memory."""
    cpu: str = ""
    memory: str = ""
    queue: str = ""
    scheduler: str = "windlass"
    duration: str = ""
    max_run: str = ""
    priority_class: str = ""
    retries: int = 0
    """How many pods may fail before the job does; evictions do not count."""
    env: Mapping[str, str] = field(default_factory=_none)


def longest_name(count: int) -> int:
    """How long the name of a job with so many pods may be."""
    return LONGEST_NAME - len(f"-{count - 1}")


def job_of(order: SubmitRequest) -> Json:
    """The Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(order),
        "spec": {
            "completionMode": "Indexed",
            "completions": order.count,
            "parallelism": order.count,
            "backoffLimit": order.retries,
            "podFailurePolicy": _FORGIVES_EVICTIONS,
            "template": _template(order),
        },
    }


def service_of(order: SubmitRequest) -> Json | None:
    """The Service, if there is anybody to meet."""
    if order.count == 1:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(order),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # they meet before they are ready
            "selector": {JOB_NAME: order.name},
            "ports": [{"name": "meet", "port": PORT}],
        },
    }


_FORGIVES_EVICTIONS = {
    "rules": [
        {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
    ]
}


def _metadata(order: SubmitRequest) -> Json:
    meta: Json = {"name": order.name, "namespace": order.namespace}
    return meta | ({"labels": labels} if (labels := _labels(order)) else {})


def _labels(order: SubmitRequest) -> dict[str, str]:
    return {QUEUE: order.queue} if order.queue else {}


def _template(order: SubmitRequest) -> Json:
    meta: Json = {}
    if labels := _labels(order):
        meta["labels"] = labels
    said = {DURATION: order.duration, MAX_RUN: order.max_run}
    if notes := {name: text for name, text in said.items() if text}:
        meta["annotations"] = notes
    spec: Json = {"schedulerName": order.scheduler, "restartPolicy": "Never"}
    if order.count > 1:
        spec["subdomain"] = order.name  # with the Service: a name for each pod
    if order.priority_class:
        spec["priorityClassName"] = order.priority_class
    spec["containers"] = [_container(order)]
    if order.gpus:
        # data loaders and NCCL exchange data there, and containers get only 64 MiB by themselves
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
        spec["tolerations"] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return ({"metadata": meta} if meta else {}) | {"spec": spec}


def _container(order: SubmitRequest) -> Json:
    found: Json = {
        "name": "main",
        "image": order.image,
        "command": list(order.command),
        "env": _variables(order),
        "resources": _resources(order),
    }
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}] if order.gpus else []
    return {key: value for key, value in (found | {"volumeMounts": mounts}).items() if value}


def _resources(order: SubmitRequest) -> Json:
    wanted = {"cpu": order.cpu, "memory": order.memory}
    requests = {name: amount for name, amount in wanted.items() if amount}
    limits = {GPU: str(order.gpus)} if order.gpus else {}
    both = {"requests": requests, "limits": limits}
    return {name: amounts for name, amounts in both.items() if amounts}


def _variables(order: SubmitRequest) -> list[Json]:
    """How many processes a pod starts, how several pods meet, and what the user sets besides."""
    plain = {"PET_NPROC_PER_NODE": str(order.gpus)} if order.gpus else {}
    numbered: list[str] = []
    if order.count > 1:
        host = f"{order.name}-0.{order.name}"
        plain = {
            "MASTER_ADDR": host,
            "MASTER_PORT": str(PORT),
            "WORLD_SIZE": str(order.count),
            "PET_MASTER_ADDR": host,
            "PET_MASTER_PORT": str(PORT),
            "PET_NNODES": str(order.count),
        } | plain
        numbered = [name for name in ("RANK", "PET_NODE_RANK") if name not in order.env]
    plain |= order.env  # the user has the last word
    found: list[Json] = [{"name": name, "value": value} for name, value in plain.items()]
    ranks = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": INDEX}}} for name in numbered]
    return found + ranks
