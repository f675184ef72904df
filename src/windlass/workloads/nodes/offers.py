"""What a node offers: its allocatable resources, its GPUs by model, and whom it turns away.

GPU models come from the labels that GPU Feature Discovery writes. Of GPUs that are broken only the
number is known (the kubelet offers fewer than there are), so a node takes what it offers and no
more. What else may be wrong with a node is told by `health.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.model.constraints import CORDON, Effect, Taint
from windlass.model.gpu_resources import MEMORY, device_milli, model_of
from windlass.model.gpus import Gpu
from windlass.model.nodes import Node
from windlass.model.units import (
    count_rounded_down,
    count_rounded_up,
    mib_rounded_down,
    mib_rounded_up,
    milli_rounded_down,
    milli_rounded_up,
)
from windlass.workloads.nodes.health import quarantine_of, trouble_of
from windlass.workloads.objects import wire
from windlass.workloads.pods.requests import GPU, reader_of

NODE_NAME = "metadata.name"
"""A node's name, shown among its labels so that selectors by field can look at it."""
SHARED = f"{GPU}.shared"
"""Shares of GPUs, where the device plug-in gives them a name of their own."""

_ROUNDED_DOWN: dict[Callable[[str], int], Callable[[str], int]] = {
    milli_rounded_up: milli_rounded_down,
    mib_rounded_up: mib_rounded_down,
    count_rounded_up: count_rounded_down,
}
_EFFECTS = frozenset(effect.value for effect in Effect)
_PLAIN = frozenset({"cpu", "memory", "pods", GPU})


def node_of(node: wire.NodeObject) -> Node:
    """The node as the engine sees it."""
    labels = dict(node.metadata.labels or {})
    offered = node.status.allocatable or {}
    return Node(
        name=node.metadata.name,
        cpu_milli=milli_rounded_down(offered.get("cpu", "0")),
        memory_mib=mib_rounded_down(offered.get("memory", "0")),
        pods=count_rounded_down(offered.get("pods", "0")),
        gpus=_gpus(offered, labels),
        extra=_extras(offered),
        labels=labels | {NODE_NAME: node.metadata.name},
        taints=_taints(node.spec),
        cordoned=node.spec.unschedulable,
        trouble=trouble_of(node),
        quarantine=quarantine_of(node),
    )


MOST_GPUS = 512
"""A node that offers more is misread: time-slicing multiplies GPUs, but not without end."""


def _gpus(offered: Mapping[str, str], labels: Mapping[str, str]) -> tuple[Gpu, ...]:
    memory = max(1, count_rounded_down(labels.get(MEMORY, "0")))
    is_renamed = count_rounded_down(offered.get(SHARED, "0")) > 0
    gpu = Gpu(model_of(labels), memory, charged_milli=device_milli(labels, is_renamed))
    return (gpu,) * min(count_rounded_down(offered.get(GPU, "0")), MOST_GPUS)


def _extras(offered: Mapping[str, str]) -> dict[str, int]:
    names = sorted(set(offered) - _PLAIN)
    return {name: _ROUNDED_DOWN[reader_of(name)](offered[name]) for name in names}


def _taints(spec: wire.NodeSpec) -> tuple[Taint, ...]:
    found = tuple(
        Taint(each.key, each.value, Effect(each.effect))
        for each in spec.taints or ()
        if each.effect in _EFFECTS
    )
    # the node controller adds the taint of a cordon, a moment later
    return (*found, CORDON) if spec.unschedulable and CORDON not in found else found
