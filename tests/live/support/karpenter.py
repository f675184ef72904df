"""Node pools for the real Karpenter, and kubelets for the nodes that it buys.

KWOK, its cloud provider for tests, creates Node objects and nothing behind them. Here the fake
kubelet of a scene adopts each such node: it reports it ready, renews its lease and runs its pods,
until Karpenter deletes the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.live.support.scene import LABEL, Scene
from windlass.kube.client.errors import Conflict
from windlass_lab.fake_kubelet import Machine
from windlass_lab.fake_nodes.labels import GPU, node_labels
from windlass_lab.fake_nodes.nodes import NODES

Json = dict[str, Any]
API_VERSION = "karpenter.sh/v1"
POOLS = f"/apis/{API_VERSION}/nodepools"
CLAIMS = f"/apis/{API_VERSION}/nodeclaims"
CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
BOUGHT = Machine("bought")
"""What every node is that Karpenter buys: eight GPUs."""
LOOKS_AGAIN_S = 0.1


def instance_types() -> list[Json]:
    """Return what KWOK sells, as its file of instance types says it."""
    resources = {
        "cpu": f"{BOUGHT.cpu_milli}m",
        "memory": str(BOUGHT.memory_bytes),
        "ephemeral-storage": "3500Gi",
        "pods": str(BOUGHT.pods),
        GPU: str(BOUGHT.gpus),
    }
    where = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}
    offering = {
        "Price": 98.0,
        "Available": True,
        "Requirements": [_in(key, value) for key, value in where.items()],
    }
    return [
        {
            "name": node_labels(BOUGHT)[INSTANCE_TYPE],
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": resources,
            "offerings": [offering],
        }
    ]


@asynccontextmanager
async def node_pool(made: Scene, *, most_gpus: int, empty_for: str = "1h") -> AsyncIterator[None]:
    """Let Karpenter buy nodes for the scene meanwhile, up to so many GPUs.

    It removes a node that has been empty for this long. At the end the pool is deleted, and
    Karpenter removes its nodes.
    """
    with suppress(Conflict):
        version = CLASSES.removeprefix("/apis/").rpartition("/")[0]
        named = {"apiVersion": version, "kind": CLASS["kind"], "metadata": {"name": CLASS["name"]}}
        await made.api.post(CLASSES, named)
    await made.api.post(POOLS, _pool(made.key, most_gpus, empty_for))
    playing = asyncio.create_task(_play_bought_nodes(made))
    try:
        yield
    finally:
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing
        await made.api.delete(f"{POOLS}/{made.key}")


async def node_claims(made: Scene) -> list[Json]:
    """Return the NodeClaims that Karpenter has made for the scene and not removed yet."""
    claims = (await made.get(CLAIMS))["items"]
    return [claim for claim in claims if _pool_of(claim) == made.key]


async def _play_bought_nodes(made: Scene) -> None:
    """Adopt each new node of the scene's pool, and let go of those that are deleted."""
    adopted: set[str] = set()
    while True:
        nodes = [node for node in (await made.get(NODES))["items"] if _pool_of(node) == made.key]
        there = {node["metadata"]["name"] for node in nodes}
        staying = {
            node["metadata"]["name"]
            for node in nodes
            if "deletionTimestamp" not in node["metadata"]
        }
        for name in sorted(adopted - there):
            await made.kubelet.delete_node(name)
        for name in sorted(staying - adopted):
            await made.kubelet.add(Machine(name))
        adopted = adopted & there | staying
        await asyncio.sleep(LOOKS_AGAIN_S)


def _pool(key: str, most_gpus: int, empty_for: str) -> Json:
    spec = {
        "template": {
            "metadata": {"labels": {LABEL: key}},
            "spec": {
                "requirements": [_in("karpenter.sh/capacity-type", "on-demand")],
                "nodeClassRef": CLASS,
                "expireAfter": "Never",
            },
        },
        "limits": {GPU: str(most_gpus)},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": empty_for},
    }
    meta = {"name": key}
    return {"apiVersion": API_VERSION, "kind": "NodePool", "metadata": meta, "spec": spec}


def _pool_of(thing: Json) -> str | None:
    """Return the name of the pool that a node or a claim belongs to; None if to none."""
    return thing["metadata"].get("labels", {}).get("karpenter.sh/nodepool")


def _in(key: str, value: str) -> Json:
    return {"key": key, "operator": "In", "values": [value]}
