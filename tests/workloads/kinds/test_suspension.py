"""The suspension of owners: which kinds can be suspended, and the gang that they recreate."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.kube_given import KEY, Json, Reading, marked, node
from windlass.config.job_kinds import OwnKind, kinds_of
from windlass.engine.preemption.graceful_eviction import sibling_evictions
from windlass.kube.ingest.scope import Scope
from windlass.kube.refs import OwnerSwitch
from windlass.kube.writers.disruption_budgets import allow
from windlass.kube.writers.evictor import EvictionRates
from windlass.model.actions import Evict, EvictionRule
from windlass.model.jobs import TaskState
from windlass.workloads.kinds.suspension import SuspensionMark
from windlass.workloads.kinds.table import KINDS, Key, Kinds
from windlass.workloads.manifests.expand import ClusterDefaults, expand_manifests
from windlass.workloads.objects import wire

TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}}
SIZE = 3
JOB = {"completionMode": "Indexed", "parallelism": SIZE, "completions": SIZE, "template": TEMPLATE}
RUN = {"kind": "Run", "group": "ml.dev", "version": "v1", "plural": "runs"}
OWN = kinds_of([OwnKind.model_validate(RUN | {"size": ["spec.replicas"], "suspend": "spec.off"})])


def roles(field: str, **counts: int) -> Json:
    return {field: {name: {"replicas": n, "template": TEMPLATE} for name, n in counts.items()}}


def replicated(name: str, count: int, **more: Any) -> Json:
    spec = JOB | {"parallelism": count, "completions": count}
    return {"name": name, "replicas": 1, "template": {"spec": spec}, **more}


CLUSTER = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"replicas": SIZE - 1, "template": TEMPLATE}],
}
JOBSET: Json = {"replicatedJobs": [replicated("driver", 1), replicated("workers", SIZE - 1)]}
OF_THREE: dict[str, tuple[str, Json, str]] = {
    "Job": ("batch/v1", JOB, "spec.suspend"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", JOBSET, "spec.suspend"),
    "PyTorchJob": (
        "kubeflow.org/v1",
        roles("pytorchReplicaSpecs", Master=1, Worker=2),
        "spec.runPolicy.suspend",
    ),
    "TFJob": ("kubeflow.org/v1", roles("tfReplicaSpecs", Worker=3), "spec.runPolicy.suspend"),
    "MPIJob": (
        "kubeflow.org/v2beta1",
        roles("mpiReplicaSpecs", Launcher=1, Worker=2),
        "spec.runPolicy.suspend",
    ),
    "RayCluster": ("ray.io/v1", CLUSTER, "spec.suspend"),
    "Run": ("ml.dev/v1", {"replicas": SIZE, "template": TEMPLATE}, "spec.off"),
}


class Running:
    """An owner whose pods run."""

    def __init__(self, kind: str, api: str, spec: Json, above: wire.Owner | None = None) -> None:
        self.there = Reading(node("n1"), scope=Scope(kinds=OWN, seal=KEY))
        manifest = {"kind": kind, "apiVersion": api, "metadata": {"name": "x"}, "spec": spec}
        terms = ClusterDefaults("ml", "windlass", "2026-01-01T00:00:00Z", {}, OWN)
        found = expand_manifests([manifest], terms)
        self.key, self.owner = found.owners[0]
        if above is not None:
            self.owner = below(self.owner, above)
            self.there.apply(self.there.translator.owner_seen(TRAIN_JOB, above))
        for key, owner in [(self.key, self.owner), *found.owners[1:]]:
            self.there.apply(self.there.translator.owner_seen(key, owner))
        self.pods = [on_node(each) for each in found.pods]
        self.there.see(*self.pods)

    @property
    def gangs(self) -> set[str]:
        return {str(each) for each in self.there.cluster.gangs}

    def switch(self) -> OwnerSwitch | None:
        (gang,) = self.there.cluster.gangs
        return self.there.translator.switch(gang, set(self.there.cluster.tasks))

    def suspend(self, key: Key, owner: wire.Owner, kinds: Kinds = OWN) -> None:
        """Its controller deletes the pods, and the owner is marked."""
        self.there.apply(
            self.there.translator.owner_seen(key, suspended(owner, kinds[key].suspend))
        )
        for each in self.pods:
            self.there.apply(self.there.translator.pod_gone(each))


TRAIN_JOB = Key("TrainJob", "trainer.kubeflow.org")
TRAIN = wire.Owner(wire.ObjectMeta(name="t", namespace="ml", uid="t-uid"), {"runtimeRef": {}})


def below(owner: wire.Owner, above: wire.Owner) -> wire.Owner:
    ref = wire.OwnerRef("TrainJob", "t", above.metadata.uid, "trainer.kubeflow.org/v1alpha1", True)
    meta = msgspec.structs.replace(owner.metadata, owner_references=[ref])
    return msgspec.structs.replace(owner, metadata=meta)


def on_node(pod: wire.Pod) -> wire.Pod:
    spec = msgspec.structs.replace(pod.spec, node_name="n1")
    meta = msgspec.structs.replace(pod.metadata, uid=f"real-{pod.metadata.uid}")
    return wire.Pod(meta, spec, wire.PodStatus(phase="Running"))


def suspended(owner: wire.Owner, field: str) -> wire.Owner:
    *way, last = field.split(".")[1:]
    spec = dict(owner.spec)
    inner = spec
    for step in way:
        inner[step] = inner = dict(inner.get(step, {}))
    inner[last] = True
    notes = marked(owner.metadata.uid, SuspensionMark(at=1, gainer="ml/other"))
    meta = msgspec.structs.replace(owner.metadata, annotations=notes)
    return msgspec.structs.replace(owner, metadata=meta, spec=spec)


@pytest.mark.parametrize("kind", OF_THREE)
def test_a_resumed_owner_creates_the_same_gang(kind: str):
    api, spec, field = OF_THREE[kind]
    running = Running(kind, api, spec)
    before = running.gangs
    path = f"/apis/{api}/namespaces/ml/{kind.lower()}s/x"
    assert running.switch() == OwnerSwitch(path, running.owner.metadata.uid, field)
    running.suspend(running.key, running.owner)
    assert running.gangs == before
    states = [task.state for task in running.there.cluster.tasks.values()]
    assert states == [TaskState.WAITING] * SIZE


def test_of_nested_owners_the_topmost_is_suspended():
    running = Running("JobSet", "jobset.x-k8s.io/v1alpha2", JOBSET, TRAIN)
    before = running.gangs
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/t"
    assert running.switch() == OwnerSwitch(path, "t-uid", "spec.suspend")
    running.suspend(TRAIN_JOB, TRAIN)
    assert running.gangs == before
    assert len(running.there.cluster.tasks) == SIZE


def test_an_owner_seen_after_its_suspended_owner_waits_too():
    there = Reading(scope=Scope(kinds=OWN, seal=KEY))
    there.apply(there.translator.owner_seen(TRAIN_JOB, suspended(TRAIN, "spec.suspend")))
    assert not there.cluster.tasks
    known = Running("JobSet", "jobset.x-k8s.io/v1alpha2", JOBSET, TRAIN)
    there.apply(there.translator.owner_seen(known.key, known.owner))
    assert len(there.cluster.tasks) == SIZE


@pytest.mark.parametrize(
    ("kind", "api", "spec"),
    [
        ("RayJob", "ray.io/v1", {"rayClusterSpec": CLUSTER}),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {"replicas": 1}),
    ],
)
def test_gangs_of_owners_that_cannot_be_suspended_are_evicted(kind: str, api: str, spec: Json):
    both = {"workerTemplate": TEMPLATE, "size": SIZE}
    running = Running(kind, api, spec | {"leaderWorkerTemplate": both})
    assert running.switch() is None


def test_an_owner_is_not_suspended_while_another_of_its_gangs_keeps_running():
    first, then = replicated("data", 1), replicated("node", 2, dependsOn=[{"name": "data"}])
    running = Running("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [first, then]})
    gang, _ = sorted(running.there.cluster.gangs)
    leaving = {task.id for task in running.there.cluster.members(gang)}
    assert running.there.translator.switch(gang, leaving) is None


def test_a_restarted_job_set_is_resumed_with_its_restart_attempt():
    running = Running("JobSet", "jobset.x-k8s.io/v1alpha2", JOBSET)
    restarted = msgspec.structs.replace(running.owner, status={"restarts": 2})
    running.suspend(running.key, restarted)
    (gang,) = running.gangs
    assert gang.startswith("ml/x.2~")


def test_every_kind_with_a_suspend_field_is_tested_here():
    with_field = {key.kind for key, row in KINDS.items() if row.suspend}
    assert with_field == {*OF_THREE, "TrainJob", "XGBoostJob", "JAXJob"} - {"Run"}


# --- budgets and rates ----------------------------------------------------------------------------


def test_disruption_budgets_are_checked_for_all_pods_of_a_gang_together():
    selector = {"matchLabels": {"app": "a"}}
    one = wire.Owner(spec={"selector": selector}, status={"disruptionsAllowed": 1})
    assert allow([one], [{"app": "a"}, {"app": "b"}])
    assert not allow([one], [{"app": "a"}, {"app": "a"}])
    assert not allow([wire.Owner(spec={"selector": selector})], [{"app": "a"}])


def test_the_eviction_rate_counts_every_pod_of_a_suspended_gang():
    rates = EvictionRates(per_minute=4)
    assert rates.wait_s("q", 0.0, 3) == 0
    assert rates.wait_s("q", 10.0, 2) == 50
    assert rates.wait_s("q", 10.0) == 0
    assert rates.wait_s("other", 10.0, 9) == 0  # above the cap, if no other pod was evicted


# --- owners of several gangs ----------------------------------------------------------------------

JOB_SETS = "jobset.x-k8s.io/v1alpha2"
AFTER_DATA = [
    replicated("data", 1),
    replicated("node", 2, dependsOn=[{"name": "data", "status": "Complete"}]),
]
IN_ORDER: Json = {
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
    "replicatedJobs": [replicated("driver", 1), replicated("node", 2)],
}


def of_set(running: Running, name: str) -> list[wire.Pod]:
    label = "jobset.sigs.k8s.io/replicatedjob-name"
    return [each for each in running.pods if (each.metadata.labels or {}).get(label) == name]


def test_a_job_set_with_finished_jobs_is_suspended_for_its_running_gang():
    running = Running("JobSet", JOB_SETS, {"replicatedJobs": AFTER_DATA})
    for each in of_set(running, "data"):
        running.there.apply(running.there.translator.pod_gone(each))
    switch = running.switch()
    assert switch is not None
    assert switch.path.endswith("/jobsets/x")


def test_a_suspended_job_set_waits_with_the_jobs_it_creates_when_resumed():
    running = Running("JobSet", JOB_SETS, {"replicatedJobs": AFTER_DATA})
    done = {"replicatedJobsStatus": [{"name": "data", "succeeded": 1}]}
    running.suspend(running.key, msgspec.structs.replace(running.owner, status=done))
    (gang,) = running.gangs
    assert (gang.split("~")[0], len(running.there.cluster.tasks)) == ("ml/x.node.0", 2)


def test_a_suspended_job_set_in_order_waits_with_its_first_job():
    running = Running("JobSet", JOB_SETS, IN_ORDER)
    running.suspend(running.key, running.owner)
    (gang,) = running.gangs
    assert (gang.split("~")[0], len(running.there.cluster.tasks)) == ("ml/x.driver.0", 1)


def test_all_gangs_of_one_owner_are_suspended_together():
    running = Running("JobSet", JOB_SETS, IN_ORDER)
    cluster, translator = running.there.cluster, running.there.translator
    driver, workers = sorted(cluster.gangs)
    leaving = [Evict(task.id, EvictionRule.LEAVING) for task in cluster.members(workers)]
    more = sibling_evictions(cluster, leaving)
    assert [each.task for each in more] == [task.id for task in cluster.members(driver)]
    tasks = {each.task for each in (*leaving, *more)}
    assert translator.switch(workers, tasks) == translator.switch(driver, tasks) != None  # noqa: E711


def test_shrinking_a_gang_evicts_no_other_gang_of_its_owner():
    running = Running("JobSet", JOB_SETS, IN_ORDER)
    cluster = running.there.cluster
    _, workers = sorted(cluster.gangs)
    first, *_ = cluster.members(workers)
    assert sibling_evictions(cluster, [Evict(first.id, EvictionRule.SHARE)]) == []
