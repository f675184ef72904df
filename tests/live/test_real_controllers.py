"""Jobs of other projects start whole with their real controllers, on nodes that are played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.controllers import Controllers
from tests.live.support.foreign_jobs import (
    JOB_SET,
    events_that_say,
    job_set,
    leader_worker_set,
    pods_of,
    replicated_job,
    train_job,
    training_runtime,
)
from tests.live.support.scene import Scene, is_running, scene
from windlass.workloads.kinds.leaders import LWS_EXCLUSIVE
from windlass_lab.fake_nodes.nodes import NODES


@pytest.fixture
async def made(controllers: Controllers, tmp_path: Path) -> AsyncIterator[Scene]:
    """Four nodes of eight GPUs, one queue, and a daemon that leads."""
    access = controllers.plane.api_access()
    async with scene(access, tmp_path, nodes=4, team=32) as made:
        await made.leading()
        yield made
        made.check()


@pytest.mark.usefixtures("jobset")
async def test_a_job_set_of_two_replicated_jobs_starts_whole(made: Scene) -> None:
    leader = replicated_job("leader", pods_of(made, "team", 1))
    workers = replicated_job("workers", pods_of(made, "team", 5), replicas=2, count=2)
    await job_set(made, "train", leader, workers)
    await made.wait_running(("train-leader", 1), ("train-workers", 4))
    assert await events_that_say(made, "5 pods start on ")


@pytest.mark.usefixtures("lws")
async def test_each_group_of_a_leader_worker_set_starts_whole(made: Scene) -> None:
    leader = pods_of(made, "team", 1, restart="Always")
    worker = pods_of(made, "team", 2, restart="Always")
    await leader_worker_set(made, "serve", (leader, worker), groups=2, size=3)
    await made.wait_running(("serve-0", 3), ("serve-1", 3))
    assert len(await events_that_say(made, "3 pods start on ")) >= 2


async def training_runtime_with_initializer(made: Scene) -> None:
    """Submit a runtime named torch, whose initializer runs for a second."""
    fetch, node = pods_of(made, "team", 0, runs_for="1s"), pods_of(made, "team", 0)
    await training_runtime(made, "torch", fetch, node)


@pytest.mark.usefixtures("trainer")
async def test_a_train_job_starts_whole_once_its_initializer_is_done(made: Scene) -> None:
    await training_runtime_with_initializer(made)
    await train_job(made, "tune", "torch", nodes=3, gpus=8)
    await made.wait_running(("tune-node", 3))
    initializers = await made.pods("tune-dataset-initializer")
    assert [pod["status"]["phase"] for pod in initializers] == ["Succeeded"]
    assert await events_that_say(made, "3 pods start on ")


# --- exclusive placement --------------------------------------------------------------------------

HOST = "kubernetes.io/hostname"


async def nodes_of(made: Scene, prefix: str) -> set[str]:
    return {each["spec"]["nodeName"] for each in await made.pods(prefix)}


@pytest.mark.usefixtures("jobset")
async def test_a_job_set_with_exclusive_placement_starts_each_job_on_a_node_of_its_own(
    made: Scene,
) -> None:
    workers = replicated_job("w", pods_of(made, "team", 2), replicas=2, count=3)
    await job_set(made, "train", workers, exclusive=HOST)
    await made.wait_running(("train-w-0", 3), ("train-w-1", 3))
    first, second = [await nodes_of(made, f"train-w-{at}") for at in (0, 1)]
    assert len(first) == len(second) == 1
    assert first != second


@pytest.mark.usefixtures("lws")
async def test_a_worker_set_with_exclusive_placement_starts_each_group_on_a_node_of_its_own(
    made: Scene,
) -> None:
    leader = pods_of(made, "team", 1, restart="Always")
    worker = pods_of(made, "team", 3, restart="Always")
    both = leader, worker
    await leader_worker_set(made, "serve", both, groups=2, size=3, **{LWS_EXCLUSIVE: HOST})
    await made.wait_running(("serve-0", 3), ("serve-1", 3))
    first, second = [await nodes_of(made, f"serve-{at}") for at in (0, 1)]
    assert len(first) == len(second) == 1
    assert first != second


@pytest.mark.usefixtures("jobset")
async def test_no_leader_starts_where_its_followers_have_no_room(made: Scene) -> None:
    for at in range(3):
        await made.pod(f"other-{at}", 6, "team")
    await made.wait_running(("other", 3))
    workers = replicated_job("w", pods_of(made, "team", 2), replicas=2, count=3)
    await job_set(made, "train", workers, exclusive=HOST)
    await made.wait_condition("train-w", 2, "Unschedulable")
    for at in range(3):
        await made.delete(f"other-{at}")
    await made.wait_running(("train-w-0", 3), ("train-w-1", 3))


# --- displaced ------------------------------------------------------------------------------------


async def leave_node(made: Scene, prefix: str, count: int) -> None:
    """Announce that a node of these pods goes; wait until as many others run elsewhere."""
    before = [each for each in await made.pods(prefix) if is_running(each)]
    uids = {each["metadata"]["uid"] for each in before}
    node = before[0]["spec"]["nodeName"]
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await made.api.patch(f"{NODES}/{node}", {"spec": {"taints": [taint]}})

    async def is_elsewhere() -> bool:
        pods = [each for each in await made.pods(prefix) if is_running(each)]
        fresh = [each for each in pods if each["metadata"]["uid"] not in uids]
        return len(fresh) == count and node not in {each["spec"]["nodeName"] for each in fresh}

    await wait_until(is_elsewhere, f"{count} pods of {prefix} run elsewhere than on {node}")


async def is_failed(made: Scene, name: str) -> bool:
    found = await made.get(f"/apis/{JOB_SET}/namespaces/{made.key}/jobsets/{name}")
    return "Failed" in {each["type"] for each in found["status"].get("conditions", [])}


@pytest.mark.usefixtures("jobset")
async def test_a_job_set_whose_jobs_depend_on_each_other_survives_displacement(
    made: Scene,
) -> None:
    first = replicated_job("init", pods_of(made, "team", 1, runs_for="1s"))
    after = [{"name": "init", "status": "Complete"}]
    workers = replicated_job("work", pods_of(made, "team", 1), count=8, dependsOn=after)
    await job_set(made, "train", first, workers)
    await made.wait_running(("train-work", 8))
    await leave_node(made, "train-work", 8)
    assert not await is_failed(made, "train")


@pytest.mark.usefixtures("jobset")
async def test_a_job_set_that_starts_in_order_stops_whole_and_starts_in_order_again(
    made: Scene,
) -> None:
    driver = replicated_job("driver", pods_of(made, "team", 1))
    workers = replicated_job("work", pods_of(made, "team", 4), count=4)
    await job_set(made, "train", driver, workers, in_order=True)
    await made.wait_running(("train-driver", 1), ("train-work", 4))
    old = {each["metadata"]["uid"] for each in await made.pods("train")}
    await leave_node(made, "train-work", 4)
    await made.wait_running(("train-driver", 1), ("train-work", 4))
    assert not old & {each["metadata"]["uid"] for each in await made.pods("train")}
    assert not await is_failed(made, "train")


@pytest.mark.usefixtures("trainer")
async def test_a_train_job_with_an_initializer_survives_displacement(made: Scene) -> None:
    await training_runtime_with_initializer(made)
    await train_job(made, "tune", "torch", nodes=8, gpus=2)
    await made.wait_running(("tune-node", 8))
    await leave_node(made, "tune-node", 8)
    assert not await is_failed(made, "tune")
