"""The pods of the measurements and their creation, in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass.kube.client import Api
from windlass.workloads.objects import GANG, MINIMUM
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.fake_nodes.register_nodes import in_parallel

IN_FLIGHT = 16
"""The number of concurrent requests; more only wait inside an API server on a small machine."""


@dataclass(frozen=True, slots=True)
class BenchPod:
    """A pod to be created; with a node it is bound from the beginning."""

    name: str
    namespace: str = "default"
    gpus: int = 1
    labels: dict[str, str] = field(default_factory=dict[str, str])
    node: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The namespace and name."""
        return self.namespace, self.name

    @property
    def path(self) -> str:
        """The API path of the pod."""
        return f"{self.folder}/{self.name}"

    @property
    def folder(self) -> str:
        """The API path to which it is posted."""
        return f"/api/v1/namespaces/{self.namespace}/pods"


def singles(count: int, prefix: str = "pod", gpus: int = 1, **labels: str) -> list[BenchPod]:
    """Return pods without a gang."""
    return [BenchPod(f"{prefix}-{at:05}", gpus=gpus, labels=_marks(labels)) for at in range(count)]


def gang(name: str, size: int, gpus: int = 1, namespace: str = "default") -> list[BenchPod]:
    """Return the pods of one gang."""
    labels = {GANG: name, MINIMUM: str(size)}
    return [BenchPod(f"{name}-{at:05}", namespace, gpus, labels) for at in range(size)]


async def create(api: Api, pods: Sequence[BenchPod], scheduler: str) -> dict[tuple[str, str], str]:
    """Create the pods for a scheduler, and return the uid of each."""
    uids: dict[tuple[str, str], str] = {}

    async def make(pod: BenchPod) -> None:
        made = _made.decode(await api.post(pod.folder, _body(pod, scheduler)))
        uids[pod.key] = made.metadata.uid

    await in_parallel(IN_FLIGHT, (make(pod) for pod in pods))
    return uids


class _Meta(msgspec.Struct):
    uid: str


class _Made(msgspec.Struct):
    metadata: _Meta


_made = msgspec.json.Decoder(_Made)


def _marks(labels: dict[str, str]) -> dict[str, str]:
    return {f"windlass.dev/{key}": value for key, value in labels.items()}


def _body(pod: BenchPod, scheduler: str) -> dict[str, Any]:
    gpus = {GPU: str(pod.gpus)} if pod.gpus else {}
    container = {
        "name": "main",
        "image": "fake.windlass.dev/none",
        "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"],
        "env": [{"name": "NCCL_DEBUG", "value": "WARN"}, {"name": "EPOCHS", "value": "90"}],
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"} | gpus, "limits": gpus},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "labels": {"app": "train"} | pod.labels},
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        | ({"nodeName": pod.node} if pod.node else {}),
    }
