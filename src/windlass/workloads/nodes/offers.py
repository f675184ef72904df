"""The capacity of a node: its allocatable resources, its GPUs by model, its labels and taints.

GPU models come from the labels that GPU Feature Discovery writes. Of broken GPUs only the number is
known (fewer are allocatable than the node has), so only the allocatable ones are used. Other
trouble of a node is found by `health.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.model.constraints import CORDON, Effect, Taint
from windlass.model.gpu.resources import MEMORY, device_milli, model_of
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
from windlass.workloads.pods import GPU, NODE_NAME, reader_of

SHARED = f"{GPU}.shared"
"""The resource of time-sliced GPUs, if the device plug-in renames them."""

_ROUNDED_DOWN: dict[Callable[[str], int], Callable[[str], int]] = {
    milli_rounded_up: milli_rounded_down,
    mib_rounded_up: mib_rounded_down,
    count_rounded_up: count_rounded_down,
}
"""The readers that round down, by the reader that rounds up (`reader_of`)."""
_EFFECTS = frozenset(effect.value for effect in Effect)
_OWN_FIELDS = frozenset({"cpu", "memory", "pods", GPU})


def node_of(node: wire.NodeObject) -> Node:
    """Return the node of the model."""
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
"""The most GPUs of a node, with time-slicing; a larger number must be a mistake and is cut."""


def _gpus(offered: Mapping[str, str], labels: Mapping[str, str]) -> tuple[Gpu, ...]:
    memory = max(1, count_rounded_down(labels.get(MEMORY, "0")))
    is_renamed = count_rounded_down(offered.get(SHARED, "0")) > 0
    gpu = Gpu(model_of(labels), memory, charged_milli=device_milli(labels, is_renamed))
    return (gpu,) * min(count_rounded_down(offered.get(GPU, "0")), MOST_GPUS)


def _extras(offered: Mapping[str, str]) -> dict[str, int]:
    names = sorted(set(offered) - _OWN_FIELDS)
    return {name: _ROUNDED_DOWN[reader_of(name)](offered[name]) for name in names}


def _taints(spec: wire.NodeSpec) -> tuple[Taint, ...]:
    taints = tuple(
        Taint(taint.key, taint.value, Effect(taint.effect))
        for taint in spec.taints or ()
        if taint.effect in _EFFECTS
    )
    # The node controller adds the taint of a cordon only some time after the cordon.
    return (*taints, CORDON) if spec.unschedulable and CORDON not in taints else taints
