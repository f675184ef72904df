"""The gangs of training, inference and Ray jobs, by the specs of their owners."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.kube_given import pod
from windlass.workloads.kinds.eviction_survival import Survives
from windlass.workloads.kinds.table import KINDS, Membership, membership
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import MINIMUM

Json = dict[str, Any]
_owner = msgspec.json.Decoder(wire.Owner)


def owner(name: str, spec: Json, above: Json | None = None) -> wire.Owner:
    meta = {"name": name, "namespace": "ml", "uid": f"{name}-uid"}
    refs = {"ownerReferences": [above]} if above else {}
    return _owner.decode(json.dumps({"metadata": meta | refs, "spec": spec}))


def ref(kind: str, api: str, name: str) -> Json:
    named = {"kind": kind, "apiVersion": api, "name": name, "uid": f"{name}-uid"}
    return named | {"controller": True}


def member(made: wire.Pod, *owners: wire.Owner) -> Membership:
    by_uid = {each.metadata.uid: each for each in owners}
    by_name = {each.metadata.name: each for each in owners}

    def find(asked: wire.OwnerRef, _namespace: str) -> wire.Owner | None:
        return by_uid.get(asked.uid) if asked.uid else by_name.get(asked.name)

    return membership(made, find)


def replicas(**roles: int) -> Json:
    return {role: {"replicas": count} for role, count in roles.items()}


# --- Kubeflow


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs"),
        ("TFJob", "tfReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
    ],
)
def test_all_replicas_of_a_training_job_start_together(kind: str, field: str):
    made = owner("t", {field: replicas(Master=1, Worker=3)})
    found = member(pod("t-worker-0", owner=ref(kind, "kubeflow.org/v1", "t")), made)
    assert (found.gang, found.minimum, found.survives) == ("ml/t~t-uid", 4, Survives.RECREATED)


def test_an_elastic_training_job_starts_with_its_minimum_of_workers():
    spec = {
        "pytorchReplicaSpecs": replicas(Master=1, Worker=8),
        "elasticPolicy": {"minReplicas": 2},
    }
    made = owner("t", spec)
    assert member(pod("p", owner=ref("PyTorchJob", "kubeflow.org/v1", "t")), made).minimum == 3


def test_min_available_overrides_the_size_of_a_training_job():
    policy = {"schedulingPolicy": {"minAvailable": 5}}
    made = owner("t", {"pytorchReplicaSpecs": replicas(Worker=8), "runPolicy": policy})
    assert member(pod("p", owner=ref("PyTorchJob", "kubeflow.org/v1", "t")), made).minimum == 5


def mpi(**spec: Any) -> tuple[wire.Owner, wire.Owner, Json]:
    above = ref("MPIJob", "kubeflow.org/v2beta1", "m")
    made = owner("m", {"mpiReplicaSpecs": replicas(Launcher=1, Worker=4)} | spec)
    return made, owner("m-launcher", {"backoffLimit": 6}, above), above


def test_the_launcher_of_an_mpi_job_is_in_the_gang_of_its_workers():
    made, launching, above = mpi()
    launcher = pod("m-launcher-x", owner=ref("Job", "batch/v1", "m-launcher"))
    worker = pod("m-worker-0", owner=above)
    assert member(launcher, made, launching).gang == member(worker, made).gang == "ml/m~m-uid"
    assert member(worker, made).minimum == 5


def test_a_launcher_that_waits_for_its_workers_is_not_in_their_gang():
    made, launching, above = mpi(launcherCreationPolicy="WaitForWorkersReady")
    role = {"training.kubeflow.org/job-role": "launcher"}
    launcher = pod("m-launcher-x", owner=ref("Job", "batch/v1", "m-launcher"), labels=role)
    assert member(pod("m-worker-0", owner=above), made).minimum == 4
    assert member(launcher, made, launching).minimum == 1


# --- JobSet and TrainJob


def job_of(name: str, count: int, **more: Any) -> Json:
    spec = {"parallelism": count, "completions": count, "completionMode": "Indexed"}
    return {"name": name, "replicas": 2, "template": {"spec": spec}} | more


def in_set(made: wire.Owner, name: str, attempt: str = "0") -> tuple[wire.Pod, wire.Owner]:
    above = ref("JobSet", "jobset.x-k8s.io/v1alpha2", made.metadata.name)
    job = owner(f"{name}-0", {"completionMode": "Indexed", "parallelism": 3}, above)
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": name,
        "jobset.sigs.k8s.io/restart-attempt": attempt,
    }
    named = f"{name}-0-0-{attempt}"
    return pod(named, owner=ref("Job", "batch/v1", f"{name}-0"), labels=labels), job


def test_all_jobs_of_a_job_set_start_together():
    made = owner("s", {"replicatedJobs": [job_of("driver", 1), job_of("workers", 3)]})
    one, job = in_set(made, "driver")
    other, _ = in_set(made, "workers")
    assert member(one, made, job).minimum == 8
    assert member(one, made, job).gang == member(other, made, in_set(made, "workers")[1]).gang


def test_jobs_that_depend_on_others_are_gangs_of_their_own():
    after = [{"name": "data", "status": "Complete"}]
    jobs = [job_of("data", 1), job_of("node", 3, dependsOn=after)]
    made = owner("s", {"replicatedJobs": jobs})
    first, job = in_set(made, "data")
    then, other = in_set(made, "node")
    assert member(first, made, job).minimum == 2
    assert member(then, made, other).minimum == 6
    assert member(first, made, job).gang != member(then, made, other).gang


def test_jobs_with_the_same_dependencies_start_together():
    after = [{"name": "data", "status": "Complete"}]
    jobs = [
        job_of("data", 1),
        job_of("launcher", 1, dependsOn=after),
        job_of("node", 3, dependsOn=after),
    ]
    made = owner("s", {"replicatedJobs": jobs})
    launcher, node = (member(*in_set(made, name), made) for name in ("launcher", "node"))
    assert (launcher.gang, launcher.minimum) == (node.gang, 8)


def test_jobs_of_a_job_set_in_order_are_gangs_of_their_own():
    spec = {"replicatedJobs": [job_of("driver", 1), job_of("workers", 3)]}
    made = owner("s", spec | {"startupPolicy": {"startupPolicyOrder": "InOrder"}})
    assert [member(*in_set(made, name), made).minimum for name in ("driver", "workers")] == [2, 6]


def test_a_restart_of_a_job_set_is_a_new_gang():
    made = owner("s", {"replicatedJobs": [job_of("workers", 3)]})
    before, job = in_set(made, "workers")
    after, _ = in_set(made, "workers", attempt="1")
    assert member(before, made, job).gang != member(after, made, job).gang


def test_a_job_waits_until_its_job_set_is_known():
    made = owner("s", {})
    one, job = in_set(made, "workers")
    found = member(one, job)
    assert found.refusal is not None
    assert "JobSet s" in str(found.refusal)


# --- Ray


def group(name: str, **fields: Any) -> Json:
    return {"groupName": name} | fields


@pytest.mark.parametrize(
    ("spec", "minimum"),
    [
        ({"workerGroupSpecs": [group("a", replicas=3, minReplicas=1)]}, 4),
        ({"workerGroupSpecs": [group("a", replicas=2, numOfHosts=4)]}, 9),
        ({"workerGroupSpecs": [group("a", replicas=2), group("b", replicas=5, suspend=True)]}, 3),
        (
            {
                "enableInTreeAutoscaling": True,
                "workerGroupSpecs": [group("a", replicas=6, minReplicas=1)],
            },
            2,
        ),
        ({"workerGroupSpecs": []}, 1),
    ],
)
def test_a_ray_cluster_starts_with_its_head_and_initial_workers(spec: Json, minimum: int):
    made = owner("r", spec)
    assert member(pod("r-head", owner=ref("RayCluster", "ray.io/v1", "r")), made).minimum == minimum


def test_the_submitter_of_a_ray_job_is_a_gang_of_its_own():
    above = ref("RayJob", "ray.io/v1", "r")
    submitting, ray_job = owner("r-submit", {"backoffLimit": 2}, above), owner("r", {})
    made = pod("r-submit-x", owner=ref("Job", "batch/v1", "r-submit"))
    found = member(made, submitting, ray_job)
    assert (found.minimum, found.refusal) == (1, None)


# --- LeaderWorkerSet


def in_group(index: str, worker: str) -> wire.Pod:
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {f"{prefix}name": "l", f"{prefix}group-index": index, f"{prefix}worker-index": worker}
    maker = ref("StatefulSet", "apps/v1", f"l-{index}")
    return pod(f"l-{index}-{worker}", labels=labels, owner=maker)


def test_each_group_of_a_leader_worker_set_is_a_gang():
    made = owner("l", {"replicas": 2, "leaderWorkerTemplate": {"size": 4}})
    leader, worker, other = in_group("0", "0"), in_group("0", "3"), in_group("1", "0")
    assert member(leader, made).minimum == 4
    assert member(leader, made).gang == member(worker, made).gang
    assert member(leader, made).gang != member(other, made).gang


def test_with_leader_ready_the_leader_is_a_gang_of_its_own():
    spec = {"leaderWorkerTemplate": {"size": 4}, "startupPolicy": "LeaderReady"}
    made = owner("l", spec)
    assert member(in_group("0", "0"), made).minimum == 1
    assert member(in_group("0", "1"), made).minimum == 3


# --- what an eviction does to them

DISRUPTED = {"type": "DisruptionTarget", "status": "True"}
FORGIVING = {"rules": [{"action": "Ignore", "onPodConditions": [DISRUPTED]}]}
ONCE = {"template": {"spec": {"backoffLimit": 0}}}


@pytest.mark.parametrize(
    ("kind", "api", "spec", "survives"),
    [
        ("Job", "batch/v1", {}, Survives.RECREATED),
        ("Job", "batch/v1", {"backoffLimit": 0}, Survives.LOST),
        ("Job", "batch/v1", {"backoffLimitPerIndex": 0}, Survives.LOST),
        (
            "Job",
            "batch/v1",
            {"backoffLimit": 0, "podFailurePolicy": FORGIVING},
            Survives.RECREATED,
        ),
        ("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [ONCE]}, Survives.LOST),
        (
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": [ONCE], "failurePolicy": {"maxRestarts": 3}},
            Survives.RECREATED,
        ),
        (
            "TFJob",
            "kubeflow.org/v1",
            {"tfReplicaSpecs": {"Worker": {"restartPolicy": "Never"}}},
            Survives.LOST,
        ),
        ("MPIJob", "kubeflow.org/v2beta1", {"runPolicy": {"backoffLimit": 0}}, Survives.LOST),
        ("StatefulSet", "apps/v1", {}, Survives.RECREATED),
        ("Sandwich", "food.example.com/v1", {}, Survives.LOST),
    ],
)
def test_pods_survive_an_eviction_if_their_owner_recreates_them(
    kind: str, api: str, spec: Json, survives: Survives
):
    assert member(pod("p", owner=ref(kind, api, "x")), owner("x", spec)).survives is survives


def test_a_ray_job_is_lost_with_its_cluster_unless_it_retries():
    cluster = owner("c", {}, ref("RayJob", "ray.io/v1", "r"))
    head = pod("head", owner=ref("RayCluster", "ray.io/v1", "c"))
    assert member(head, cluster, owner("r", {})).survives is Survives.LOST
    assert member(head, cluster, owner("r", {"backoffLimit": 1})).survives is Survives.RECREATED


# --- priority


def test_a_training_job_can_set_the_priority_class_of_its_gang():
    spec = {"runPolicy": {"schedulingPolicy": {"priorityClass": "high"}}}
    made = pod("p", owner=ref("TFJob", "kubeflow.org/v1", "t"))
    assert member(made, owner("t", spec)).priority_class == "high"
    assert member(made, owner("t", {})).priority_class == ""


# --- all of them


@pytest.mark.parametrize("spec", [{"suspend": True}, {"runPolicy": {"suspend": True}}], ids=str)
def test_pods_of_a_suspended_owner_are_not_placed(spec: Json):
    found = member(pod("p", owner=ref("TFJob", "kubeflow.org/v1", "t")), owner("t", spec))
    assert str(found.refusal) == "its owner, TFJob t, is suspended; resume that to start it"


def test_an_annotation_on_its_pods_makes_a_gang_of_a_stateful_set():
    made = pod("s-0", owner=ref("StatefulSet", "apps/v1", "s"), annotations={MINIMUM: "3"})
    assert (member(made).gang, member(made).minimum) == ("ml/s~s-uid", 3)


@pytest.mark.parametrize(("kind", "group_name"), [tuple(key) for key in KINDS])
def test_an_owner_with_a_malformed_spec_gives_a_gang_of_at_least_one_pod(
    kind: str, group_name: str
):
    made = ref(kind, f"{group_name}/v1", "x")
    odd: list[Json] = [{}, {"replicas": None, "replicatedJobs": 7, "workerGroupSpecs": [None]}]
    odd.append({"parallelism": -3, "completions": 0, "pytorchReplicaSpecs": {"Worker": {}}})
    for spec in odd:
        assert member(pod("p", owner=made), owner("x", spec)).minimum >= 1
