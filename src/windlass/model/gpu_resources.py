"""How much of a GPU one unit of a Kubernetes resource is, and of which model.

Device plug-ins offer GPUs under many names: whole ones (`amd.com/gpu`, `gpu.intel.com/i915`), MIG
instances (`nvidia.com/mig-1g.10gb`), and shares of a GPU that several containers use at a time
(`nvidia.com/gpu.shared`). A node offers these as plain counts, and the kubelet chooses the device,
so they are placed like any other extra resource. Queues are charged for them here: in thousandths
of a GPU, rounded up, so that a limit never lets more pass than it says.

What a unit is depends on the labels that GPU Feature Discovery writes on its node. Where a label
is missing, the unit counts as the largest part of a GPU that its name can mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from windlass.model.gpus import WHOLE, WORTH
from windlass.model.mig import GEOMETRIES, milli_of_profile
from windlass.model.nodes import Node
from windlass.model.resources import Request

NVIDIA_GPU = "nvidia.com/gpu"
PRODUCT = f"{NVIDIA_GPU}.product"
MEMORY = f"{NVIDIA_GPU}.memory"
UNKNOWN = "unknown"
"""The model of a GPU whose node has no label that tells it."""

_MIG = "nvidia.com/mig-"
_SHARED = ".shared"
"""Ends the name of a resource whose units are shares of a GPU or of a MIG instance."""
_REPLICAS = ".replicas"
"""Ends the label that tells how many shares are made of one GPU or MIG instance."""
_MODEL_LABELS = {"amd.com": "amd.com/gpu.product-name", "gpu.intel.com": "gpu.intel.com/product"}
_AMD_PARTITION = re.compile(r"amd\.com/(spx|dpx|tpx|qpx|cpx)_nps[0-9]+")
_PARTITIONS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 6}
"""Into how many parts an AMD GPU is cut; in mode CPX 6 or 8, so that the larger part counts."""
_WHOLE_GPUS = frozenset({NVIDIA_GPU, "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"})
"""Intel's `millicores`, `memory.max` and `tiles` say which part of an `i915` or `xe` is meant, and
give no device without one: the device is what counts."""
_COMPUTE_SLICES = re.compile(r"(?:[0-9]+c\.)?([0-9]+)g\.")


class GpuUnit(NamedTuple):
    """A charge for one unit of a resource: thousandths of a GPU, and of which model."""

    milli: int
    model: str


@lru_cache(maxsize=1 << 12)
def is_gpu(resource: str) -> bool:
    """Is a unit of this resource a GPU, or a part of one?"""
    return (
        resource.removesuffix(_SHARED) in _WHOLE_GPUS
        or resource.startswith(_MIG)
        or _AMD_PARTITION.fullmatch(resource) is not None
    )


def asks_gpu(request: Request) -> bool:
    """Does a task ask for GPUs or parts of them, under whatever name?"""
    return request.gpu is not None or any(is_gpu(name) for name, _ in request.extra)


def short_name(resource: str) -> str:
    """A GPU resource where there is little room: `mig-3g.20gb`, or `amd.com/gpu` as it is."""
    return resource.removeprefix("nvidia.com/")


def unit_on(node: Node | None, resource: str) -> GpuUnit:
    """Return the charge for one unit of a GPU resource on a node; None: the node is not known."""
    labels: Mapping[str, str] = {} if node is None else node.labels
    if not resource.startswith("nvidia.com/"):
        label = _MODEL_LABELS.get(resource.partition("/")[0], "")
        return GpuUnit(_part_of_other_vendor(resource), labels.get(label) or UNKNOWN)
    unshared = resource.removesuffix(_SHARED)
    # where shares have their own name, what is offered under the plain name is not shared
    is_plain = unshared == resource and node is not None and node.extra.get(unshared + _SHARED, 0)
    replicas = 1 if is_plain else _count(labels.get(unshared + _REPLICAS, ""))
    milli = WHOLE
    if unshared.startswith(_MIG):
        milli = _milli_of_mig(unshared.removeprefix(_MIG), _models_cut(labels))
    return GpuUnit(-(-milli // max(1, replicas)), model_of(labels))


def extra_milli(request: Request) -> int:
    """The thousandths of GPU that extra resources of a request are by their names alone."""
    gpus = [each for each in request.extra if is_gpu(each[0])]
    return sum(amount * unit_on(None, name).milli for name, amount in gpus)


def offered_milli(node: Node) -> int:
    """The thousandths of GPU, as queues are charged, that a node offers under all names."""
    devices = sum(gpu.charged_milli for gpu in node.gpus if gpu.healthy)
    extras = [each for each in node.extra.items() if is_gpu(each[0])]
    return devices + sum(amount * unit_on(node, name).milli for name, amount in extras)


def least_unit(nodes: Iterable[Node], resource: str) -> int:
    """The least thousandths that one unit is on the nodes that offer it; by its name if none do."""
    units = (unit_on(node, resource).milli for node in nodes if node.extra.get(resource, 0))
    return min(units, default=unit_on(None, resource).milli)


def device_milli(labels: Mapping[str, str], is_renamed: bool) -> int:
    """The thousandths of a GPU that one device offered as `nvidia.com/gpu` stands for.

    It is a whole GPU, one of several shares of it (unless these are offered under another name),
    or a MIG instance (`mig.strategy` single), which its product label tells.
    """
    _, is_cut, profile = labels.get(PRODUCT, "").removesuffix("-SHARED").partition("-MIG-")
    milli = _milli_of_mig(profile, _models_cut(labels)) if is_cut else WHOLE
    replicas = 1 if is_renamed else _count(labels.get(NVIDIA_GPU + _REPLICAS, ""))
    return -(-milli // max(1, replicas))


def model_of(labels: Mapping[str, str]) -> str:
    """The NVIDIA model in our words, such as "H100-80GB"; one not listed keeps its own name."""
    return _model(labels.get(PRODUCT, ""), _count(labels.get(MEMORY, "")))


@lru_cache(maxsize=1024)
def _model(product: str, memory_mib: int) -> str:
    if not product:
        return UNKNOWN
    words = _words(product)
    family = [name for name in WORTH if set(name.upper().split("-")[:-1]) <= words]
    memory_gb = memory_mib / 1024
    near = [name for name in family if abs(_gigabytes(name) - memory_gb) * 8 <= _gigabytes(name)]
    # a MIG instance that is offered as a GPU is not the GPU it was cut from
    if not near or "MIG" in words:
        return product
    return min(near, key=lambda name: (-name.count("-"), abs(_gigabytes(name) - memory_gb)))


def _models_cut(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The models from which the MIG instances of a node may be cut."""
    model = model_of(labels)
    return (model,) if model in GEOMETRIES else _models_named(labels.get(PRODUCT, ""))


@lru_cache(maxsize=1024)
def _models_named(product: str) -> tuple[str, ...]:
    """The models that can be cut and that a product may be: by name and size, by name, or all."""
    words = _words(product)
    exact = tuple(name for name in GEOMETRIES if set(name.upper().split("-")) <= words)
    alike = tuple(name for name in GEOMETRIES if set(name.upper().split("-")[:-1]) <= words)
    return exact or alike or tuple(GEOMETRIES)


@lru_cache(maxsize=1024)
def _milli_of_mig(profile: str, models: tuple[str, ...]) -> int:
    """The largest part of one of these models that an instance of a profile may be.

    Resource names have a dot where the name of the profile has a plus. A profile that is not
    listed counts like the largest with as many compute slices, or as a whole GPU.
    """
    known = [(model, each) for model in models for each in GEOMETRIES[model].profiles]
    found = [pair for pair in known if pair[1].name.replace("+", ".") == profile]
    if not found and (slices := _COMPUTE_SLICES.match(profile)):
        found = [pair for pair in known if pair[1].compute == _count(slices[1])]
    return max((milli_of_profile(model, each.name) for model, each in found), default=WHOLE)


def _part_of_other_vendor(resource: str) -> int:
    cut = _AMD_PARTITION.fullmatch(resource)
    return -(-WHOLE // _PARTITIONS[cut[1]]) if cut else WHOLE


def _words(product: str) -> set[str]:
    return set(re.split(r"[-_ ]", product.upper()))


def _gigabytes(model: str) -> int:
    return int(model.rsplit("-", 1)[1].removesuffix("GB"))


def _count(text: str) -> int:
    """A label as a number; 0 if it is none."""
    return int(text) if text.isascii() and text.isdigit() else 0
