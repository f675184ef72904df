"""The requests of a pod, added up as kube-scheduler does; all sums can be checked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube_given import container, pod
from windlass.model.gpus import GpuRequest
from windlass.model.resources import Request
from windlass.model.units import LARGEST_AMOUNT
from windlass.workloads.pods.requests import request_of


def cpu_of(**fields: Any) -> int:
    return request_of(pod("p", **fields)).cpu_milli


def given(name: str, has: str | None, allocated: str = "") -> dict[str, Any]:
    """Return a container status; `has` None: the kubelet does not report actual resources."""
    status: dict[str, Any] = {"name": name}
    if has is not None:
        status["resources"] = {"requests": {"cpu": has}}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    return status


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def test_requests_of_containers_are_added_up():
    both = [container("a", cpu="1", memory="1Gi"), container("b", cpu="500m", memory="2Gi")]
    assert request_of(pod("p", containers=both)) == Request(1500, 3072)


def test_gpus_and_other_devices_are_counted_whole():
    asked = {"nvidia.com/gpu": "2", "rdma/hca": "1", "ephemeral-storage": "1Gi"}
    found = request_of(pod("p", requests=asked))
    assert found.gpu == GpuRequest(2)
    assert found.extra == (("ephemeral-storage", 1024), ("rdma/hca", 1))


def test_a_pod_without_requests_takes_only_a_pod_slot():
    assert request_of(pod("p", containers=[{"name": "main"}])) == Request()
    assert request_of(pod("p", requests={"nvidia.com/gpu": "0", "rdma/hca": "0"})) == Request()


def test_of_init_containers_the_largest_counts():
    init = [container("i1", cpu="3"), container("i2", cpu="2")]
    assert cpu_of(containers=[container(cpu="1")], initContainers=init) == 3000
    assert cpu_of(containers=[container(cpu="4")], initContainers=init) == 4000


def test_each_resource_is_compared_on_its_own():
    init = [container("i", cpu="3", memory="1Gi")]
    found = request_of(pod("p", requests={"cpu": "1", "memory": "2Gi"}, initContainers=init))
    assert (found.cpu_milli, found.memory_mib) == (3000, 2048)


def test_a_sidecar_runs_beside_the_containers_and_beside_later_init_containers():
    sidecar, later = container("s", sidecar=True, cpu="1"), container("i", cpu="5")
    assert cpu_of(containers=[container(cpu="2")], initContainers=[sidecar]) == 3000
    assert cpu_of(containers=[container(cpu="2")], initContainers=[sidecar, later]) == 6000


def test_a_sidecar_does_not_run_beside_earlier_init_containers():
    sidecar, earlier = container("s", sidecar=True, cpu="1"), container("i", cpu="5")
    assert cpu_of(containers=[container(cpu="2")], initContainers=[earlier, sidecar]) == 5000


def test_sidecars_add_up_in_their_order():
    init = [
        container("s1", sidecar=True, cpu="1"),
        container("i1", cpu="4"),
        container("s2", sidecar=True, cpu="2"),
        container("i2", cpu="3"),
    ]
    # while i1 starts: 4 + 1; while i2 starts: 3 + 1 + 2; later: 1 + 1 + 2
    assert cpu_of(containers=[container(cpu="1")], initContainers=init) == 6000


def test_runtime_overhead_is_added_to_the_larger_sum():
    init = [container("i", cpu="3")]
    overhead = {"cpu": "250m", "memory": "64Mi"}
    found = request_of(pod("p", requests={"cpu": "1"}, initContainers=init, overhead=overhead))
    assert (found.cpu_milli, found.memory_mib) == (3250, 64)


def test_pod_level_requests_replace_the_sum_of_the_containers():
    whole = {"requests": {"cpu": "2"}}
    found = request_of(pod("p", requests={"cpu": "3", "memory": "1Gi"}, resources=whole))
    assert (found.cpu_milli, found.memory_mib) == (2000, 1024)
    assert cpu_of(requests={"cpu": "3"}, resources=whole, overhead={"cpu": "1"}) == 3000


def test_pod_level_requests_for_devices_are_ignored():
    whole = {"requests": {"cpu": "2", "nvidia.com/gpu": "9"}}
    assert request_of(pod("p", 1, resources=whole)).gpu == GpuRequest(1)


def test_pod_level_limits_are_no_requests():
    assert cpu_of(requests={"cpu": "3"}, resources={"limits": {"cpu": "9"}}) == 3000


def test_while_a_container_shrinks_its_actual_resources_count():
    status = {"containerStatuses": [given("main", "4", "4")]}
    assert cpu_of(requests={"cpu": "1"}, status=status) == 4000


def test_while_a_container_grows_its_requested_resources_count():
    status = {"containerStatuses": [given("main", "1", "1")], "conditions": [DEFERRED]}
    assert cpu_of(requests={"cpu": "4"}, status=status) == 4000


def test_allocated_resources_count_before_they_are_actual():
    status = {"containerStatuses": [given("main", "1", "3")]}
    assert cpu_of(requests={"cpu": "2"}, status=status) == 3000


def test_an_infeasible_resize_does_not_count():
    status = {"containerStatuses": [given("main", "1", "2")], "conditions": [INFEASIBLE]}
    assert cpu_of(requests={"cpu": "9"}, status=status) == 2000


def test_a_status_without_actual_resources_is_ignored():
    status = {"containerStatuses": [given("main", None, "8")], "conditions": [INFEASIBLE]}
    assert cpu_of(requests={"cpu": "2"}, status=status) == 2000


def test_sidecars_can_be_resized_and_other_init_containers_cannot():
    init = [container("s", sidecar=True, cpu="1"), container("i", cpu="1")]
    status = {"initContainerStatuses": [given("s", "3"), given("i", "50")]}
    assert cpu_of(containers=[container(cpu="1")], initContainers=init, status=status) == 4000


@pytest.mark.parametrize(
    ("conditions", "expected"), [([], 6000), ([DEFERRED], 6000), ([INFEASIBLE], 4000)]
)
def test_a_pod_level_resize_counts_like_one_of_a_container(conditions: list[Any], expected: int):
    status = {
        "resources": {"requests": {"cpu": "3"}},
        "allocatedResources": {"cpu": "4"},
        "conditions": conditions,
    }
    assert cpu_of(resources={"requests": {"cpu": "6"}}, status=status) == expected


def test_sums_are_capped_at_the_maximum():
    many = [container(f"c{i}", cpu="1e30", memory="1e30") for i in range(50)]
    found = request_of(pod("p", containers=many, overhead={"cpu": "1e30"}))
    assert (found.cpu_milli, found.memory_mib) == (LARGEST_AMOUNT, LARGEST_AMOUNT)
