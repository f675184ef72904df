"""The chart in the hands of those who call Helm themselves, and releases that Helm did not make."""

from __future__ import annotations

import gzip
import json
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.conftest import FindParts
from tests.live.support.installation import helm_for
from tests.live.support.kubectl import Kubectl
from windlass.install.apply import OWNER, NotDone, NotOurs, Ref, install, installed, uninstall
from windlass.install.chart import Release, folder
from windlass.install.chart import namespace as namespace_of
from windlass.install.helm_program import HelmProgram
from windlass.install.values import overrides
from windlass.kube.client.client import Api, Patch, connect
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


@pytest.fixture(scope="module")
def program(plane: Plane, find_parts: FindParts) -> HelmProgram:
    """The Helm that `windlass install` uses, with the way to the plane."""
    return helm_for(plane, find_parts)


def by_ref(objects: list[dict[str, Any]]) -> dict[Ref, dict[str, Any]]:
    return {Ref.of(thing): thing for thing in objects}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
async def test_values_mean_the_same_to_helm_and_to_the_command(
    helm: Helm, program: HelmProgram, values: dict[str, Any], tmp_path: Path
):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    words = ("-n", "there", "-f", file, "--kube-version", "1.36.0")
    theirs = yaml.safe_load_all(helm("template", "mine", folder(), *words))
    ours = await program.render(overrides([str(file)]), Release("mine", "there"))
    assert by_ref(list(filter(None, theirs))) == by_ref(ours)
    assert ours


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


def deployments(kubectl: Kubectl, namespace: str) -> list[str]:
    there = kubectl.get("deployment", "-n", namespace)["items"]
    return [each["metadata"]["name"] for each in there]


async def test_a_release_is_upgraded_by_helm_and_by_the_command_in_turn(
    helm: Helm, program: HelmProgram, plane: Plane, kubectl: Kubectl
):
    to_plane = ("--kubeconfig", plane.kubeconfig, "-n", "helmed")
    release = Release("helmed", "helmed")
    # other tests may have made the definitions already
    helm("install", "helmed", folder(), "--create-namespace", "--take-ownership", *to_plane)
    assert deployments(kubectl, "helmed") == ["helmed-scheduler", "helmed-webhook"]
    async with connect(plane.api_access()) as api:
        await install(api, program, {"webhook": {"enabled": False}}, release, print)
        assert deployments(kubectl, "helmed") == ["helmed-scheduler"]
        helm("upgrade", "helmed", folder(), "--set", "replicas=3", *to_plane)
        assert deployments(kubectl, "helmed") == ["helmed-scheduler", "helmed-webhook"]
        await install(api, program, {}, release, print)  # no values: the defaults, not the last
        scheduler = kubectl.get("deployment", "-n", "helmed", "helmed-scheduler")
        assert scheduler["spec"]["replicas"] == 2
    helm("uninstall", "helmed", *to_plane)
    left = "clusterrole,validatingadmissionpolicy,mutatingwebhookconfiguration"
    assert kubectl.get(left, "-l", "app.kubernetes.io/instance=helmed")["items"] == []
    assert kubectl.get("crd", "queues.windlass.dev")  # with it all queues would go
    kubectl("delete", "namespace", "helmed", "--wait=false")


async def test_releases_share_the_definitions_and_uninstalling_one_keeps_them(
    program: HelmProgram, plane: Plane, kubectl: Kubectl
):
    one, two = Release("one", "sharing-one"), Release("two", "sharing-two")
    said: list[str] = []
    async with connect(plane.api_access()) as api:
        await install(api, program, {}, one, print)
        kubectl(
            *("patch", "crd", "queues.windlass.dev", "--type=json", "-p"),
            '[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]',
        )
        await install(api, program, {}, two, print)
        version = kubectl.get("crd", "queues.windlass.dev")["spec"]["versions"][0]
        assert version["additionalPrinterColumns"]  # the definitions are upgraded
        await uninstall(api, program, two, said.append)
        assert 'kept the definitions of custom resources: release "one" uses them' in said
        assert kubectl.get("crd", "queues.windlass.dev")
        await install(api, program, {}, one, print)
        await uninstall(api, program, one, print, keep_queues=True)
        assert kubectl.get("crd", "queues.windlass.dev")


CHART = """\
apiVersion: v2
name: something
version: 1.0.0
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: precious, namespace: "{{ .Release.Namespace }}"}
"""


async def test_a_release_of_something_else_is_neither_replaced_nor_uninstalled(
    helm: Helm, program: HelmProgram, plane: Plane, namespace: str, kubectl: Kubectl, tmp_path: Path
):
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(CHART)
    (tmp_path / "templates" / "config.yaml").write_text(CONFIG_MAP)
    helm("install", "thing", tmp_path, "-n", namespace, "--kubeconfig", plane.kubeconfig)
    async with connect(plane.api_access()) as api:
        for work in (
            install(api, program, {}, Release("thing", namespace), print),
            uninstall(api, program, Release("thing", namespace), print),
        ):
            with pytest.raises(NotOurs, match="is one of the chart something; use another --name"):
                await work
    assert kubectl.get("configmap", "-n", namespace, "precious")


async def test_a_release_in_another_namespace_is_neither_taken_over_nor_uninstalled(
    program: HelmProgram, plane: Plane, namespace: str, kubectl: Kubectl
):
    release, other = Release(namespace, namespace), Release(namespace, "other")
    async with connect(plane.api_access()) as api:
        await install(api, program, {"crds": {"install": False}}, release, print)
        for work in (
            install(api, program, {}, other, print),
            uninstall(api, program, other, print),
        ):
            with pytest.raises(NotOurs, match=f'belongs to release "{namespace}" in namespace'):
                await work
        assert kubectl.get("clusterrole", f"{namespace}-scheduler")
        await uninstall(api, program, release, print, keep_queues=True)


async def test_what_another_tool_manages_is_left_to_it(
    program: HelmProgram, plane: Plane, namespace: str, kubectl: Kubectl
):
    release = Release("windlass", namespace)
    (scheduler,) = (
        thing
        for thing in await program.render({}, release)
        if Ref.of(thing) == Ref("apps/v1", "Deployment", namespace, "windlass-scheduler")
    )
    scheduler["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Tiller"
    kubectl("create", "-f", "-", given=scheduler)
    async with connect(plane.api_access()) as api:
        with pytest.raises(NotOurs, match="is managed by Tiller; use tiller for it"):
            await install(api, program, {}, release, print)


async def test_after_helm_was_killed_one_sentence_says_what_to_do(
    program: HelmProgram, plane: Plane, namespace: str, kubectl: Kubectl
):
    release, values = Release(namespace, namespace), {"crds": {"install": False}}
    async with connect(plane.api_access()) as api:
        await install(api, program, values, release, print)
        await install(api, program, values, release, print)
        secret = f"sh.helm.release.v1.{namespace}.v2"
        kubectl("label", "secret", "-n", namespace, secret, "status=pending-upgrade", "--overwrite")
        stored = kubectl.get("secret", "-n", namespace, secret)["data"]["release"]
        kubectl(
            *("patch", "secret", "-n", namespace, secret, "-p"),
            json.dumps({"data": {"release": pending(stored)}}),
        )
        with pytest.raises(NotDone) as told:
            await install(api, program, values, release, print)
        advice = f"kubectl -n {namespace} delete secret {secret}"
        assert f"`{advice}`" in str(told.value)
        kubectl(*advice.split()[1:])
        await install(api, program, values, release, print)
        await uninstall(api, program, release, print, keep_queues=True)


def pending(stored: str) -> str:
    """Helm's record of a release as it is while Helm is at work."""
    record = json.loads(gzip.decompress(b64decode(b64decode(stored))))
    record["info"]["status"] = "pending-upgrade"
    return b64encode(b64encode(gzip.compress(json.dumps(record).encode()))).decode()


# --- releases that Helm did not make ---


async def apply_without_helm(
    api: Api, program: HelmProgram, release: Release, values: dict[str, Any]
) -> list[Ref]:
    """What `windlass install` did before it called Helm."""
    own = namespace_of(release)
    objects = await program.render({**values, "crds": {"install": False}}, release)
    for thing in [own, *objects]:
        thing["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "windlass"
        how = {"fieldManager": "windlass-install", "force": "true"}
        await api.patch(Ref.of(thing).path, thing, kind=Patch.APPLY, params=how)
    return [Ref.of(thing) for thing in objects]


async def test_a_release_that_helm_did_not_make_is_handed_over_to_helm(
    helm: Helm, program: HelmProgram, plane: Plane, namespace: str, kubectl: Kubectl
):
    release = Release(f"old-{namespace}", f"old-{namespace}")
    to_plane = ("--kubeconfig", plane.kubeconfig, "-n", release.namespace)
    history = {"history": {"enabled": True, "secret": "mine"}}
    said: list[str] = []
    async with connect(plane.api_access()) as api:
        await apply_without_helm(api, program, release, history)
        secret = f"/api/v1/namespaces/{release.namespace}/secrets/{release.name}-signing-key"
        await api.patch(secret, {"data": {"key": "a2V5"}})
        kubectl("label", "namespace", release.namespace, "kept=yes")
        deployment = ("deployment", "-n", release.namespace, f"{release.name}-scheduler")
        uid = kubectl.get(*deployment)["metadata"]["uid"]

        await install(api, program, {"crds": {"install": False}}, release, said.append)
        assert f"deleted NetworkPolicy {release.namespace}/{release.name}-history" in said
        scheduler = kubectl.get(*deployment)
        assert scheduler["metadata"]["uid"] == uid
        assert scheduler["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        container = scheduler["spec"]["template"]["spec"]["containers"][0]
        assert "WINDLASS_HISTORY_URL" not in {each["name"] for each in container["env"]}
        key = kubectl.get("secret", "-n", release.namespace, f"{release.name}-signing-key")
        assert key["data"] == {"key": "a2V5"}
        assert "deployed" in helm("status", release.name, *to_plane)
        there = await installed(api, release)
        names = {thing["metadata"]["annotations"][OWNER[0]] for thing in there.values()}
        assert names == {release.name}

        helm("upgrade", release.name, folder(), "--set", "crds.install=false", *to_plane)
        await uninstall(api, program, release, said.append, keep_queues=True)
        assert await installed(api, release) == {}
    assert f"deleted Namespace {release.namespace}" in said


async def test_a_release_that_helm_did_not_make_is_uninstalled(
    program: HelmProgram, plane: Plane, namespace: str, kubectl: Kubectl
):
    release = Release(f"old-{namespace}", f"old-{namespace}")
    said: list[str] = []
    async with connect(plane.api_access()) as api:
        refs = await apply_without_helm(api, program, release, {})
        assert set(await installed(api, release)) == set(refs)
        await uninstall(api, program, release, said.append, keep_queues=True)
        assert await installed(api, release) == {}
    assert {f"deleted {ref}" for ref in refs} <= set(said)
    assert said.index(f"deleted MutatingWebhookConfiguration {release.name}") == 0
