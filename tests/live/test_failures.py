"""Nodes that leave, are dead or break everything, on a real control plane."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from windlass.daemon.decide.quarantine import CONDITION
from windlass.kube.client import Patch
from windlass.workloads.nodes.health import OUT_OF_SERVICE
from windlass.workloads.objects.annotations import QUARANTINE, TRUSTED
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_kubelet.pod_annotations import EXIT_CODE, RUNS_FOR
from windlass_lab.fake_nodes.nodes import NODES

FAILS = {RUNS_FOR: "200ms", EXIT_CODE: "1"}


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    """Two nodes with 8 GPUs each, all of them guaranteed to one queue."""
    async with scene(plane.api_access(), tmp_path, nodes=2, team=16) as made:
        yield made
        made.check()


async def node_of(made: Scene, prefix: str) -> str:
    """The one node on which these pods are that live."""
    live = [each for each in await made.pods(prefix) if each["status"]["phase"] == "Running"]
    (found,) = {each["spec"]["nodeName"] for each in live}
    return found


async def taint(made: Scene, node: str, key: str, effect: str) -> None:
    await made.api.patch(f"{NODES}/{node}", {"spec": {"taints": [{"key": key, "effect": effect}]}})


async def wait_elsewhere(made: Scene, prefix: str, count: int, before: str) -> None:
    async def is_elsewhere() -> bool:
        pods = [each for each in await made.pods(prefix) if each["status"]["phase"] == "Running"]
        on = [each["spec"].get("nodeName") for each in pods]
        return len(on) == count and before not in on

    await wait_until(is_elsewhere, f"{count} pods of {prefix} run elsewhere than on {before}")


async def test_a_gang_leaves_a_node_that_is_about_to_go(made: Scene) -> None:
    await made.leading()
    await made.job("train", 2, 3, "team")
    await made.wait_running(("train", 2))
    before = await node_of(made, "train")
    await taint(made, before, "karpenter.sh/disrupted", "NoSchedule")
    await wait_elsewhere(made, "train", 2, before)
    assert await node_of(made, "train") != before


async def test_a_pod_that_nobody_can_end_is_deleted_once_its_node_is_out_of_service(
    made: Scene,
) -> None:
    daemon = await made.leading()
    await made.job("train", 1, 1, "team")
    (uid,) = await made.wait_running(("train", 1))
    before = await node_of(made, "train")
    made.kubelet.lose(before)
    await taint(made, before, OUT_OF_SERVICE, "NoSchedule")
    await made.wait_gone("train", [uid])
    await wait_elsewhere(made, "train", 1, before)
    deleted = [call for call in daemon.proxy.calls if str(call).startswith("delete pods ")]
    assert [each.json()["gracePeriodSeconds"] for each in deleted] == [0]


async def test_a_node_on_which_all_fails_is_marked_and_a_successor_and_a_person_mind_it(
    made: Scene,
) -> None:
    first = await made.leading()
    for name in ("x", "y", "z"):
        await made.pod(name, 1, "team", **FAILS)
    (bad,) = {each["spec"]["nodeName"] for each in await wait_failed(made, 3)}
    await wait_annotated(made, bad, QUARANTINE)
    conditions = (await made.get(f"{NODES}/{bad}"))["status"]["conditions"]
    assert [each["status"] for each in conditions if each["type"] == CONDITION] == ["True"]

    first.signal(signal.SIGKILL)
    await first.ended()
    await made.let_pass()
    second = await made.leading()
    await made.pod("a", 1, "team")
    await made.wait_running(("a", 1))
    assert await node_of(made, "a") != bad

    await made.api.patch(f"{NODES}/{bad}", {"metadata": {"annotations": {QUARANTINE: None}}})
    await wait_annotated(made, bad, TRUSTED)
    await second.wait_said("quarantine")
    await made.pod("b", 8, "team")
    await made.wait_running(("b", 1))
    assert await node_of(made, "b") == bad


async def wait_failed(made: Scene, count: int) -> list[dict[str, Any]]:
    async def have_failed() -> list[dict[str, Any]] | None:
        failed = [each for each in await made.pods() if each["status"]["phase"] == "Failed"]
        return failed if len(failed) == count else None

    return await wait_until(have_failed, f"{count} pods have failed")


async def wait_annotated(made: Scene, node: str, key: str) -> None:
    async def is_annotated() -> bool:
        return key in ((await made.get(f"{NODES}/{node}"))["metadata"].get("annotations") or {})

    await wait_until(is_annotated, f"{node} has the annotation {key}")


async def test_a_node_that_was_ill_takes_pods_again_after_a_check_job(made: Scene) -> None:
    ill, well = (f"{made.key}-{at}" for at in (0, 1))
    template = {"spec": made.template(0, "team", {RUNS_FOR: "1s"})["spec"]}
    template["metadata"] = {"annotations": {RUNS_FOR: "1s"}}
    spec = {
        "schedule": "0 0 1 1 *",
        "suspend": True,
        "jobTemplate": {"spec": {"template": template}},
    }
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "check"}}
    await made.api.post(f"/apis/batch/v1/namespaces/{made.key}/cronjobs", body | {"spec": spec})
    await made.leading(node_check_template=f"{made.key}/check")
    await made.pod("a", 8, "team")
    await made.pod("b", 8, "team")
    await made.wait_running(("a", 1), ("b", 1))
    await _say(made, ill, "GPUMissing", "True")
    await wait_annotated(made, ill, QUARANTINE)
    (pod,) = [each for each in await made.pods() if each["spec"]["nodeName"] == ill]
    await made.delete(pod["metadata"]["name"])
    await _say(made, ill, "GPUMissing", "False")
    await wait_annotated(made, ill, TRUSTED)
    jobs = (await made.get(f"/apis/batch/v1/namespaces/{made.key}/jobs"))["items"]
    assert [each["status"].get("succeeded") for each in jobs] == [1]
    await made.pod("c", 8, "team")
    await made.wait_running(("c", 1))
    assert await node_of(made, "c") == ill != well


async def _say(made: Scene, node: str, kind: str, status: str) -> None:
    """Write a condition of a node."""
    body = {"status": {"conditions": [{"type": kind, "status": status}]}}
    await made.api.patch(f"{NODES}/{node}/status", body, kind=Patch.STRATEGIC)
