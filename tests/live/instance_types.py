"""The machines that Karpenter can buy from KWOK, its cloud provider for tests."""

from __future__ import annotations

from typing import Any

from windlass.lab.kubelet import Machine
from windlass.lab.kubelet.labels import GPU

H100_8 = "h100.8"
"""Eight GPUs; a machine of this type is the same as `machine_of_type` describes."""


def instance_types() -> list[dict[str, Any]]:
    """The instance types as the file says that KWOK reads."""
    return [_instance_type(H100_8, price=98.0)]


def machine_of_type(node: str) -> Machine:
    """The machine that the fake kubelet plays for a node which Karpenter has bought."""
    return Machine(node)


def _instance_type(name: str, price: float) -> dict[str, Any]:
    machine = machine_of_type(name)
    resources = {
        "cpu": f"{machine.cpu_milli}m",
        "memory": str(machine.memory_bytes),
        "ephemeral-storage": "3500Gi",
        "pods": str(machine.pods),
        GPU: str(machine.gpus),
    }
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": resources,
        "offerings": [
            {
                "Price": price,
                "Available": True,
                "Requirements": [
                    _requirement("karpenter.sh/capacity-type", "on-demand"),
                    _requirement("topology.kubernetes.io/zone", "zone-a"),
                ],
            }
        ],
    }


def _requirement(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}
