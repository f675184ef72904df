"""Node and Lease objects as a kubelet writes them."""

from __future__ import annotations

from typing import Any

from windlass_lab.fake_nodes.labels import GPU, node_labels
from windlass_lab.fake_nodes.machines import Machine

VERSION = "v1.36.4"

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODES = "/api/v1/nodes"

_PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


def node_object(machine: Machine, healthy_gpus: int, stamp: str) -> dict[str, Any]:
    """Return the whole Node; its status is kept on POST, so one request makes it ready."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "labels": node_labels(machine)},
        "spec": {
            "providerID": f"fake://{machine.name}",
            "taints": taints(machine),
        },
        "status": node_status(machine, healthy_gpus, stamp),
    }


def taints(machine: Machine) -> list[dict[str, str]]:
    """Return the taints of the machine."""
    return [{"key": key, "value": value, "effect": effect} for key, value, effect in machine.taints]


def node_status(machine: Machine, healthy_gpus: int, stamp: str) -> dict[str, Any]:
    """Return the Node's status: sizes, allocatable without failed GPUs, and the condition Ready."""
    return {
        "capacity": _resources(machine, machine.gpus),
        "allocatable": _resources(machine, healthy_gpus),
        "conditions": _conditions(stamp),
        "addresses": [{"type": "Hostname", "address": machine.name}],
        "nodeInfo": _info(machine),
    }


def lease_object(name: str, node_uid: str, seconds: int, renewed: str) -> dict[str, Any]:
    """Return the node's Lease; it is deleted with the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name} | ({"ownerReferences": [owner]} if node_uid else {}),
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "renewTime": renewed,
        },
    }


def _resources(machine: Machine, gpus: int) -> dict[str, str]:
    resources = {
        "cpu": f"{machine.cpu_milli}m",
        "memory": str(machine.memory_bytes),
        "ephemeral-storage": "3500Gi",
        "hugepages-2Mi": "0",
        "pods": str(machine.pods),
    }
    return resources | ({GPU: str(gpus)} if machine.gpus else {})


def _conditions(stamp: str) -> list[dict[str, str]]:
    def condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
        times = {"lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
        return {"type": kind, "status": status, "reason": reason, "message": message} | times

    ready = condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
    return [*(condition(kind, "False", *why) for kind, why in _PRESSURES.items()), ready]


def _info(machine: Machine) -> dict[str, str]:
    return {
        "machineID": machine.name,
        "systemUUID": machine.name,
        "bootID": machine.name,
        "kernelVersion": "6.8.0-fake",
        "osImage": "Fake Linux",
        "operatingSystem": "linux",
        "architecture": "amd64",
        "containerRuntimeVersion": "fake://1.0.0",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
    }
