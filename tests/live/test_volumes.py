"""A volume that is made for its pod's node: the daemon, the volume controller, and a provisioner.

The provisioner is played here; it does what an external one does.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from windlass.workloads.pods.volumes import SELECTED
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_nodes.labels import GPU

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=2, team=16) as made:
        spec = {"provisioner": "disks.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
        await made.api.post(CLASSES, {"metadata": {"name": made.key}} | spec)
        await made.leading()
        yield made
        made.check()
        await made.api.delete(f"{CLASSES}/{made.key}")


async def test_a_pod_is_bound_once_its_volume_has_been_made_for_its_node(made: Scene) -> None:
    await ask_for_volume(made, "data")
    await pod_with(made, "p", "data")
    node = await wait_selected(made, "data")
    assert "nodeName" not in (await made.get(made.path("p")))["spec"]
    await make_volume(made, "data", node)
    await made.wait_running(("p", 1))
    assert (await made.get(made.path("p")))["spec"]["nodeName"] == node
    await made.api.delete(f"{VOLUMES}/{made.key}")


async def test_a_volume_that_cannot_be_made_is_asked_for_again(made: Scene) -> None:
    await ask_for_volume(made, "data")
    await pod_with(made, "p", "data")
    await wait_selected(made, "data")
    await made.api.patch(claim_path(made, "data"), {"metadata": {"annotations": {SELECTED: None}}})
    await made.daemons[0].wait_said("bind failed")
    await make_volume(made, "data", await wait_selected(made, "data"))
    await made.wait_running(("p", 1))
    await made.api.delete(f"{VOLUMES}/{made.key}")


async def test_a_pod_without_its_claim_says_so_and_starts_when_it_is_there(made: Scene) -> None:
    await pod_with(made, "p", "data")
    await made.wait_condition("p", 1, "Refused")
    await ask_for_volume(made, "data")
    await make_volume(made, "data", await wait_selected(made, "data"))
    await made.wait_running(("p", 1))
    await made.api.delete(f"{VOLUMES}/{made.key}")


def claim_path(made: Scene, name: str = "") -> str:
    return f"/api/v1/namespaces/{made.key}/persistentvolumeclaims/{name}".rstrip("/")


async def ask_for_volume(made: Scene, name: str) -> None:
    spec: dict[str, Any] = {
        "storageClassName": made.key,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await made.api.post(claim_path(made), {"metadata": {"name": name}, "spec": spec})


async def pod_with(made: Scene, name: str, claim: str) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    limits = {"limits": {GPU: "1"}}
    spec: dict[str, Any] = {
        "schedulerName": "windlass",
        "containers": [{"name": "main", "image": "none", "resources": limits}],
        "volumes": [volume],
    }
    meta = {"name": name, "labels": {"windlass.dev/queue": f"{made.key}-team"}}
    await made.api.post(made.path(), {"metadata": meta, "spec": spec})


async def wait_selected(made: Scene, claim: str) -> str:
    """Wait until a claim has been told for which node it is to have a volume."""

    async def selected() -> str:
        found = json.loads(await made.api.get(claim_path(made, claim)))["metadata"]
        return found.get("annotations", {}).get(SELECTED, "")

    return await wait_until(selected, f"a node is selected for claim {claim}")


async def make_volume(made: Scene, claim: str, node: str) -> None:
    """Do as an external provisioner: a volume for this claim, reached from the node."""
    found = json.loads(await made.api.get(claim_path(made, claim)))["metadata"]
    here = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": made.key,
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": made.key, "name": claim, "uid": found["uid"]},
        "csi": {"driver": "disks.example.com", "volumeHandle": made.key},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
    }
    await made.api.post(VOLUMES, {"metadata": {"name": made.key}, "spec": spec})
