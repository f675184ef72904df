"""The real Helm makes the same objects of the chart as `windlass install`, on a cluster too."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.conftest import FindParts
from tests.live.support.kubectl import Kubectl
from windlass.install.apply import NotOurs, Ref, install
from windlass.install.chart import Release, definitions, folder, objects
from windlass.install.values import read_values
from windlass.kube.client.client import connect
from windlass_lab.control_plane.plane import Plane

VALUES = {
    "defaults": {},
    "everything": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rbac": {
            "extraRules": [{"apiGroups": ["my.dev"], "resources": ["runs"], "verbs": ["list"]}]
        },
        "config": {"default_queue": "a<b>&c", "namespaces": ["a"], "lease": {"duration_s": 30}},
        "image": {
            "repository": "example.com/windlass",
            "tag": "v9",
            "pullSecrets": [{"name": "s"}],
        },
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "resources": {"limits": None},
    },
    "history": {"history": {"enabled": True, "secret": "mine"}},
    "history in a file": {"history": {"enabled": True}, "replicas": 1},
    "least": {
        "webhook": {"enabled": False},
        "policy": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "crds": {"install": False},
    },
}


class Helm:
    """The real one."""

    def __init__(self, path: Path, home: Path) -> None:
        self._path = path
        self._environment = {"HOME": str(home)}  # it keeps caches and settings there

    def __call__(self, *words: str | Path) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [self._path, *words]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def helm(find_parts: FindParts, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(find_parts(["helm"])["helm"].path, tmp_path_factory.mktemp("helm"))


def by_ref(found: list[dict[str, Any]]) -> dict[Ref, dict[str, Any]]:
    return {Ref.of(each): each for each in found}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_makes_the_same_objects_of_the_chart(
    helm: Helm, values: dict[str, Any], tmp_path: Path
):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    words = ("-n", "there", "-f", file, "--kube-version", "1.36.0")
    theirs = yaml.safe_load_all(helm("template", "mine", folder(), *words))
    read = read_values([str(file)])
    ours = definitions(read) + objects(read, Release("mine", "there"), manager="Helm")
    assert by_ref(list(filter(None, theirs))) == by_ref(ours)


def test_helm_finds_nothing_to_complain_about(helm: Helm):
    assert "0 chart(s) failed" in helm("lint", "--strict", folder())


@pytest.mark.parametrize("wrong", ["replicas=0", "typo=1", "config.portt=1", "policy.enabled=5"])
def test_helm_refuses_values_that_cannot_be_used(helm: Helm, wrong: str):
    done = helm.run("template", folder(), "--kube-version", "1.36.0", "--set", wrong)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_helm_demands_a_database_for_the_history_of_several_replicas(helm: Helm):
    words = ("template", folder(), "--kube-version", "1.36.0", "--set", "history.enabled=true")
    by_schema = helm.run(*words)
    assert by_schema.returncode != 0
    assert "/history/secret" in by_schema.stderr
    by_template = helm.run(*words, "--skip-schema-validation")
    assert by_template.returncode != 0
    assert "name a Secret with the URL of a PostgreSQL in history.secret" in by_template.stderr


async def test_a_release_of_helm_is_upgraded_and_uninstalled_by_helm(
    helm: Helm, plane: Plane, kubectl: Kubectl
):
    to_plane = ("--kubeconfig", plane.kubeconfig, "-n", "helmed")
    # other tests may have made the definitions already
    helm("install", "helmed", folder(), "--create-namespace", "--take-ownership", *to_plane)
    assert kubectl.get("deployment", "-n", "helmed")["items"]
    async with connect(plane.api_access()) as api:
        with pytest.raises(NotOurs, match="is managed by Helm; use helm for it"):
            await install(api, read_values(), Release("helmed", "helmed"), print)
    helm("upgrade", "helmed", folder(), "--set", "webhook.enabled=false", *to_plane)
    names = [
        each["metadata"]["name"] for each in kubectl.get("deployment", "-n", "helmed")["items"]
    ]
    assert names == ["helmed-scheduler"]
    helm("uninstall", "helmed", *to_plane)
    left = "clusterrole,validatingadmissionpolicy,mutatingwebhookconfiguration"
    assert kubectl.get(left, "-l", "app.kubernetes.io/instance=helmed")["items"] == []
    assert kubectl.get("crd", "queues.windlass.dev")  # with it all queues would go
    kubectl("delete", "namespace", "helmed", "--wait=false")
