"""The labels of a GPU node, as GPU Feature Discovery and the GPU Operator write them."""

from __future__ import annotations

from typing import NamedTuple

from windlass_lab.fake_nodes.machines import HOSTNAME, Machine

GPU = "nvidia.com/gpu"


class Card(NamedTuple):
    """The properties of a model that GPU Feature Discovery reads from the driver."""

    product: str
    family: str
    compute: tuple[int, int]
    memory_mib: int
    mig_capable: bool
    machine: str


CARDS = {
    "T4-16GB": Card("Tesla-T4", "turing", (7, 5), 15360, False, "PowerEdge-R740"),
    "V100-32GB": Card("Tesla-V100-SXM2-32GB", "volta", (7, 0), 32768, False, "NVIDIA-DGX-1"),
    "A10-24GB": Card("NVIDIA-A10", "ampere", (8, 6), 23028, False, "PowerEdge-R750"),
    "A30-24GB": Card("NVIDIA-A30", "ampere", (8, 0), 24576, True, "PowerEdge-R750"),
    "A100-40GB": Card("NVIDIA-A100-SXM4-40GB", "ampere", (8, 0), 40960, True, "DGXA100-920-23687"),
    "A100-80GB": Card("NVIDIA-A100-SXM4-80GB", "ampere", (8, 0), 81920, True, "DGXA100-920-23687"),
    "L4-24GB": Card("NVIDIA-L4", "ada-lovelace", (8, 9), 23034, False, "PowerEdge-R760"),
    "L40S-48GB": Card("NVIDIA-L40S", "ada-lovelace", (8, 9), 46068, False, "PowerEdge-R760"),
    "H100-80GB": Card("NVIDIA-H100-80GB-HBM3", "hopper", (9, 0), 81559, True, "DGXH100"),
    "H200-141GB": Card("NVIDIA-H200", "hopper", (9, 0), 143771, True, "DGXH200"),
    "B200-180GB": Card("NVIDIA-B200", "blackwell", (10, 0), 183359, True, "DGXB200"),
    "GB200-186GB": Card("NVIDIA-GB200", "blackwell", (10, 0), 189471, True, "GB200-NVL72"),
}

_OPERANDS = ("container-toolkit", "dcgm-exporter", "device-plugin", "driver")


def node_labels(machine: Machine) -> dict[str, str]:
    """Return all labels of the machine's node; the machine's own labels override the others."""
    labels = {
        HOSTNAME: machine.name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": f"{machine.gpus}x-{machine.model}".lower(),
    }
    return labels | (_gpu_labels(machine) if machine.gpus else {}) | machine.labels


def _gpu_labels(machine: Machine) -> dict[str, str]:
    card = card_of(machine.model)
    major, minor = card.compute
    return {
        f"{GPU}.present": "true",
        f"{GPU}.product": card.product,
        f"{GPU}.count": str(machine.gpus),
        f"{GPU}.memory": str(card.memory_mib),
        f"{GPU}.family": card.family,
        f"{GPU}.machine": card.machine,
        f"{GPU}.mode": "compute",
        f"{GPU}.replicas": "1",
        f"{GPU}.sharing-strategy": "none",
        f"{GPU}.compute.major": str(major),
        f"{GPU}.compute.minor": str(minor),
        "nvidia.com/mig.capable": str(card.mig_capable).lower(),
        "nvidia.com/mig.strategy": "mixed" if card.mig_capable else "none",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/vgpu.present": "false",
        "nvidia.com/gfd.timestamp": "1760000000",
        "nvidia.com/cuda.driver.major": "580",
        "nvidia.com/cuda.driver.minor": "95",
        "nvidia.com/cuda.driver.rev": "05",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.driver-version.minor": "95",
        "nvidia.com/cuda.driver-version.revision": "05",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/cuda.runtime.major": "13",
        "nvidia.com/cuda.runtime.minor": "0",
        "nvidia.com/cuda.runtime-version.major": "13",
        "nvidia.com/cuda.runtime-version.minor": "0",
        "nvidia.com/cuda.runtime-version.full": "13.0",
    } | {f"{GPU}.deploy.{operand}": "true" for operand in _OPERANDS}


def card_of(model: str) -> Card:
    """Return the properties of a model; raise an error that names the known models."""
    if model not in CARDS:
        raise ValueError(f"GPU model {model!r} is not known; choose one of {', '.join(CARDS)}")
    return CARDS[model]
