"""`windlass submit`: the Job and Service of a command whose pods start together."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from tests.support.kube_given import NAMESPACE, Stage, node, pod, queue
from windlass.cli import main
from windlass.workloads.manifests.submit import SubmitRequest, job_of, longest_name, service_of
from windlass.workloads.objects import wire

TRAIN = SubmitRequest(
    "train", "ml", "train:1", ("torchrun", "train.py"), count=4, gpus=8, queue="team"
)


def container(request: SubmitRequest) -> dict[str, Any]:
    (result,) = job_of(request)["spec"]["template"]["spec"]["containers"]
    return result


def variables(request: SubmitRequest) -> dict[str, str]:
    """Return the environment; `#` for a variable that holds the index of the pod."""
    env = container(request).get("env", ())
    return {variable["name"]: variable.get("value", "#") for variable in env}


def test_the_job_is_a_gang_of_all_its_pods():
    written = job_of(TRAIN) | {"status": {}}
    written["metadata"] |= {"uid": "u", "namespace": NAMESPACE}
    owner = msgspec.json.decode(json.dumps(written), type=wire.Owner)
    template = written["spec"]["template"]
    labels = template["metadata"]["labels"]
    pods = [pod(f"train-{i}", 8, owner=owner, labels=labels) for i in range(4)]
    stage = Stage(queue("team", NAMESPACE), node("n1", 24), owner, *pods)
    assert stage.step().bound == {}
    stage.see(node("n2", 8))
    assert set(stage.step().bound) == {"train-0", "train-1", "train-2", "train-3"}


def test_torchrun_finds_the_other_pods_without_arguments():
    assert variables(TRAIN) == {
        "MASTER_ADDR": "train-0.train",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "4",
        "PET_MASTER_ADDR": "train-0.train",
        "PET_MASTER_PORT": "29500",
        "PET_NNODES": "4",
        "PET_NPROC_PER_NODE": "8",
        "RANK": "#",
        "PET_NODE_RANK": "#",
    }


def test_the_service_gives_pod_0_the_name_in_the_variables():
    service = service_of(TRAIN)
    spec = job_of(TRAIN)["spec"]["template"]["spec"]
    assert service is not None
    assert service["metadata"]["name"] == spec["subdomain"] == "train"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]


def test_a_single_pod_has_no_service():
    alone = SubmitRequest("one", "ml", "i", ("python", "x.py"), gpus=1)
    assert service_of(alone) is None
    assert variables(alone) == {"PET_NPROC_PER_NODE": "1"}
    assert "subdomain" not in job_of(alone)["spec"]["template"]["spec"]


def test_variables_of_the_user_override_generated_ones():
    own = {"MASTER_PORT": "1", "RANK": "7", "X": "y"}
    found = variables(SubmitRequest("t", "ml", "i", ("a",), count=2, env=own))
    assert {name: found[name] for name in own} == own


def test_an_eviction_does_not_count_as_a_failure_of_the_job():
    spec = job_of(TRAIN)["spec"]
    assert spec["backoffLimit"] == 0
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")


def test_a_pod_without_gpus_has_no_gpu_request_and_toleration():
    plain = SubmitRequest("t", "ml", "i", ("a",), cpu="2")
    assert container(plain)["resources"] == {"requests": {"cpu": "2"}}
    assert "tolerations" not in job_of(plain)["spec"]["template"]["spec"]


def test_the_longest_name_leaves_room_for_the_index_of_a_pod():
    assert longest_name(10) == 61
    assert longest_name(11) == 60


class Terminal:
    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["submit", "--image", "i", *words])
        out, err = self._capture.readouterr()
        return int(left.value.code or 0), out, err


@pytest.fixture(name="submit")
def submit_fixture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Terminal:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return Terminal(capsys)


def test_the_manifests_are_printed_without_a_cluster(submit: Terminal):
    status, out, err = submit(
        "--print", "--count", "2", "-n", "ml", "--", "torchrun", "--x", "t.py"
    )
    job, service = yaml.safe_load_all(out)
    assert (status, err) == (0, "")
    assert job["metadata"]["name"] == service["metadata"]["name"]
    assert job["metadata"]["name"].startswith("torchrun-")
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][1:] == ["--x", "t.py"]


def test_submitting_without_a_cluster_fails(submit: Terminal):
    status, out, err = submit("--", "a")
    assert (status, out) == (2, "")
    assert err.startswith("No way to an API server was found")


@pytest.mark.parametrize(
    "words",
    [
        ["--name", "9lives", "--", "a"],
        ["--name", "x" * 62, "--", "a"],
        ["--duration", "soon", "--", "a"],
        ["--max-run", "0s", "--", "a"],
        ["--cpu", "-3", "--", "a"],
        ["--memory", "much", "--", "a"],
        ["--env", "novalue", "--", "a"],
        ["--count", "0", "--", "a"],
        [],
    ],
)
def test_invalid_options_give_a_usage_error(submit: Terminal, words: list[str]):
    status, out, err = submit("--print", *words)
    assert (status, out) == (2, "")
    assert "Error: " in err
