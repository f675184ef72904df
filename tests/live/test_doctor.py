"""`windlass doctor` on a real control plane: what is well, what is not, what is hidden."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.kubectl import Kubectl
from tests.live.support.scene import LABEL, Scene, scene
from tests.live.support.shell import Shell
from windlass_lab.control_plane.plane import Plane


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=2, team=16) as made:
        yield made
        made.check()


async def test_the_doctor_is_content_with_a_plane_where_the_scheduler_works(
    made: Scene, windlass: Shell
) -> None:
    await made.leading()
    await made.job("waits", 3, 8, "team")
    await made.wait_reasons("waits", 3)
    findings = (await windlass("doctor", "--json")).json
    levels = {each["check"]: each["level"] for each in findings}
    assert {levels[name] for name in ("API server", "definitions", "rights", "GPUs")} == {"ok"}
    assert levels["scheduler"] == "ok"
    assert levels["GPU Operator"] == "warn"
    assert all(each["do"] for each in findings if each["level"] != "ok")


async def test_the_doctor_finds_that_nobody_leads_and_what_an_account_may_not_do(
    made: Scene, windlass: Shell
) -> None:
    await made.job("waits", 3, 8, "team")
    await made.wait_there("waits", 3)
    found = await windlass("doctor", "--account", f"{made.key}/default")
    assert found.status == 1
    text = " ".join(found.out.split())
    assert "FAIL scheduler: nobody leads, and pods wait:" in text
    assert "FAIL rights: no right to create pods/binding -> grant it" in text
    assert max(map(len, found.out.splitlines())) <= 80


async def test_the_doctor_finds_an_unhappy_gpu_operator_and_a_plugin_that_is_not_ready(
    made: Scene, windlass: Shell, kubectl: Kubectl
) -> None:
    with defined(kubectl, CLUSTER_POLICIES):
        policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"}
        policy |= {"metadata": {"name": "cluster-policy"}, "status": {"state": "notReady"}}
        kubectl("apply", "-f", "-", given=policy)
        kubectl("-n", made.key, "apply", "-f", "-", given=device_plugin(made))
        wanted = "jsonpath={.status.desiredNumberScheduled}=2"
        kubectl("-n", made.key, "wait", f"--for={wanted}", "daemonset/nvidia-device-plugin")
        found = await windlass("doctor", "--json")
    failed = {each["check"]: each["said"] for each in found.json if each["level"] == "fail"}
    assert found.status == 1
    assert failed["GPU Operator"] == "ClusterPolicy cluster-policy is notReady, not ready"
    place = f"{made.key}/nvidia-device-plugin"
    assert failed["device plug-in"] == f"device plug-in {place} is ready on 0 of 2 nodes"


async def test_the_doctor_says_nothing_about_what_he_may_not_read(
    made: Scene, windlass: Shell, plane: Plane
) -> None:
    nobody = Shell(plane.user_kubeconfig(f"{made.key}-nobody"), windlass.settings)
    found = await nobody("doctor", "--json")
    assert {each["check"] for each in found.json} == {"API server", "rights", "doctor"}
    assert found.status == 1


@contextmanager
def defined(kubectl: Kubectl, definition: dict[str, Any]) -> Iterator[None]:
    """A kind that is there for a while."""
    name = definition["metadata"]["name"]
    kubectl("create", "-f", "-", given=definition)
    try:
        kubectl("wait", "--for=condition=Established", f"crd/{name}")
        yield
    finally:
        kubectl("delete", "crd", name)


CLUSTER_POLICIES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {"kind": "ClusterPolicy", "plural": "clusterpolicies"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def device_plugin(made: Scene) -> dict[str, Any]:
    """A DaemonSet whose pods nobody starts."""
    labels = {"app": "plugin"}
    pod = {
        "nodeSelector": {LABEL: made.key},
        "containers": [{"name": "main", "image": "k8s-device-plugin:v1"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
