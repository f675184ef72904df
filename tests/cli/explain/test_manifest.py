"""`windlass explain --before`: the answer about a job before it is submitted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.refused_jobs import REFUSED, TAKEN
from windlass.cli import main
from windlass.workloads.kinds.table import KINDS
from windlass.workloads.manifests.expand import ROWS

CLUSTER = """
name: two nodes, half full
nodes: [{name: n, count: 2, cpu: 64, memory: 512Gi, gpus: {model: A100-80GB, count: 4}}]
queues: [{name: team}, {name: others}]
settings: {displacing: []}
jobs: [{name: old, queue: others, gpus: 4}]
"""
Json = dict[str, Any]


class Explain:
    """Runs `windlass explain --before` on documents, in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capture, self._folder = capture, folder
        (folder / "cluster.yaml").write_text(CLUSTER)

    def __call__(self, *documents: Json | str, status: int = 0) -> str:
        out, err = self._run(documents, (), status)
        return " ".join((err if status else out).split())

    def gangs(self, *documents: Json | str) -> list[Json]:
        return json.loads(self._run(documents, ("--json",), 0)[0])["gangs"]

    def _run(
        self, documents: tuple[Json | str, ...], more: tuple[str, ...], status: int
    ) -> tuple[str, str]:
        file, text = self._folder / "job.yaml", [_text(document) for document in documents]
        file.write_text("---\n".join(text))
        where = ("--scenario", str(self._folder / "cluster.yaml"), "--at", "1m")
        with pytest.raises(SystemExit) as left:
            main(("explain", "--before", str(file), *where, *more))
        out, err = self._capture.readouterr()
        assert (left.value.code or 0) == status, err
        return out, err


def _text(document: Json | str) -> str:
    return document if isinstance(document, str) else yaml.safe_dump(document)


@pytest.fixture(name="explain")
def explain_fixture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Explain:
    return Explain(capsys, tmp_path)


def template(gpus: int = 1, **labels: str) -> Json:
    """Return a pod template with amounts as users write them: as numbers, and only as limits."""
    wants = {"limits": {"nvidia.com/gpu": gpus, "cpu": 2, "memory": "1Gi"}}
    spec = {"schedulerName": "windlass", "containers": [{"name": "main", "resources": wants}]}
    return {"metadata": {"labels": {"windlass.dev/queue": "team"} | labels}, "spec": spec}


def manifest(kind: str, api: str, spec: Json) -> Json:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def job(pods: int, gpus: int = 1, **fields: Any) -> Json:
    at_once = {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
    return manifest("Job", "batch/v1", at_once | {"template": template(gpus)} | fields)


def replicas(**roles: int) -> Json:
    return {role: {"replicas": count, "template": template()} for role, count in roles.items()}


def ray(workers: int) -> Json:
    group = {"groupName": "w", "replicas": workers, "template": template()}
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}


INDEXED = job(2)["spec"]
GANGS_OF_FOUR = {
    "Job": job(4),
    "CronJob": manifest("CronJob", "batch/v1", {"jobTemplate": {"spec": job(4)["spec"]}}),
    "JobSet": manifest(
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": INDEXED}}]},
    ),
    "PyTorchJob": manifest(
        "PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas(Master=1, Worker=3)}
    ),
    "TFJob": manifest("TFJob", "kubeflow.org/v1", {"tfReplicaSpecs": replicas(Chief=1, Worker=3)}),
    "XGBoostJob": manifest(
        "XGBoostJob", "kubeflow.org/v1", {"xgbReplicaSpecs": replicas(Master=1, Worker=3)}
    ),
    "JAXJob": manifest("JAXJob", "kubeflow.org/v1", {"jaxReplicaSpecs": replicas(Worker=4)}),
    "MPIJob": manifest(
        "MPIJob", "kubeflow.org/v2beta1", {"mpiReplicaSpecs": replicas(Launcher=1, Worker=3)}
    ),
    "RayCluster": manifest("RayCluster", "ray.io/v1", ray(3)),
    "RayJob": manifest("RayJob", "ray.io/v1", {"rayClusterSpec": ray(3), "backoffLimit": 1}),
    "LeaderWorkerSet": manifest(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        {"replicas": 1, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template()}},
    ),
}
EACH_ALONE = {
    "Deployment": manifest("Deployment", "apps/v1", {"replicas": 2, "template": template()}),
    "ReplicaSet": manifest("ReplicaSet", "apps/v1", {"replicas": 2, "template": template()}),
    "StatefulSet": manifest("StatefulSet", "apps/v1", {"replicas": 2, "template": template()}),
    "ReplicationController": manifest(
        "ReplicationController", "v1", {"replicas": 2, "template": template()}
    ),
}


@pytest.mark.parametrize("kind", GANGS_OF_FOUR)
def test_a_manifest_is_explained_as_the_gang_that_it_would_be(explain: Explain, kind: str):
    (gang,) = explain.gangs(GANGS_OF_FOUR[kind])
    assert (gang["state"], gang["tasks_needed"], gang["queue"]) == ("Starts", 4, "team")
    assert len(gang["places"]) == 4
    assert all("GPU" in place["devices"] for place in gang["places"])


@pytest.mark.parametrize("kind", EACH_ALONE)
def test_independent_pods_are_explained_one_by_one(explain: Explain, kind: str):
    gangs = explain.gangs(EACH_ALONE[kind])
    assert [(gang["state"], gang["tasks_needed"]) for gang in gangs] == [("Starts", 1)] * 2


def test_every_kind_of_the_table_can_be_explained():
    kinds = {key.kind for key in ROWS}
    assert kinds == {*GANGS_OF_FOUR, *EACH_ALONE}
    # The pods of a DaemonSet depend on the nodes, those of a TrainJob on a runtime elsewhere.
    assert {key.kind for key in KINDS} - kinds == {"DaemonSet", "TrainJob"}


def test_pods_with_a_gang_object_are_one_gang(explain: Explain):
    gang = manifest("Gang", "windlass.dev/v1alpha1", {"minimum": 2, "queue": "team"})
    marks = {"windlass.dev/gang": "x", "windlass.dev/preemptible": "true"}
    pods = [
        {"apiVersion": "v1", "kind": "Pod"}
        | template()
        | {"metadata": {"name": f"x-{at}", "labels": marks}}
        for at in range(2)
    ]
    (found,) = explain.gangs(gang, *pods)
    assert (found["state"], found["tasks_needed"], len(found["places"])) == ("Starts", 2, 2)


def test_a_job_that_would_wait_gets_reasons_and_suggestions(explain: Explain):
    answer = explain(job(2, gpus=3))
    assert answer.startswith("default/x waits for 2 tasks, number 1 of 1 in line")
    assert "- It needs room for 2 tasks of 3 GPUs, 2 CPU, 1 GiB at once; there is" in answer
    assert "- It would start at once with 2 GPUs per task instead of 3." in answer
    assert "- It would start at once with a minimum of 1 task instead of 2." in answer
    assert "if old (queue others, 4 GPUs) stopped, which it may not displace now" in answer


def test_a_job_in_the_format_of_scenarios_is_taken_as_it_is(explain: Explain):
    answer = explain("{name: new, queue: team, tasks: 5, gpus: 1}")
    assert answer.startswith("new waits for 5 tasks")
    assert "with a minimum of 4 tasks instead of 5" in answer
    both = "jobs: [{name: one, queue: team, gpus: 2}, {name: two, queue: team, gpus: 2}]"
    assert [gang["state"] for gang in explain.gangs(both)] == ["Starts", "Starts"]


def test_nothing_is_submitted(explain: Explain):
    assert explain(job(4)) == explain(job(4))


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (manifest("Service", "v1", {}), "job.yaml:1: Service makes no pods that can be explained;"),
        (
            manifest("Banana", "fruit.io/v1", {}),
            "Banana.fruit.io makes no pods that can be explained",
        ),
        (
            manifest("DaemonSet", "apps/v1", {}),
            "DaemonSet.apps makes no pods that can be explained",
        ),
        ("# nothing\n", "it is empty; write a manifest of a kind that makes pods, or a job"),
        ("kind: Job\nmetadata: {name: x}\n", "does not say what it is; give it apiVersion and"),
        (manifest("Job", "batch/v1", {"template": {"spec": {"containers": 3}}}), "Job x is not as"),
        ("{name: new, queue: team, gpu: 1}", 'did you mean "gpus"?'),
        ("{name: old, queue: team}", 'there is a job "old" already'),
    ],
)
def test_an_unreadable_document_gives_one_sentence(
    explain: Explain, document: Json | str, complaint: str
):
    assert complaint in explain(document, status=2)


@pytest.mark.parametrize("why", REFUSED)
def test_a_manifest_that_the_api_server_would_refuse_is_refused_with_its_line(
    explain: Explain, why: str
):
    document, complaint = REFUSED[why]
    error = explain(document, status=2)
    assert re.search(rf"job\.yaml:\d+: {re.escape(complaint)}", error), error


@pytest.mark.parametrize("why", TAKEN)
def test_a_manifest_that_the_api_server_would_accept_is_accepted(explain: Explain, why: str):
    assert all(gang["state"] == "Starts" for gang in explain.gangs(TAKEN[why]))


def test_a_repeated_name_is_refused_at_its_second_line(explain: Explain):
    error = explain(job(1), manifest("Service", "v1", {}), job(1), status=2)
    assert "Job.batch default/x occurs twice; rename or remove one" in error
    words = "{name: new, queue: team}\n"
    assert '"new"' in explain(words, words, status=2)


def test_kinds_without_pods_are_named(explain: Explain):
    answer = explain(job(1), manifest("Service", "v1", {}), manifest("Jbo", "batch/v1", {}))
    assert answer.startswith("default/x starts now with 1 task")
    assert answer.endswith("Service, Jbo.batch make no pods that can be explained.")


def test_a_gang_object_is_validated(explain: Explain):
    gang = manifest("Gang", "windlass.dev/v1alpha1", {"minimum": "two"})
    assert 'gang "default/x": minimum: it should be a valid integer' in explain(gang, status=2)


def test_lines_are_those_of_the_whole_file(explain: Explain):
    error = explain("---\n# one\n---\n{name: a, queue: team}\n---\n\n{nam: b}\n", status=2)
    assert "job.yaml:7: " in error


def test_either_a_job_or_a_file_must_be_given(capsys: pytest.CaptureFixture[str]):
    for words in ((), ("x", "--before", "y")):
        with pytest.raises(SystemExit) as left:
            main(("explain", *words))
        assert left.value.code == 2
        assert "Give either JOB or --before FILE." in capsys.readouterr().err
