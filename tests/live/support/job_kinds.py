"""How each kind of job comes about: objects, owners, labels and the order of its pods.

`play` does what the kind's controller does after a user has submitted the job `x`; it goes on for
as long as that has something to wait for. `again` does what a restart does. All are of four pods.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.live.support.fake_controller import Json, Troupe
from windlass.model.units import format_timestamp

SIZE = 4
KUBEFLOW = "training.kubeflow.org/"
JOBSET = "jobset.sigs.k8s.io/"
RAY = "ray.io/"
LWS = "leaderworkerset.sigs.k8s.io/"
ENDS = {"fake.windlass.dev/runs-for": "1s"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """One kind of job."""

    play: Callable[[Troupe], Awaitable[object]]
    again: Callable[[Troupe], Awaitable[object]]
    is_gang: bool = True
    is_read: bool = True
    """Its owner is read before its pods are placed."""
    more: int = 0
    """Pods besides the gang's."""

    @property
    def count(self) -> int:
        return SIZE + self.more


async def lose_a_pod(troupe: Troupe) -> str:
    """One pod is deleted, say by an eviction; its controller makes another."""
    name = (await troupe.pods())[-1]["metadata"]["name"]
    await troupe.delete("Pod", name)
    return name


# --- Kubernetes' own kinds


async def pods(troupe: Troupe) -> None:
    for number in range(SIZE):
        await bare_pod(troupe, f"x-{number}")


async def bare_pod(troupe: Troupe, name: str) -> None:
    labels = {"windlass.dev/gang": "x", "windlass.dev/minimum": str(SIZE)}
    await troupe.pod(name, None, **labels)


async def pods_again(troupe: Troupe) -> None:
    await bare_pod(troupe, f"{await lose_a_pod(troupe)}-again")


async def job(troupe: Troupe) -> None:
    await troupe.make("Job", "x", troupe.indexed(SIZE))


async def cron_job(troupe: Troupe) -> None:
    """Its last run was a while ago, so that the real controller finds one due at once."""
    template = {"spec": troupe.indexed(SIZE)}
    once = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": template}
    await troupe.make("CronJob", "x", once)
    before = {"lastScheduleTime": format_timestamp(time.time() - 90)}
    await troupe.api.patch(f"{troupe.path('CronJob', 'x')}/status", {"status": before})


async def deployment(troupe: Troupe) -> None:
    await troupe.make("Deployment", "x", replicated(troupe))


async def replica_set(troupe: Troupe) -> None:
    await troupe.make("ReplicaSet", "x", replicated(troupe))


async def stateful_set(troupe: Troupe) -> None:
    spec = {"serviceName": "x", "podManagementPolicy": "Parallel"}
    await troupe.make("StatefulSet", "x", replicated(troupe) | spec)


def replicated(troupe: Troupe, count: int = SIZE, **labels: str) -> Json:
    labels |= {"app": "x"}
    template = troupe.template("Always", **labels)
    return {"replicas": count, "selector": {"matchLabels": labels}, "template": template}


async def roll_out(troupe: Troupe) -> None:
    """`kubectl rollout restart`: another ReplicaSet takes over, pod by pod."""
    template = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
    await troupe.change("Deployment", "x", {"template": template})


# --- JobSet, TrainJob


async def job_set(troupe: Troupe, attempt: str = "0") -> None:
    jobs = [replicated_job(troupe, "driver", 1), replicated_job(troupe, "workers", SIZE - 1)]
    made = await troupe.make("JobSet", "x", {"replicatedJobs": jobs})
    for each in jobs:
        await job_of_set(troupe, made, each, attempt)


def replicated_job(troupe: Troupe, name: str, count: int, **more: object) -> Json:
    return {"name": name, "replicas": 1, "template": {"spec": troupe.indexed(count)}} | more


async def job_of_set(troupe: Troupe, above: Json, replicated: Json, attempt: str) -> None:
    labels = {
        JOBSET + "jobset-name": "x",
        JOBSET + "replicatedjob-name": replicated["name"],
        JOBSET + "job-index": "0",
        JOBSET + "restart-attempt": attempt,
    }
    spec = replicated["template"]["spec"]
    template = spec["template"]
    template["metadata"]["labels"] = labels
    await troupe.make("Job", f"x-{replicated['name']}-0", spec, above, **labels)


async def job_set_again(troupe: Troupe) -> None:
    """A Job has failed: all of them are deleted and made anew."""
    made = await troupe.scene.get(troupe.path("JobSet", "x"))
    for each in made["spec"]["replicatedJobs"]:
        await troupe.remove("Job", f"x-{each['name']}-0")
    for each in made["spec"]["replicatedJobs"]:
        await job_of_set(troupe, made, each, "1")


async def train_job(troupe: Troupe) -> None:
    """The node Job depends on an initializer, and is made when that has ended."""
    above = await troupe.make("TrainJob", "x", {"trainer": {"numNodes": SIZE}})
    after = [{"name": "dataset-initializer", "status": "Complete"}]
    first = replicated_job(troupe, "dataset-initializer", 1)
    first["template"]["spec"]["template"]["metadata"]["annotations"] = ENDS
    node = replicated_job(troupe, "node", SIZE, dependsOn=after)
    made = await troupe.make("JobSet", "x", {"replicatedJobs": [first, node]}, above)
    await job_of_set(troupe, made, first, "0")
    await troupe.wait_succeeded("x-dataset-initializer-0")
    await job_of_set(troupe, made, node, "0")


# --- Kubeflow


def training(kind: str, field: str, **roles: int) -> Recipe:
    async def play(troupe: Troupe) -> None:
        replicas = {role: {"replicas": count} for role, count in roles.items()}
        made = await troupe.make(kind, "x", {field: replicas})
        for role, count in roles.items():
            for number in range(count):
                await replica(troupe, made, role, number)

    async def again(troupe: Troupe) -> None:
        """A pod of the same name takes the place of one that was lost."""
        made = await troupe.scene.get(troupe.path(kind, "x"))
        await troupe.remove("Pod", "x-worker-0")
        await replica(troupe, made, "Worker", 0)

    return Recipe(play, again)


async def replica(troupe: Troupe, above: Json, role: str, number: int) -> None:
    labels = {
        KUBEFLOW + "job-name": "x",
        KUBEFLOW + "replica-type": role.lower(),
        KUBEFLOW + "replica-index": str(number),
    }
    await troupe.pod(f"x-{role.lower()}-{number}", above, **labels)


async def mpi_job(troupe: Troupe) -> None:
    """Workers belong to the MPIJob, the launcher to a Job of it."""
    replicas = {"Launcher": {"replicas": 1}, "Worker": {"replicas": SIZE - 1}}
    made = await troupe.make("MPIJob", "x", {"mpiReplicaSpecs": replicas})
    for number in range(SIZE - 1):
        await replica(troupe, made, "Worker", number)
    await launcher(troupe, made)


async def launcher(troupe: Troupe, above: Json) -> None:
    labels = {KUBEFLOW + "job-name": "x", KUBEFLOW + "job-role": "launcher"}
    spec = {"backoffLimit": 6, "template": troupe.template(**labels)}
    await troupe.make("Job", "x-launcher", spec, above)


async def launch_again(troupe: Troupe) -> None:
    """The launcher has failed; its Job makes another."""
    found = [each for each in await troupe.pods() if "launcher" in each["metadata"]["name"]]
    await troupe.delete("Pod", found[0]["metadata"]["name"])


# --- Ray


async def ray_cluster(troupe: Troupe, name: str = "x", above: Json | None = None) -> None:
    group = {"groupName": "gpu", "replicas": SIZE - 1, "minReplicas": 0}
    made = await troupe.make("RayCluster", name, {"workerGroupSpecs": [group]}, above)
    await ray_pod(troupe, made, f"{name}-head", "head")
    for number in range(SIZE - 1):
        await ray_pod(troupe, made, f"{name}-gpu-worker-{number}", "worker")


async def ray_pod(troupe: Troupe, above: Json, name: str, kind: str) -> None:
    labels = {RAY + "cluster": above["metadata"]["name"], RAY + "node-type": kind}
    await troupe.pod(name, above, **labels)


async def ray_cluster_again(troupe: Troupe) -> None:
    """A worker is lost; another one has another name."""
    made = await troupe.scene.get(troupe.path("RayCluster", "x"))
    await troupe.remove("Pod", "x-gpu-worker-0")
    await ray_pod(troupe, made, "x-gpu-worker-9", "worker")


async def ray_job(troupe: Troupe) -> None:
    """The submitter is made once the cluster is ready."""
    made = await troupe.make("RayJob", "x", {"backoffLimit": 1})
    await ray_cluster(troupe, "x-1", made)
    await troupe.wait_running(SIZE)
    spec = {"backoffLimit": 0, "template": troupe.template()}
    await troupe.make("Job", "x-submit", spec, made)


async def ray_job_again(troupe: Troupe) -> None:
    """It has failed and is tried again: with another cluster."""
    made = await troupe.scene.get(troupe.path("RayJob", "x"))
    await troupe.delete("RayCluster", "x-1")
    for each in [each["metadata"]["name"] for each in await troupe.pods()]:
        if each.startswith("x-1-"):
            await troupe.remove("Pod", each)
    await ray_cluster(troupe, "x-2", made)


# --- LeaderWorkerSet


async def leader_worker_set(troupe: Troupe) -> None:
    """A StatefulSet of leaders, and one of workers that belongs to the leader's pod."""
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": SIZE}}
    made = await troupe.make("LeaderWorkerSet", "x", spec)
    leaders = replicated(troupe, 1, **group_labels("0"))
    await troupe.make("StatefulSet", "x", leaders | {"serviceName": "x"}, made)
    await workers(troupe)


async def workers(troupe: Troupe) -> None:
    leader = await troupe.wait_pod("x-0")
    spec = replicated(troupe, SIZE - 1, **group_labels("worker"))
    spec |= {"ordinals": {"start": 1}, "podManagementPolicy": "Parallel", "serviceName": "x"}
    await troupe.make("StatefulSet", "x-0", spec, leader)


def group_labels(worker: str) -> dict[str, str]:
    """Its webhook would number the workers; their StatefulSet alone gives all the same labels."""
    return {LWS + "name": "x", LWS + "group-index": "0", LWS + "worker-index": worker}


async def recreate_group(troupe: Troupe) -> None:
    """The leader is lost: its workers go with it, and all come back."""
    await troupe.remove("Pod", "x-0")
    await troupe.wait_gone("StatefulSet", "x-0")
    await workers(troupe)


RECIPES = {
    "Pod": Recipe(pods, pods_again, is_read=False),
    "Job": Recipe(job, lose_a_pod),
    "CronJob": Recipe(cron_job, lose_a_pod),
    "Deployment": Recipe(deployment, roll_out, is_gang=False, is_read=False),
    "ReplicaSet": Recipe(replica_set, lose_a_pod, is_gang=False, is_read=False),
    "StatefulSet": Recipe(stateful_set, lose_a_pod, is_gang=False, is_read=False),
    "JobSet": Recipe(job_set, job_set_again),
    "TrainJob": Recipe(train_job, lose_a_pod),
    "PyTorchJob": training("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=3),
    "TFJob": training("TFJob", "tfReplicaSpecs", Chief=1, PS=1, Worker=2),
    "MPIJob": Recipe(mpi_job, launch_again),
    "RayCluster": Recipe(ray_cluster, ray_cluster_again),
    "RayJob": Recipe(ray_job, ray_job_again, more=1),
    "LeaderWorkerSet": Recipe(leader_worker_set, recreate_group),
}
