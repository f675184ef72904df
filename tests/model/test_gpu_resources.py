"""The share of a GPU behind one unit of a resource, by its name and the labels of its node."""

from __future__ import annotations

import pytest

from tests.given import ask, node
from tests.support.kube_given import gfd
from tests.support.kube_given import node as kube_node
from windlass.model.gpu.resources import asks_gpu, is_gpu, unit_on
from windlass.workloads.nodes.offers import node_of

A100_40 = gfd("NVIDIA-A100-SXM4-40GB", 40_960)
A100_80 = gfd("NVIDIA-A100-SXM4-80GB", 81_920)
RTX_PRO = gfd("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97_887)
T4 = gfd("Tesla-T4", 15_360)


def milli(resource: str, labels: dict[str, str] | None = None) -> int:
    return unit_on(node("n1", labels=labels or {}), resource).milli


@pytest.mark.parametrize(
    ("profile", "labels", "thousandths"),
    [
        ("1g.5gb", A100_40, 143),
        ("1g.10gb", A100_80, 143),
        ("1g.10gb", A100_40, 250),
        ("1g.10gb.me", A100_80, 143),
        ("3g.20gb", A100_40, 500),
        ("4g.20gb", A100_40, 572),
        ("7g.40gb", A100_40, 1000),
        ("1g.24gb-me", RTX_PRO, 250),
        ("1g.24gb.me.all", RTX_PRO, 250),
    ],
)
def test_a_mig_instance_counts_as_its_part_of_the_nodes_model(
    profile: str, labels: dict[str, str], thousandths: int
):
    assert milli(f"nvidia.com/mig-{profile}", labels) == thousandths


@pytest.mark.parametrize(
    ("profile", "thousandths"),
    [("1g.10gb", 250), ("3g.20gb", 500), ("7g.79gb", 1000), ("2g.11gb", 500), ("odd", 1000)],
)
def test_a_mig_instance_of_an_unknown_model_counts_as_the_largest_it_can_be(
    profile: str, thousandths: int
):
    assert milli(f"nvidia.com/mig-{profile}") == thousandths
    assert unit_on(None, f"nvidia.com/mig-{profile}").milli == thousandths


def test_a_profile_that_is_not_listed_counts_by_its_compute_slices_on_the_nodes_model():
    assert milli("nvidia.com/mig-7g.79gb", A100_80) == 1000
    assert milli("nvidia.com/mig-1g.9gb", A100_80) == 250
    assert milli("nvidia.com/mig-1c.3g.40gb", A100_80) == 500


def test_a_share_of_a_gpu_counts_as_one_of_its_replicas():
    assert milli("nvidia.com/gpu.shared", T4 | {"nvidia.com/gpu.replicas": "4"}) == 250
    assert milli("nvidia.com/gpu.shared", T4 | {"nvidia.com/gpu.replicas": "3"}) == 334
    shared = A100_40 | {"nvidia.com/mig-3g.20gb.replicas": "2"}
    assert milli("nvidia.com/mig-3g.20gb.shared", shared) == 250
    assert milli("nvidia.com/mig-3g.20gb", shared) == 250


def test_plain_units_beside_renamed_shares_are_whole_gpus():
    extra = {"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-3g.20gb.shared": 2}
    labels = A100_40 | {"nvidia.com/mig-3g.20gb.replicas": "2"}
    assert unit_on(node("n1", extra=extra, labels=labels), "nvidia.com/mig-3g.20gb").milli == 500


@pytest.mark.parametrize("replicas", ["", "0", "many", "-4"])
def test_a_share_counts_as_a_whole_gpu_without_a_replicas_label(replicas: str):
    assert milli("nvidia.com/gpu.shared", T4 | {"nvidia.com/gpu.replicas": replicas}) == 1000


@pytest.mark.parametrize(("mode", "parts"), [("spx", 1), ("dpx", 2), ("qpx", 4), ("cpx", 6)])
def test_a_partition_of_an_amd_gpu_counts_as_its_part(mode: str, parts: int):
    assert milli(f"amd.com/{mode}_nps1") == -(-1000 // parts)


def test_the_model_comes_from_the_labels_of_the_vendor():
    assert unit_on(node("n1", labels=A100_40), "nvidia.com/mig-1g.5gb").model == "A100-40GB"
    amd = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    assert unit_on(node("n1", labels=amd), "amd.com/gpu").model == "AMD_Instinct_MI300X_OAM"
    assert unit_on(node("n1"), "gpu.intel.com/xe").model == "unknown"


def test_a_time_sliced_gpu_counts_as_one_of_its_replicas():
    labels = gfd("Tesla-T4-SHARED", 15_360) | {"nvidia.com/gpu.replicas": "4"}
    (share, *_) = node_of(kube_node("n1", 8, labels=labels)).gpus
    assert (share.model, share.charged_milli) == ("T4-16GB", 250)
    renamed = kube_node("n1", 8, labels=labels, offers={"nvidia.com/gpu.shared": "8"})
    assert node_of(renamed).gpus[0].charged_milli == 1000


@pytest.mark.parametrize(
    ("product", "thousandths"),
    [
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.10gb", 250),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 143),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me", 143),
        ("NVIDIA-H200-MIG-3g.71gb", 500),
        ("NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED", 250),
    ],
)
def test_a_mig_instance_that_is_offered_as_a_gpu_counts_as_its_part(product: str, thousandths: int):
    replicas = {"nvidia.com/gpu.replicas": "2" if product.endswith("SHARED") else "1"}
    found = node_of(kube_node("n1", 7, labels=gfd(product, 9_728) | replicas))
    assert found.gpus[0].charged_milli == thousandths


def test_a_request_for_any_gpu_resource_asks_for_a_gpu():
    assert asks_gpu(ask(1))
    assert asks_gpu(ask(extra={"nvidia.com/mig-1g.5gb": 1}))
    assert not asks_gpu(ask(cpu=1, extra={"rdma/hca": 1}))
    assert not is_gpu("gpu.intel.com/i915_monitoring")
