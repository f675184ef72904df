"""Which pods are DCGM exporters, and where they are asked."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.workloads.objects.wire import Pod

LABELS = (
    ("app", "nvidia-dcgm-exporter"),  # of the GPU operator
    ("app.kubernetes.io/name", "dcgm-exporter"),  # of its own chart
)
PORT = 9400
PORT_NAME = "metrics"


@dataclass(frozen=True, slots=True)
class Exporter:
    """One process that tells about the GPUs of a node."""

    node: str
    url: str
    namespace: str
    created: str
    process: tuple[str, int]
    """The pod, and how often its containers were started anew."""


def exporter_of(pod: Pod) -> Exporter | None:
    """The exporter in a pod; None if it is none, or does not run."""
    labels, ip, node = pod.metadata.labels or {}, pod.status.pod_ip, pod.spec.node_name
    if not any(labels.get(key) == value for key, value in LABELS):
        return None
    if pod.status.phase != "Running" or pod.metadata.deletion_timestamp or not ip or not node:
        return None
    restarts = sum(each.restart_count for each in pod.status.container_statuses or ())
    return Exporter(
        node=node,
        url=f"http://{f'[{ip}]' if ':' in ip else ip}:{_port(pod)}/metrics",
        namespace=pod.metadata.namespace,
        created=pod.metadata.creation_timestamp or "",
        process=(pod.metadata.uid, restarts),
    )


def _port(pod: Pod) -> int:
    ports = [port for each in pod.spec.containers for port in each.ports or ()]
    return next((each.container_port for each in ports if each.name == PORT_NAME), 0) or PORT
