"""Gangs that wait for nodes which the real Karpenter buys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.controllers import Controllers
from tests.live.support.karpenter import CLAIMS, node_claims, node_pool
from tests.live.support.scene import Scene, is_running, scene

pytestmark = pytest.mark.usefixtures("karpenter")


@pytest.fixture
async def made(controllers: Controllers, tmp_path: Path) -> AsyncIterator[Scene]:
    """No node, one queue, a daemon that leads, and a pool of up to eight nodes."""
    access = controllers.plane.api_access()
    async with scene(access, tmp_path, nodes=0, team=64) as made, node_pool(made, most_gpus=64):
        await made.leading()
        yield made
        made.check()


async def test_a_gang_of_three_makes_karpenter_buy_exactly_three_nodes(made: Scene) -> None:
    await made.job("train", count=3, gpus=8, queue="team")
    await made.wait_running(("train", 3))
    assert len(await node_claims(made)) == 3
    assert len({pod["spec"]["nodeName"] for pod in await made.pods("train")}) == 3


async def test_a_gang_that_lost_a_bought_node_comes_back_on_new_ones(made: Scene) -> None:
    # Karpenter drains none of these pods, so that they leave the node by Windlass alone
    await made.job(
        "train", count=2, gpus=8, queue="team", **{"karpenter.sh/do-not-disrupt": "true"}
    )
    first = set(await made.wait_running(("train", 2)))
    claim, *_ = await node_claims(made)
    await made.api.delete(f"{CLAIMS}/{claim['metadata']['name']}")

    async def is_back() -> bool:
        pods = await made.pods("train")
        fresh = [each for each in pods if each["metadata"]["uid"] not in first]
        return len(fresh) == len(pods) == 2 and all(map(is_running, fresh))

    await wait_until(is_back, "the gang runs again on nodes that were bought for it")
    job = await made.get(f"/apis/batch/v1/namespaces/{made.key}/jobs/train")
    assert job["status"].get("failed", 0) == 0
    assert not job["spec"].get("suspend")
