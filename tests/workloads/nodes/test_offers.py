"""The capacity of a node, as GPU Feature Discovery and the kubelet write it."""

from __future__ import annotations

import pytest

from tests.support.kube_given import READY, gfd, node
from windlass.model.constraints import Effect, Taint
from windlass.model.gpus import Gpu
from windlass.workloads.nodes.offers import MOST_GPUS, node_of


@pytest.mark.parametrize(
    ("product", "memory_mib", "model"),
    [
        ("NVIDIA-H100-80GB-HBM3", 81_559, "H100-80GB"),
        ("NVIDIA-H100-NVL", 95_830, "H100-94GB"),
        ("NVIDIA-A100-SXM4-80GB", 81_920, "A100-80GB"),
        ("NVIDIA-A100-SXM4-40GB", 40_960, "A100-40GB"),
        ("NVIDIA-A100-PCIE-40GB", 40_960, "A100-40GB"),
        ("NVIDIA-H200", 143_771, "H200-141GB"),
        ("NVIDIA-A10", 23_028, "A10-24GB"),
        ("NVIDIA-L40S", 46_068, "L40S-48GB"),
        ("Tesla-T4", 15_360, "T4-16GB"),
        ("Tesla-V100-SXM2-32GB", 32_768, "V100-32GB"),
        ("NVIDIA-B200", 183_359, "B200-180GB"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97_887, "RTX-PRO-6000-Blackwell-96GB"),
    ],
)
def test_the_model_is_found_by_product_and_memory(product: str, memory_mib: int, model: str):
    found = node_of(node("n1", 8, labels=gfd(product, memory_mib)))
    assert found.gpus == (Gpu(model, memory_mib),) * 8


@pytest.mark.parametrize(
    ("product", "memory_mib"),
    [
        ("NVIDIA-A10G", 23_028),
        ("Tesla-V100-SXM2-16GB", 16_384),
        ("NVIDIA-GeForce-RTX-4090", 24_564),
        ("NVIDIA-GH200-480GB", 97_871),
    ],
)
def test_an_unknown_gpu_model_keeps_its_product_name(product: str, memory_mib: int):
    assert node_of(node("n1", 1, labels=gfd(product, memory_mib))).gpus[0].model == product


def test_gpus_without_labels_are_of_an_unknown_model():
    bare = {"nvidia.com/gpu.product": "", "nvidia.com/gpu.memory": "none"}
    assert node_of(node("n1", 2, labels=bare)).gpus == (Gpu("unknown", 1),) * 2


def test_time_sliced_gpus_are_all_placed_and_charged_as_parts():
    labels = gfd("NVIDIA-A100-SXM4-40GB-SHARED", 40_960) | {"nvidia.com/gpu.replicas": "4"}
    share = Gpu("A100-40GB", 40_960, charged_milli=250)
    assert node_of(node("n1", 8, labels=labels)).gpus == (share,) * 8


def test_renamed_shared_gpus_are_an_extra_resource():
    found = node_of(node("n1", 0, offers={"nvidia.com/gpu.shared": "10"}))
    assert (found.gpus, found.extra["nvidia.com/gpu.shared"]) == ((), 10)


def test_mig_instances_by_profile_are_extra_resources():
    found = node_of(node("n1", 2, offers={"nvidia.com/mig-1g.10gb": "7"}))
    assert (len(found.gpus), found.extra) == (2, {"nvidia.com/mig-1g.10gb": 7})


def test_mig_instances_offered_as_gpus_are_not_whole_gpus():
    product = "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"
    found = node_of(node("n1", 14, labels=gfd(product, 40_000)))
    assert found.gpus == (Gpu(product, 40_000, charged_milli=500),) * 14


def test_other_resources_have_the_units_of_requests():
    offers = {"ephemeral-storage": "10Gi", "hugepages-2Mi": "1Gi", "rdma/hca": "8"}
    assert node_of(node("n1", offers=offers)).extra == {
        "ephemeral-storage": 10_240,
        "hugepages-2Mi": 1024,
        "rdma/hca": 8,
    }


def test_cpu_memory_and_pod_slots_are_rounded_down():
    found = node_of(node("n1", offers={"cpu": "7910m", "memory": "65845420Ki", "pods": "58"}))
    assert (found.cpu_milli, found.memory_mib, found.pods) == (7910, 64_302, 58)


@pytest.mark.parametrize(
    "conditions",
    [[], [{"type": "Ready", "status": "False"}], [{"type": "Ready", "status": "Unknown"}]],
)
def test_a_node_that_is_not_ready_takes_no_tasks(conditions: list[dict[str, str]]):
    assert not node_of(node("n1", conditions=conditions)).is_open


def test_a_node_that_is_ready_and_not_cordoned_takes_tasks():
    pressed = {"type": "MemoryPressure", "status": "True"}
    assert node_of(node("n1", conditions=[pressed, READY])).is_open
    assert node_of(node("n1", unschedulable=True)).cordoned


def test_taints_with_unknown_effects_are_ignored():
    written = [
        {"key": "a", "value": "1", "effect": "NoSchedule"},
        {"key": "b", "effect": "NoExecute"},
        {"key": "c", "effect": "PreferNoSchedule"},
        {"key": "d", "effect": "NoFuture"},
    ]
    assert node_of(node("n1", taints=written)).taints == (
        Taint("a", "1"),
        Taint("b", "", Effect.NO_EXECUTE),
        Taint("c", "", Effect.PREFER_NO_SCHEDULE),
    )


def test_a_number_of_gpus_beyond_the_maximum_is_cut():
    found = node_of(node("n1", offers={"nvidia.com/gpu": "1e30"}))
    assert len(found.gpus) == MOST_GPUS


def test_a_failed_gpu_is_not_offered():
    assert len(node_of(node("n1", 7)).gpus) == 7


def test_a_node_without_a_status_offers_nothing():
    found = node_of(node("n1", offers={"cpu": "0", "memory": "0", "pods": "0"}, conditions=[]))
    assert (found.cpu_milli, found.memory_mib, found.pods, found.gpus) == (0, 0, 0, ())
