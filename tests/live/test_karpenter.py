"""Gangs that wait for nodes which the real Karpenter buys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.controllers import Controllers
from tests.live.karpenter import node_claims, node_pool
from tests.live.scene import Scene, scene

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
