"""The GPUs behind Kubernetes resource names: the share of a GPU that one unit is, and its model.

Device plug-ins offer GPUs under many names: whole ones (`amd.com/gpu`, `gpu.intel.com/i915`), MIG
instances (`nvidia.com/mig-1g.10gb`), and shares of a GPU that several containers use at a time
(`nvidia.com/gpu.shared`). A node offers these as plain counts, and the kubelet chooses the device,
so they are placed like any other extra resource. Queues are charged for them here: in thousandths
of a GPU, rounded up, so that a limit never lets more pass than it says.

The share depends on the labels that GPU Feature Discovery writes on the node. If a label is
missing, the unit counts as the largest part of a GPU that its name can mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from windlass.model.gpu.mig import GEOMETRIES, milli_of_profile
from windlass.model.gpus import WHOLE, WORTH
from windlass.model.nodes import Node
from windlass.model.resources import Request

NVIDIA_GPU = "nvidia.com/gpu"
PRODUCT = f"{NVIDIA_GPU}.product"
MEMORY = f"{NVIDIA_GPU}.memory"
UNKNOWN = "unknown"
"""The model of a GPU whose node has no label that tells it."""

_MIG = "nvidia.com/mig-"
_SHARED = ".shared"
"""The suffix of resources whose units are shares of a GPU or of a MIG instance."""
_REPLICAS = ".replicas"
"""The suffix of the label with the number of shares of one GPU or MIG instance."""
_MODEL_LABELS = {"amd.com": "amd.com/gpu.product-name", "gpu.intel.com": "gpu.intel.com/product"}
_AMD_PARTITION = re.compile(r"amd\.com/(spx|dpx|tpx|qpx|cpx)_nps[0-9]+")
_PARTITIONS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 6}
"""The number of parts of an AMD GPU by mode; CPX means 6 or 8, so the larger part counts."""
_WHOLE_GPUS = frozenset({NVIDIA_GPU, "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"})
"""The resources whose unit is a whole GPU. Intel's `millicores`, `memory.max` and `tiles` name a
part of an `i915` or `xe` and come only together with one, so the whole device is charged."""
_COMPUTE_SLICES = re.compile(r"(?:[0-9]+c\.)?([0-9]+)g\.")


class GpuUnit(NamedTuple):
    """The charge for one unit of a resource: thousandths of a GPU of a model."""

    milli: int
    model: str


@lru_cache(maxsize=1 << 12)
def is_gpu(resource: str) -> bool:
    """Return whether a unit of this resource is a GPU or a part of one."""
    return (
        resource.removesuffix(_SHARED) in _WHOLE_GPUS
        or resource.startswith(_MIG)
        or _AMD_PARTITION.fullmatch(resource) is not None
    )


def asks_gpu(request: Request) -> bool:
    """Return whether a request asks for GPUs or parts of them, under any name."""
    return request.gpu is not None or any(is_gpu(name) for name, _ in request.extra)


def short_name(resource: str) -> str:
    """Return a GPU resource without NVIDIA's prefix: `mig-3g.20gb`, but `amd.com/gpu`."""
    return resource.removeprefix("nvidia.com/")


def unit_on(node: Node | None, resource: str) -> GpuUnit:
    """Return the charge for one unit of a GPU resource on a node, or on an unknown one (None)."""
    labels: Mapping[str, str] = {} if node is None else node.labels
    if not resource.startswith("nvidia.com/"):
        label = _MODEL_LABELS.get(resource.partition("/")[0], "")
        return GpuUnit(_part_of_other_vendor(resource), labels.get(label) or UNKNOWN)
    unshared = resource.removesuffix(_SHARED)
    # If shares have their own resource name, units of the plain name are not shared.
    is_plain = unshared == resource and node is not None and node.extra.get(unshared + _SHARED, 0)
    replicas = 1 if is_plain else _count(labels.get(unshared + _REPLICAS, ""))
    milli = WHOLE
    if unshared.startswith(_MIG):
        milli = _milli_of_mig(unshared.removeprefix(_MIG), _models_cut(labels))
    return GpuUnit(-(-milli // max(1, replicas)), model_of(labels))


def extra_milli(request: Request) -> int:
    """Return the thousandths of GPU of a request's extra resources, by their names alone."""
    gpus = [extra for extra in request.extra if is_gpu(extra[0])]
    return sum(amount * unit_on(None, name).milli for name, amount in gpus)


def offered_milli(node: Node) -> int:
    """Return the thousandths of GPU that a node offers under all names, as queues are charged."""
    devices = sum(gpu.charged_milli for gpu in node.gpus if gpu.healthy)
    extras = [extra for extra in node.extra.items() if is_gpu(extra[0])]
    return devices + sum(amount * unit_on(node, name).milli for name, amount in extras)


def least_unit(nodes: Iterable[Node], resource: str) -> int:
    """Return the least charge for a unit on the nodes that offer it; by name if none does."""
    units = (unit_on(node, resource).milli for node in nodes if node.extra.get(resource, 0))
    return min(units, default=unit_on(None, resource).milli)


def device_milli(labels: Mapping[str, str], is_renamed: bool) -> int:
    """Return the thousandths of a GPU that one device offered as `nvidia.com/gpu` stands for.

    It is a whole GPU, one of several shares of it (unless `is_renamed`: shares have a resource name
    of their own), or, by its product label, a MIG instance (`mig.strategy` single).
    """
    _, is_cut, profile = labels.get(PRODUCT, "").removesuffix("-SHARED").partition("-MIG-")
    milli = _milli_of_mig(profile, _models_cut(labels)) if is_cut else WHOLE
    replicas = 1 if is_renamed else _count(labels.get(NVIDIA_GPU + _REPLICAS, ""))
    return -(-milli // max(1, replicas))


def model_of(labels: Mapping[str, str]) -> str:
    """Return the name of the NVIDIA model, such as "H100-80GB"; an unlisted one as labelled."""
    return _model(labels.get(PRODUCT, ""), _count(labels.get(MEMORY, "")))


@lru_cache(maxsize=1024)
def _model(product: str, memory_mib: int) -> str:
    if not product:
        return UNKNOWN
    words = _words(product)
    family = [name for name in WORTH if set(name.upper().split("-")[:-1]) <= words]
    memory_gb = memory_mib / 1024
    near = [name for name in family if abs(_gigabytes(name) - memory_gb) * 8 <= _gigabytes(name)]
    # A MIG instance that is offered as a GPU is not the model from which it was cut.
    if not near or "MIG" in words:
        return product
    return min(near, key=lambda name: (-name.count("-"), abs(_gigabytes(name) - memory_gb)))


def _models_cut(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models from which the MIG instances of a node may be cut."""
    model = model_of(labels)
    return (model,) if model in GEOMETRIES else _models_named(labels.get(PRODUCT, ""))


@lru_cache(maxsize=1024)
def _models_named(product: str) -> tuple[str, ...]:
    """Return the MIG models that a product may be: by name and size, else by name, else all."""
    words = _words(product)
    exact = tuple(name for name in GEOMETRIES if set(name.upper().split("-")) <= words)
    alike = tuple(name for name in GEOMETRIES if set(name.upper().split("-")[:-1]) <= words)
    return exact or alike or tuple(GEOMETRIES)


@lru_cache(maxsize=1024)
def _milli_of_mig(profile: str, models: tuple[str, ...]) -> int:
    """Return the thousandths of the largest part of these models that a profile may be.

    Resource names have a dot where the name of the profile has a plus. A profile that is not
    listed counts like the largest with as many compute slices, or as a whole GPU.
    """
    offered = [(model, listed) for model in models for listed in GEOMETRIES[model].profiles]
    candidates = [pair for pair in offered if pair[1].name.replace("+", ".") == profile]
    if not candidates and (slices := _COMPUTE_SLICES.match(profile)):
        candidates = [pair for pair in offered if pair[1].compute == _count(slices[1])]
    parts = (milli_of_profile(model, candidate.name) for model, candidate in candidates)
    return max(parts, default=WHOLE)


def _part_of_other_vendor(resource: str) -> int:
    cut = _AMD_PARTITION.fullmatch(resource)
    return -(-WHOLE // _PARTITIONS[cut[1]]) if cut else WHOLE


def _words(product: str) -> set[str]:
    return set(re.split(r"[-_ ]", product.upper()))


def _gigabytes(model: str) -> int:
    return int(model.rsplit("-", 1)[1].removesuffix("GB"))


def _count(text: str) -> int:
    """Return a label's value as a number; 0 if it is not one."""
    return int(text) if text.isascii() and text.isdigit() else 0
