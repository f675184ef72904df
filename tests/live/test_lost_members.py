"""Faults that used to fail a Job for good: a deleted node, a worker that is lost repeatedly.

With WINDLASS_PROOF=1 the worker is lost four times, and a gang waits until it is stale.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, is_running, scene
from windlass.crds.definitions import API_VERSION, POLICY
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_nodes.nodes import NODES

PROOF = os.environ.get("WINDLASS_PROOF") == "1"
LOSSES = 4 if PROOF else 1


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    """Three nodes with 8 GPUs each, all of them guaranteed to one queue."""
    async with scene(plane.api_access(), tmp_path, nodes=3, team=24) as made:
        yield made
        made.check()


async def train(made: Scene, gpus: int, limit: int = 6) -> list[dict[str, Any]]:
    """An Indexed Job of eight pods that forgives few failures; its pods once they run."""
    await made.job("train", 8, gpus, "team")
    path = f"/apis/batch/v1/namespaces/{made.key}/jobs/train"
    await made.api.patch(path, {"spec": {"backoffLimit": limit}})
    await made.wait_running(("train", 8))
    return await made.pods("train")


async def failures(made: Scene) -> int:
    job = await made.get(f"/apis/batch/v1/namespaces/{made.key}/jobs/train")
    assert not [each for each in job["status"].get("conditions", []) if each["type"] == "Failed"]
    return job["status"].get("failed", 0)


async def wait_whole(made: Scene, before: set[str], least: int = 8) -> list[dict[str, Any]]:
    """Wait until eight pods run, at least so many of them others than before."""

    async def whole() -> list[dict[str, Any]] | None:
        pods = [each for each in await made.pods("train") if is_running(each)]
        fresh = [each for each in pods if each["metadata"]["uid"] not in before]
        return pods if len(pods) == 8 and len(fresh) >= least else None

    return await wait_until(whole, "eight pods run")


async def test_a_deleted_node_does_not_fail_the_job(made: Scene) -> None:
    await made.leading()
    pods = await train(made, 2)
    lost = pods[0]["spec"]["nodeName"]
    made.kubelet.lose(lost)
    await made.api.delete(f"{NODES}/{lost}")
    after = await wait_whole(made, {each["metadata"]["uid"] for each in pods})
    assert lost not in {each["spec"]["nodeName"] for each in after}
    assert await failures(made) == 0


async def test_a_worker_that_is_lost_keeps_its_gang_through_the_back_off_of_its_job(
    made: Scene, staleness: None
) -> None:
    await made.leading()
    pods = await train(made, 2)
    others = {each["metadata"]["uid"] for each in pods[1:]}
    for losses in range(1, LOSSES + 1):
        uids = {each["metadata"]["uid"] for each in pods}
        (lost,) = [each for each in pods if each["metadata"]["uid"] not in others]
        await made.delete(lost["metadata"]["name"])
        pods = await wait_whole(made, uids, least=1)
        assert others < {each["metadata"]["uid"] for each in pods}
        assert await failures(made) == losses


@pytest.fixture
async def staleness(made: Scene) -> AsyncIterator[None]:
    """A policy by which a gang below its minimum is given back after a second."""
    body = {"apiVersion": API_VERSION, "kind": "Policy", "metadata": {"name": "default"}}
    await made.api.post(POLICY.path(), body | {"spec": {"staleAfterSeconds": 1}})
    yield
    await made.api.delete(POLICY.path("default"))


if PROOF:  # it takes a minute

    async def test_a_gang_that_cannot_be_whole_again_waits_suspended_and_its_job_lives(
        made: Scene, staleness: None
    ) -> None:
        await made.leading()
        await made.pod("other", 8, "team")
        await made.wait_running(("other", 1))
        pods = await train(made, 2)
        one = pods[0]
        cordon = f"{NODES}/{one['spec']['nodeName']}"
        await made.api.patch(cordon, {"spec": {"unschedulable": True}})
        await made.delete(one["metadata"]["name"])
        await made.wait_gone("train", [each["metadata"]["uid"] for each in pods])
        await made.api.patch(cordon, {"spec": {"unschedulable": False}})
        await wait_whole(made, {each["metadata"]["uid"] for each in pods})
        assert await failures(made) == 1
