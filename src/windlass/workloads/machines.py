"""What a node offers: its allocatable resources, its GPUs by model, and whom it turns away.

GPU models come from the labels that GPU Feature Discovery writes. Of GPUs that are broken only the
number is known (the kubelet offers fewer than there are), so a node takes what it offers and no
more. What else may be wrong with a node is told by `health.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from windlass.model.constraints import CORDON, Effect, Taint
from windlass.model.gpus import WORTH, Gpu
from windlass.model.nodes import Node
from windlass.workloads import wire
from windlass.workloads.health import quarantine_of, trouble_of
from windlass.workloads.quantities import mib_offered, milli_offered, whole_offered
from windlass.workloads.requests import GPU, reader_of

NODE_NAME = "metadata.name"
"""A node's name, shown among its labels so that selectors by field can look at it."""
PRODUCT = "nvidia.com/gpu.product"
MEMORY = "nvidia.com/gpu.memory"

_OFFERED = {"milli": milli_offered, "mib": mib_offered, "whole": whole_offered}
_EFFECTS = frozenset(effect.value for effect in Effect)
_PLAIN = frozenset({"cpu", "memory", "pods", GPU})


def node_of(node: wire.Node) -> Node:
    """The node as the engine sees it."""
    labels = dict(node.metadata.labels or {})
    offered = node.status.allocatable or {}
    return Node(
        name=node.metadata.name,
        cpu_milli=milli_offered(offered.get("cpu", "0")),
        memory_mib=mib_offered(offered.get("memory", "0")),
        pods=whole_offered(offered.get("pods", "0")),
        gpus=_gpus(whole_offered(offered.get(GPU, "0")), labels),
        extra=_extras(offered),
        labels=labels | {NODE_NAME: node.metadata.name},
        taints=_taints(node.spec),
        cordoned=node.spec.unschedulable,
        trouble=trouble_of(node),
        quarantine=quarantine_of(node),
    )


def model_of(labels: Mapping[str, str]) -> str:
    """The GPU model in our words, such as "H100-80GB"; one we do not know keeps its own name."""
    return _model(labels.get(PRODUCT, ""), whole_offered(labels.get(MEMORY, "0")))


MOST_GPUS = 512
"""A node that offers more is misread: time-slicing multiplies GPUs, but not without end."""


def _gpus(count: int, labels: Mapping[str, str]) -> tuple[Gpu, ...]:
    memory = max(1, whole_offered(labels.get(MEMORY, "0")))
    return (Gpu(model_of(labels), memory),) * min(count, MOST_GPUS)


def _extras(offered: Mapping[str, str]) -> dict[str, int]:
    names = sorted(set(offered) - _PLAIN)
    return {name: _OFFERED[reader_of(name).__name__](offered[name]) for name in names}


def _taints(spec: wire.NodeSpec) -> tuple[Taint, ...]:
    found = tuple(
        Taint(each.key, each.value, Effect(each.effect))
        for each in spec.taints or ()
        if each.effect in _EFFECTS
    )
    # the node controller adds the taint of a cordon, a moment later
    return (*found, CORDON) if spec.unschedulable and CORDON not in found else found


@lru_cache(maxsize=1024)
def _model(product: str, memory_mib: int) -> str:
    if not product:
        return "unknown"
    words = set(re.split(r"[-_ ]", product.upper()))
    family = [name for name in WORTH if set(name.upper().split("-")[:-1]) <= words]
    memory_gb = memory_mib / 1024
    near = [name for name in family if abs(_gigabytes(name) - memory_gb) * 8 <= _gigabytes(name)]
    # a MIG instance that is offered as a GPU is not the GPU it was cut from
    if not near or "MIG" in words:
        return product
    return min(near, key=lambda name: (-name.count("-"), abs(_gigabytes(name) - memory_gb)))


def _gigabytes(model: str) -> int:
    return int(model.rsplit("-", 1)[1].removesuffix("GB"))
