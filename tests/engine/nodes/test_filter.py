"""Whether one task fits one node: capacity, cordon, packing and spreading."""

import pytest

from tests.given import GIB, USUAL, ask, job, node, outcome_of, schedule
from windlass.model.events import GangSeen, NodeSeen, TaskSeen
from windlass.model.jobs import TaskState
from windlass.model.settings import Packing, Settings

SPREAD = Settings(nodes=Packing.SPREAD)


def test_a_task_starts_on_a_node_that_has_just_enough():
    outcome = schedule(
        node("n1", gpus=1, cpu_milli=4000, memory_mib=8 * GIB, pods=1),
        job("a", 1, ask(gpus=1, cpu=4000, memory=8 * GIB)),
    )
    assert outcome.places == {"a-0": "n1"}


@pytest.mark.parametrize(
    "request_",
    [
        ask(cpu=4001),
        ask(memory=8 * GIB + 1),
        ask(gpus=2),
        ask(gpus=1, milli=500, models=("T4",)),
        ask(extra={"nic": 2}),
        ask(extra={"licence": 1}),
    ],
    ids=["cpu", "memory", "gpus", "model", "extra", "an extra no node has"],
)
def test_a_task_with_one_request_too_large_does_not_start(request_):
    small = node("n1", gpus=1, cpu_milli=4000, memory_mib=8 * GIB, extra={"nic": 1})
    assert schedule(small, job("a", 1, request_)).nothing_of("a")


def test_a_task_without_requests_takes_a_pod_slot():
    full = job("old").runs(0, on="n1")
    assert schedule(node("n1", pods=1), full, job("a")).nothing_of("a")


def test_capacity_of_running_tasks_is_not_allocated_again():
    busy = job("old", 1, ask(gpus=1, cpu=3000)).runs(0, on="n1", devices=[0])
    outcome = schedule(node("n1", gpus=2, cpu_milli=4000), busy, job("a", 1, ask(1, cpu=1001)))
    assert outcome.nothing_of("a")


@pytest.mark.parametrize("state", [TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING])
def test_a_task_occupies_its_node_until_it_is_gone(state):
    old = job("old", 1, ask(gpus=1)).runs(0, on="n1", devices=[0]).become(0, state=state)
    assert not schedule(node("n1", gpus=1), old, job("a", 1, ask(gpus=1))).started("a")


@pytest.mark.parametrize("succeeded", [True, False])
def test_a_task_that_ended_leaves_its_place_to_others(succeeded):
    old = job("old", 1, ask(gpus=1)).runs(0, on="n1", devices=[0]).ended(0, succeeded=succeeded)
    outcome = schedule(node("n1", gpus=1), old, job("a", 1, ask(gpus=1)))
    assert outcome.places == {"a-0": "n1"}


def test_a_cordoned_node_takes_no_new_task():
    assert schedule(node("n1", gpus=1, cordoned=True), job("a", 1, ask(1))).nothing_of("a")


def test_a_task_goes_to_the_next_node_if_one_is_cordoned():
    outcome = schedule(node("n1", cordoned=True), node("n2"), job("a"))
    assert outcome.places == {"a-0": "n2"}


def test_an_overcommitted_node_takes_no_more_tasks():
    crowd = job("old", 2, ask(cpu=3000)).runs(0, 1, on="n1")
    outcome = schedule(node("n1", cpu_milli=4000), crowd, job("a", 1, ask(cpu=1)))
    assert outcome.nothing_of("a")


def test_a_task_without_gpus_starts_on_a_node_without_gpus():
    assert schedule(node("n1"), job("a", 1, ask(cpu=1))).places == {"a-0": "n1"}


def test_an_extra_resource_runs_out_like_any_other():
    outcome = schedule(
        node("n1", extra={"nic": 2}), *(job(f"j{i}", 1, ask(extra={"nic": 1})) for i in range(3))
    )
    assert sorted(outcome.places) == ["j0-0", "j1-0"]


def test_a_cluster_without_nodes_starts_nothing():
    assert schedule(job("a")).nothing_of("a")


def test_by_default_tasks_are_packed_on_used_nodes():
    busy = job("old", 1, ask(gpus=1, cpu=1000)).runs(0, on="n2", devices=[0])
    outcome = schedule(
        node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=4), busy, job("a", 1, ask(1))
    )
    assert outcome.places == {"a-0": "n2"}


def test_a_running_task_stays_when_its_node_loses_a_resource_it_requested():
    cluster = schedule(
        node("n1", gpus=1, extra={"nic": 1}), job("old", 1, ask(gpus=1, extra={"nic": 1}))
    ).carried_out()
    cluster.apply(NodeSeen(node("n1", gpus=1)))
    late = job("a", 1, ask(gpus=1))
    cluster.apply(GangSeen(late.gang))
    cluster.apply(TaskSeen(late.tasks[0]))
    assert outcome_of(cluster).nothing_of("a")


def test_a_node_that_lost_a_device_in_use_still_serves_with_the_others():
    cluster = schedule(node("n1", gpus=2), job("old", 2, ask(gpus=1))).carried_out()
    cluster.apply(NodeSeen(node("n1", gpus=1)))
    late = job("a", 1, ask(cpu=1))
    cluster.apply(GangSeen(late.gang))
    cluster.apply(TaskSeen(late.tasks[0]))
    assert outcome_of(cluster).places == {"a-0": "n1"}


def test_spreading_sends_work_to_the_emptiest_node():
    busy = job("old", 1, ask(gpus=1)).runs(0, on="n1", devices=[0])
    outcome = schedule(
        node("n1", gpus=4), node("n2", gpus=4), busy, job("a", 1, ask(1)), settings=SPREAD
    )
    assert outcome.places == {"a-0": "n2"}


@pytest.mark.parametrize("settings", [USUAL, SPREAD], ids=["pack", "spread"])
def test_tasks_without_gpus_avoid_nodes_with_gpus(settings):
    outcome = schedule(node("n1", gpus=1), node("n2"), job("a", 1, ask(cpu=1)), settings=settings)
    assert outcome.places == {"a-0": "n2"}


def test_spreading_uses_gpu_nodes_for_tasks_without_gpus_too():
    busy = job("old", 1, ask(cpu=32_000)).runs(0, on="n1")
    nodes = node("n1", gpus=1), node("n2", gpus=1)
    outcome = schedule(*nodes, busy, job("a", 1, ask(cpu=1000)), settings=SPREAD)
    assert outcome.places == {"a-0": "n2"}
