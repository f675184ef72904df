"""GPUs under every name are charged to queues: MIG instances, shares, GPUs of other vendors."""

from __future__ import annotations

import pytest

from tests.given import TEAM, Outcome, ask, cluster, job, node, outcome_of, queue, schedule
from tests.support.kube_given import gfd
from tests.support.kube_given import node as kube_node
from windlass.controllers.queue_status import queue_numbers
from windlass.model.nodes import Node
from windlass.model.reasons import ReasonCode
from windlass.workloads.nodes.offers import node_of

A100_40 = gfd("NVIDIA-A100-SXM4-40GB", 40_960)
A100_80 = gfd("NVIDIA-A100-SXM4-80GB", 81_920)
T4 = gfd("Tesla-T4", 15_360)
REPLICAS = {"nvidia.com/gpu.replicas": "4"}
AMD, SMALL, HALF = "amd.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.20gb"


def allocated(outcome: Outcome, dimension: str = "gpu") -> int:
    return outcome.carried_out().allocated(TEAM, dimension)


@pytest.mark.parametrize(
    "resource",
    [
        "amd.com/cpx_nps4",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb.shared",
        "nvidia.com/mig-3g.20gb",
    ],
)
def test_a_gpu_limit_of_zero_holds_for_every_gpu_resource(resource: str):
    there = node("n1", extra={resource: 8})
    outcome = schedule(there, queue(TEAM, limit_gpus=0), job("a", 1, ask(extra={resource: 1})))
    assert outcome.nothing_of("a")
    assert outcome.whys("a") == {ReasonCode.NEVER_LIMIT}


@pytest.mark.parametrize("resource", ["nvidia.com/gpumem", "gpu.intel.com/millicores", "rdma/hca"])
def test_resources_that_are_no_gpus_are_not_charged_as_gpus(resource: str):
    there = node("n1", extra={resource: 8})
    outcome = schedule(there, queue(TEAM, limit_gpus=0), job("a", 1, ask(extra={resource: 1})))
    assert outcome.places == {"a-0": "n1"}


def test_gpus_of_other_vendors_are_charged_whole_until_the_limit():
    jobs = [job(f"a{at}", 1, ask(extra={AMD: 1})) for at in range(5)]
    outcome = schedule(node("n1", extra={AMD: 8}), queue(TEAM, limit_gpus=3), *jobs)
    assert len(outcome.places) == 3
    assert allocated(outcome) == 3000


def test_an_intel_gpu_of_which_a_part_is_named_counts_once():
    both = {"gpu.intel.com/i915": 1, "gpu.intel.com/millicores": 500}
    there = node("n1", extra={"gpu.intel.com/i915": 4, "gpu.intel.com/millicores": 4000})
    assert allocated(schedule(there, job("a", 1, ask(extra=both)))) == 1000


def test_a_request_is_charged_by_the_gpu_model_of_its_node():
    team, asks = queue(TEAM, limit={"gpu": 150}), job("a", 1, ask(extra={SMALL: 1}))
    outcome = schedule(node("n1", extra={SMALL: 7}, labels=A100_80), team, asks)
    assert (allocated(outcome), allocated(outcome, "gpu/A100-80GB")) == (143, 143)
    outcome = schedule(node("n1", extra={SMALL: 4}, labels=A100_40), team, asks)
    assert (outcome.places, outcome.whys("a")) == ({}, {ReasonCode.NEVER_LIMIT})


def test_no_limit_is_exceeded_if_a_unit_differs_between_nodes():
    team, asks = queue(TEAM, limit={"gpu": 150}), job("a", 1, ask(extra={SMALL: 1}))
    large = node("n1", extra={SMALL: 4}, labels=A100_40)
    small = node("n2", extra={SMALL: 7}, labels=A100_80, cordoned=True)
    outcome = schedule(large, small, team, asks)
    assert not outcome.places
    assert ReasonCode.AT_LIMIT in outcome.whys("a")


def test_a_limit_of_a_model_counts_its_instances():
    jobs = [job(f"a{at}", 1, ask(extra={HALF: 1})) for at in range(3)]
    team = queue(TEAM, limit={"gpu/A100-40GB": 1000})
    outcome = schedule(node("n1", extra={HALF: 8}, labels=A100_40), team, *jobs)
    assert len(outcome.places) == 2


def test_instances_and_whole_gpus_of_one_pod_are_charged_together():
    there = node("n1", 2, extra={HALF: 2}, labels=A100_40)
    assert allocated(schedule(there, job("a", 1, ask(2, extra={HALF: 1})))) == 2500


def test_capacity_counts_gpu_resources_as_queues_are_charged():
    nodes = [
        node("n1", extra={SMALL: 7}, labels=A100_80),
        node("n2", extra={"nvidia.com/gpu.shared": 8}, labels=T4 | REPLICAS),
        node("n3", extra={AMD: 8}),
        node("n4", extra={AMD: 8}, cordoned=True),
    ]
    found = cluster(*nodes).columns.capacity()
    assert (found["gpu/A100-80GB"], found["gpu/T4-16GB"], found["gpu"]) == (1001, 2000, 11_001)


def test_a_full_cluster_has_nothing_free():
    outcome = schedule(node("n1", extra={AMD: 2}), job("a", 2, ask(extra={AMD: 1})))
    columns = outcome.carried_out().columns
    assert (columns.free_gpu(), columns.all_gpu()) == (0, 2000)


def test_shares_divide_the_gpus_of_every_resource():
    jobs = [
        job(f"{team}{at}", 1, ask(extra={AMD: 1}), queue=team) for team in "xy" for at in range(4)
    ]
    outcome = schedule(node("n1", extra={AMD: 4}), queue("x"), queue("y"), *jobs)
    assert [outcome.plan.shares[team]["gpu"] for team in "xy"] == [2000, 2000]
    assert sorted(name[0] for name in outcome.places) == ["x", "x", "y", "y"]


def test_a_guarantee_is_reclaimed_from_every_gpu_resource():
    lends = job("a", 2, ask(extra={AMD: 2}), queue="x", minimum=1).runs(0, 1, on="n1")
    owner = job("b", 1, ask(extra={AMD: 2}), queue="y")
    outcome = schedule(
        node("n1", extra={AMD: 4}), queue("x", gpus=2), queue("y", gpus=2), lends, owner
    )
    assert len(outcome.evicted) == 1


def test_waiting_gpus_of_every_resource_are_in_the_queue_status():
    there = node("n1", extra={HALF: 1}, labels=A100_40)
    outcome = outcome_of(cluster(there, job("a", 2, ask(extra={HALF: 1}))))
    assert queue_numbers(outcome.cluster, outcome.plan)[TEAM].waiting_milli == 1000


def test_time_on_every_gpu_resource_counts_as_usage():
    runs = job("a", 1, ask(extra={HALF: 1})).runs(0, on="n1")
    there = cluster(node("n1", extra={HALF: 2}, labels=A100_40), runs)
    there.advance(100)
    assert there.usage_of(TEAM) == pytest.approx(50_000, rel=0.01)


def shared_node() -> Node:
    labels = gfd("Tesla-T4-SHARED", 15_360) | REPLICAS
    return node_of(kube_node("n1", 8, labels=labels))


def test_time_sliced_gpus_are_charged_by_their_part_until_the_limit():
    jobs = [job(f"a{at}", 1, ask(1)) for at in range(8)]
    outcome = schedule(shared_node(), queue(TEAM, limit_gpus=1), *jobs)
    assert len(outcome.places) == 4
    assert (allocated(outcome), allocated(outcome, "gpu/T4-16GB")) == (1000, 1000)
    columns = outcome.carried_out().columns
    assert (columns.capacity()["gpu"], columns.free_gpu()) == (2000, 1000)


def test_a_limit_holds_if_gpus_are_shared_on_some_nodes_only():
    team = queue(TEAM, limit={"gpu": 500})
    outcome = schedule(shared_node(), node("n2", 8), team, job("a", 2, ask(1)))
    assert set(outcome.places.values()) == {"n1"}
    assert allocated(outcome) == 500
