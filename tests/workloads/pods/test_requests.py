"""What a pod asks for, as kube-scheduler adds it up; all sums can be checked in the head."""

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
    """A container's status; `has` None: the kubelet has not said what is in force."""
    status: dict[str, Any] = {"name": name}
    if has is not None:
        status["resources"] = {"requests": {"cpu": has}}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    return status


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def test_containers_run_together_and_are_added_up():
    both = [container("a", cpu="1", memory="1Gi"), container("b", cpu="500m", memory="2Gi")]
    assert request_of(pod("p", containers=both)) == Request(1500, 3072)


def test_gpus_and_other_devices_are_counted_whole():
    asked = {"nvidia.com/gpu": "2", "rdma/hca": "1", "ephemeral-storage": "1Gi"}
    found = request_of(pod("p", requests=asked))
    assert found.gpu == GpuRequest(2)
    assert found.extra == (("ephemeral-storage", 1024), ("rdma/hca", 1))


def test_a_pod_that_asks_for_nothing_takes_a_pod_slot_only():
    assert request_of(pod("p", containers=[{"name": "main"}])) == Request()
    assert request_of(pod("p", requests={"nvidia.com/gpu": "0", "rdma/hca": "0"})) == Request()


def test_init_containers_run_one_after_the_other_so_the_largest_counts():
    init = [container("i1", cpu="3"), container("i2", cpu="2")]
    assert cpu_of(containers=[container(cpu="1")], initContainers=init) == 3000
    assert cpu_of(containers=[container(cpu="4")], initContainers=init) == 4000


def test_each_resource_is_compared_by_itself():
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


def test_the_overhead_of_the_runtime_comes_on_top_of_whichever_is_larger():
    init = [container("i", cpu="3")]
    overhead = {"cpu": "250m", "memory": "64Mi"}
    found = request_of(pod("p", requests={"cpu": "1"}, initContainers=init, overhead=overhead))
    assert (found.cpu_milli, found.memory_mib) == (3250, 64)


def test_what_the_pod_asks_for_as_a_whole_replaces_the_sum_of_its_containers():
    whole = {"requests": {"cpu": "2"}}
    found = request_of(pod("p", requests={"cpu": "3", "memory": "1Gi"}, resources=whole))
    assert (found.cpu_milli, found.memory_mib) == (2000, 1024)
    assert cpu_of(requests={"cpu": "3"}, resources=whole, overhead={"cpu": "1"}) == 3000


def test_devices_cannot_be_asked_for_by_the_pod_as_a_whole():
    whole = {"requests": {"cpu": "2", "nvidia.com/gpu": "9"}}
    assert request_of(pod("p", 1, resources=whole)).gpu == GpuRequest(1)


def test_limits_of_the_pod_as_a_whole_are_no_request():
    assert cpu_of(requests={"cpu": "3"}, resources={"limits": {"cpu": "9"}}) == 3000


def test_while_a_container_shrinks_what_it_still_has_counts():
    status = {"containerStatuses": [given("main", "4", "4")]}
    assert cpu_of(requests={"cpu": "1"}, status=status) == 4000


def test_while_a_container_grows_what_it_wants_counts():
    status = {"containerStatuses": [given("main", "1", "1")], "conditions": [DEFERRED]}
    assert cpu_of(requests={"cpu": "4"}, status=status) == 4000


def test_what_is_set_aside_counts_before_it_is_in_force():
    status = {"containerStatuses": [given("main", "1", "3")]}
    assert cpu_of(requests={"cpu": "2"}, status=status) == 3000


def test_a_wish_that_the_node_can_never_grant_does_not_count():
    status = {"containerStatuses": [given("main", "1", "2")], "conditions": [INFEASIBLE]}
    assert cpu_of(requests={"cpu": "9"}, status=status) == 2000


def test_a_status_that_does_not_say_what_is_in_force_changes_nothing():
    status = {"containerStatuses": [given("main", None, "8")], "conditions": [INFEASIBLE]}
    assert cpu_of(requests={"cpu": "2"}, status=status) == 2000


def test_sidecars_can_be_resized_and_other_init_containers_cannot():
    init = [container("s", sidecar=True, cpu="1"), container("i", cpu="1")]
    status = {"initContainerStatuses": [given("s", "3"), given("i", "50")]}
    assert cpu_of(containers=[container(cpu="1")], initContainers=init, status=status) == 4000


@pytest.mark.parametrize(
    ("conditions", "expected"), [([], 6000), ([DEFERRED], 6000), ([INFEASIBLE], 4000)]
)
def test_a_resize_of_the_pod_as_a_whole_counts_like_one_of_a_container(
    conditions: list[Any], expected: int
):
    status = {
        "resources": {"requests": {"cpu": "3"}},
        "allocatedResources": {"cpu": "4"},
        "conditions": conditions,
    }
    assert cpu_of(resources={"requests": {"cpu": "6"}}, status=status) == expected


def test_absurd_sums_stay_within_what_can_be_counted():
    many = [container(f"c{i}", cpu="1e30", memory="1e30") for i in range(50)]
    found = request_of(pod("p", containers=many, overhead={"cpu": "1e30"}))
    assert (found.cpu_milli, found.memory_mib) == (LARGEST_AMOUNT, LARGEST_AMOUNT)
