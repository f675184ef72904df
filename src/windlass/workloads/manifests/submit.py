"""The Job and the Service that `windlass submit` makes of a command.

    Job       Indexed, with all pods at once: they form a gang, and each knows its own index
    Service   headless, only if there are several pods: it gives pod 0 a host name for rendezvous

Programs get the rendezvous address in environment variables with the names that PyTorch reads:
`torchrun` takes its arguments from PET_*; a program with one process per pod takes RANK and
WORLD_SIZE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.workloads.objects import DURATION, MAX_RUN, QUEUE
from windlass.workloads.pods import GPU

Json = dict[str, Any]
PORT = 29500
"""The rendezvous port of pod 0; the default of PyTorch."""
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""The field path of the index of a pod."""
JOB_NAME = "batch.kubernetes.io/job-name"
LONGEST_NAME = 63
"""The most characters of a host name; that of a pod is the name of its Job and its index."""


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """A command to run, with its resources."""

    name: str
    namespace: str
    image: str
    command: Sequence[str]
    count: int = 1
    """The number of pods."""
    gpus: int = 0
    """The GPUs of each pod; cpu and memory are per pod too."""
    cpu: str = ""
    memory: str = ""
    queue: str = ""
    scheduler: str = "windlass"
    duration: str = ""
    max_run: str = ""
    priority_class: str = ""
    retries: int = 0
    """The number of pods that may fail before the Job fails; evictions do not count."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def longest_name(count: int) -> int:
    """Return the most characters of the name of a Job with so many pods."""
    return LONGEST_NAME - len(f"-{count - 1}")


def job_of(order: SubmitRequest) -> Json:
    """Return the manifest of the Job."""
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
    """Return the manifest of the Service; None for a single pod."""
    if order.count == 1:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(order),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # rendezvous happens before pods are ready
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
    times = {DURATION: order.duration, MAX_RUN: order.max_run}
    if notes := {name: text for name, text in times.items() if text}:
        meta["annotations"] = notes
    spec: Json = {"schedulerName": order.scheduler, "restartPolicy": "Never"}
    if order.count > 1:
        spec["subdomain"] = order.name  # with the Service, each pod gets a host name
    if order.priority_class:
        spec["priorityClassName"] = order.priority_class
    spec["containers"] = [_container(order)]
    if order.gpus:
        # Data loaders and NCCL exchange data in /dev/shm, for which the default is only 64 MiB.
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
        spec["tolerations"] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return ({"metadata": meta} if meta else {}) | {"spec": spec}


def _container(order: SubmitRequest) -> Json:
    container: Json = {
        "name": "main",
        "image": order.image,
        "command": list(order.command),
        "env": _variables(order),
        "resources": _resources(order),
    }
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}] if order.gpus else []
    return {key: value for key, value in (container | {"volumeMounts": mounts}).items() if value}


def _resources(order: SubmitRequest) -> Json:
    wanted = {"cpu": order.cpu, "memory": order.memory}
    requests = {name: amount for name, amount in wanted.items() if amount}
    limits = {GPU: str(order.gpus)} if order.gpus else {}
    both = {"requests": requests, "limits": limits}
    return {name: amounts for name, amounts in both.items() if amounts}


def _variables(order: SubmitRequest) -> list[Json]:
    """Return the environment: processes per pod, rendezvous, and the variables of the user."""
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
    plain |= order.env  # the variables of the user override ours
    variables: list[Json] = [{"name": name, "value": value} for name, value in plain.items()]
    ranks = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": INDEX}}} for name in numbered]
    return variables + ranks
