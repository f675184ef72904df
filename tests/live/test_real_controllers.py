"""Jobs of other projects start whole with their real controllers, on nodes that are played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.controllers import Controllers
from tests.live.foreign_jobs import (
    events_that_say,
    job_set,
    leader_worker_set,
    pods_of,
    replicated_job,
    train_job,
    training_runtime,
)
from tests.live.scene import Scene, scene


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


@pytest.mark.usefixtures("trainer")
async def test_a_train_job_starts_whole_once_its_initializer_is_done(made: Scene) -> None:
    fetch, node = pods_of(made, "team", 0, runs_for="1s"), pods_of(made, "team", 0)
    await training_runtime(made, "torch", fetch, node)
    await train_job(made, "tune", "torch", nodes=3, gpus=8)
    await made.wait_running(("tune-node", 3))
    initializers = await made.pods("tune-dataset-initializer")
    assert [pod["status"]["phase"] for pod in initializers] == ["Succeeded"]
    assert await events_that_say(made, "3 pods start on ")
