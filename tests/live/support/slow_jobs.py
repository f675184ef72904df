"""Jobs whose pods do not come together: who waited for all of them would wait for ever."""

from __future__ import annotations

from tests.live.support.fake_controller import Troupe
from tests.live.support.job_kinds import (
    SIZE,
    Recipe,
    group_labels,
    launcher,
    ray_pod,
    replica,
    replicated,
)
from tests.live.support.job_kinds import workers as workers_of

WORKERS = SIZE - 1


async def late_launcher(troupe: Troupe) -> None:
    """The launcher of an MPIJob is made when its workers run."""
    replicas = {"Launcher": {"replicas": 1}, "Worker": {"replicas": WORKERS}}
    spec = {"mpiReplicaSpecs": replicas, "launcherCreationPolicy": "WaitForWorkersReady"}
    made = await troupe.make("MPIJob", "x", spec)
    for number in range(WORKERS):
        await replica(troupe, made, "Worker", number)
    await troupe.wait_running(WORKERS)
    await launcher(troupe, made)


async def early_leader(troupe: Troupe) -> None:
    """The workers of a LeaderWorkerSet are made when their leader is ready."""
    spec = {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": SIZE}}
    made = await troupe.make("LeaderWorkerSet", "x", spec)
    leaders = replicated(troupe, 1, **group_labels("0")) | {"serviceName": "x"}
    await troupe.make("StatefulSet", "x", leaders, made)
    await troupe.wait_running(1)
    await workers_of(troupe)


async def growing_cluster(troupe: Troupe) -> None:
    """A RayCluster that scales itself asks for more workers once it runs."""
    group = {"groupName": "gpu", "replicas": WORKERS, "minReplicas": 1}
    spec = {"enableInTreeAutoscaling": True, "workerGroupSpecs": [group]}
    made = await troupe.make("RayCluster", "x", spec)
    await ray_pod(troupe, made, "x-head", "head")
    await ray_pod(troupe, made, "x-worker-0", "worker")
    await troupe.wait_running(2)
    for number in range(1, WORKERS):
        await ray_pod(troupe, made, f"x-worker-{number}", "worker")


async def suspended_job(troupe: Troupe) -> None:
    """A queueing tool suspends a running Job, and resumes it."""
    await troupe.make("Job", "x", troupe.indexed(SIZE))
    await troupe.wait_running(SIZE)
    await troupe.change("Job", "x", {"suspend": True})
    await troupe.wait_empty()
    await troupe.change("Job", "x", {"suspend": False})


async def nothing(_troupe: Troupe) -> None:
    """No restart belongs to it."""


TRAPS = {
    "late-launcher": Recipe(late_launcher, nothing),
    "early-leader": Recipe(early_leader, nothing),
    "growing-cluster": Recipe(growing_cluster, nothing),
    "suspended-job": Recipe(suspended_job, nothing),
}
