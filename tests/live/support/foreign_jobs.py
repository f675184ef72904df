"""Jobs as people submit them to the real controllers of other projects; see `controllers.py`."""

from __future__ import annotations

from typing import Any

from tests.live.support.scene import Scene
from windlass.workloads.kinds.leaders import JOBSET_EXCLUSIVE
from windlass_lab.fake_nodes.labels import GPU

Json = dict[str, Any]
JOB_SET = "jobset.x-k8s.io/v1alpha2"
LEADER_WORKER_SET = "leaderworkerset.x-k8s.io/v1"
TRAINER = "trainer.kubeflow.org/v1alpha1"


async def job_set(
    made: Scene, name: str, *jobs: Json, exclusive: str = "", in_order: bool = False
) -> None:
    """Submit a JobSet of these replicated jobs.

    `exclusive` names the topology key of which each Job gets a domain of its own.
    """
    spec: Json = {"replicatedJobs": list(jobs)}
    if in_order:
        spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    notes = {JOBSET_EXCLUSIVE: exclusive} if exclusive else {}
    await _submit(made, JOB_SET, "JobSet", name, spec, notes)


def replicated_job(
    name: str, pods: Json, *, replicas: int = 1, count: int = 1, **more: Any
) -> Json:
    """A part of a JobSet: so many Jobs of so many pods each."""
    spec = {"parallelism": count, "completions": count, "template": pods}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


async def leader_worker_set(
    made: Scene, name: str, pods: tuple[Json, Json], groups: int, size: int, **annotations: str
) -> None:
    """Submit a LeaderWorkerSet: templates of the leader and of the workers, and so many groups.

    The size of a group counts its leader.
    """
    leader, worker = pods
    group = {"size": size, "leaderTemplate": leader, "workerTemplate": worker}
    spec = {"replicas": groups, "leaderWorkerTemplate": group}
    await _submit(made, LEADER_WORKER_SET, "LeaderWorkerSet", name, spec, annotations)


async def training_runtime(made: Scene, name: str, initializer: Json, node: Json) -> None:
    """Submit a runtime whose nodes are started once an initializer has fetched the data."""
    before = [{"name": "dataset-initializer", "status": "Complete"}]
    jobs = [
        _step("dataset-initializer", "dataset-initializer", initializer),
        _step("node", "trainer", node) | {"dependsOn": before},
    ]
    spec = {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {"spec": {"replicatedJobs": jobs}},
    }
    await _submit(made, TRAINER, "TrainingRuntime", name, spec)


async def train_job(made: Scene, name: str, runtime: str, *, nodes: int, gpus: int) -> None:
    """Submit a TrainJob of so many nodes with so many GPUs each."""
    asked = {GPU: str(gpus)}
    spec = {
        "runtimeRef": {"kind": "TrainingRuntime", "name": runtime},
        "trainer": {
            "numNodes": nodes,
            "resourcesPerNode": {"limits": asked, "requests": asked},
        },
    }
    await _submit(made, TRAINER, "TrainJob", name, spec)


def pods_of(made: Scene, queue: str, gpus: int, *, restart: str = "Never", **notes: str) -> Json:
    """A pod template for a queue of the scene; the fake kubelet obeys notes (`runs_for="1s"`)."""
    limits = {GPU: str(gpus)} if gpus else {}
    return {
        "metadata": {
            "labels": {"windlass.dev/queue": f"{made.key}-{queue}"},
            "annotations": {
                f"fake.windlass.dev/{key.replace('_', '-')}": value for key, value in notes.items()
            },
        },
        "spec": {
            "schedulerName": "windlass",
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
        },
    }


async def events_that_say(made: Scene, words: str) -> list[Json]:
    """Return the Events of the scene's namespace whose message contains these words."""
    events = (await made.get(f"/api/v1/namespaces/{made.key}/events"))["items"]
    return [event for event in events if words in event.get("message", "")]


def _step(name: str, step: str, pods: Json) -> Json:
    """A replicated job of a runtime; its container is called as the job is."""
    container = pods["spec"]["containers"][0] | {"name": name}
    named = pods | {"spec": pods["spec"] | {"containers": [container]}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
    return {
        "name": name,
        "template": {"metadata": {"labels": labels}, "spec": {"template": named}},
    }


async def _submit(
    made: Scene,
    version: str,
    kind: str,
    name: str,
    spec: Json,
    annotations: dict[str, str] | None = None,
) -> None:
    meta = {"name": name, "annotations": annotations or {}}
    body = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
    await made.api.post(f"/apis/{version}/namespaces/{made.key}/{kind.lower()}s", body)
