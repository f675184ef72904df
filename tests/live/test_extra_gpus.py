"""GPUs under other names than nvidia.com/gpu, on a real control plane: queues are charged too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from windlass.crds.definitions import QUEUE
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_nodes.nodes import NODES

LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.replicas": "4",
}
ASKED = {
    "amd": ("amd.com/gpu", 1),
    "intel": ("gpu.intel.com/i915", 1),
    "mig": ("nvidia.com/mig-3g.20gb", 1),
    "shared": ("nvidia.com/gpu.shared", 2),
}
"""Pods, and how many of which resource they ask for: 1, 1, 0.5 and 0.5 GPUs."""


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=1, team=0) as made:
        offers = {name: "4" for name, _ in ASKED.values()}
        node = f"{NODES}/{made.key}-0"
        await made.api.patch(node, {"metadata": {"labels": LABELS}})
        await made.api.patch(
            f"{node}/status", {"status": {"capacity": offers} | {"allocatable": offers}}
        )
        yield made


async def test_a_queue_without_gpus_runs_none_under_any_name_until_its_limit_is_raised(
    made: Scene,
) -> None:
    await limit(made, "0")
    await made.leading()
    for name, (resource, amount) in ASKED.items():
        await pod(made, name, resource, amount)
    await made.wait_condition("", len(ASKED), "QueueFull")
    assert not any(each["spec"].get("nodeName") for each in await made.pods())
    assert all("may never have more than 0" in message_of(each) for each in await made.pods())
    await limit(made, "3")
    await made.wait_running(*((name, 1) for name in ASKED))
    found = await wait_allocated(made, "3")
    assert found["gpuModels"] == {"A100-40GB": "1", "unknown": "2"}


def message_of(pod: dict[str, Any]) -> str:
    """Why it waits, in words."""
    conditions = pod["status"].get("conditions", [])
    return next(each["message"] for each in conditions if each["type"] == "PodScheduled")


async def limit(made: Scene, gpus: str) -> None:
    await made.api.patch(QUEUE.path(f"{made.key}-team"), {"spec": {"limit": {"gpu": gpus}}})


async def pod(made: Scene, name: str, resource: str, amount: int) -> None:
    """A pod that asks for a resource; it may borrow, since it can be preempted."""
    container = {"name": "main", "image": "none", "resources": {"limits": {resource: str(amount)}}}
    labels = {"windlass.dev/queue": f"{made.key}-team", "windlass.dev/preemptible": "true"}
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "windlass",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }
    await made.api.post(made.path(), body)


async def wait_allocated(made: Scene, gpus: str) -> dict[str, Any]:
    """Wait until the status of the queue tells so many GPUs; all that it tells."""

    async def allocated() -> dict[str, Any] | None:
        status = (await made.get(QUEUE.path(f"{made.key}-team"))).get("status", {})
        found = status.get("allocated", {})
        return found if str(found.get("gpu")) == gpus else None

    return await wait_until(allocated, f"the queue has {gpus} GPUs")
