"""Marks that users write on their Jobs are not believed; those of the scheduler are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from tests.live.support.shell import Shell
from tests.live.test_suspend import come_back, job_path, preempt
from windlass.kube.writers.signing import PUBLIC_KEY
from windlass.workloads.objects.annotations import SEAL, SUSPENDED
from windlass_lab.api_proxy.faults import answer
from windlass_lab.control_plane.plane import Plane

BY_HAND = {SUSPENDED: json.dumps({"at": 1, "since": 1, "by": "windlass"})}
PATCHES = 50


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=1, low=0, high=8) as made:
        yield made
        made.check()


async def test_a_job_that_its_user_marked_has_no_place_in_line_and_keeps_nobody_waiting(
    made: Scene, windlass: Shell
) -> None:
    await make_suspended(made, "greedy", 10_000, BY_HAND)
    daemon = await made.leading()
    await made.gang("other", 1, 1, "high")
    for number in range(PATCHES):
        notes = {"annotations": {"example.com/note": str(number)}}
        await made.api.patch(job_path(made, "greedy"), {"metadata": notes})
    await made.wait_running(("other", 1))
    assert {line["waiting"] for line in daemon.lines("cycle")} <= {0}
    jobs = (await windlass("jobs", "-n", made.key, "--json")).json["jobs"]
    assert [each["name"] for each in jobs] == ["other"]
    await daemon.wait_said("mark not signed")
    assert (await made.get(job_path(made, "greedy")))["spec"]["suspend"] is True


async def test_a_mark_that_was_copied_from_another_job_is_not_believed(
    made: Scene, windlass: Shell
) -> None:
    daemon = await made.leading()
    first = await preempt(made, 2)
    await public_key(made)
    notes = (await made.get(job_path(made, "old")))["metadata"]["annotations"]
    await make_suspended(made, "copy", 1, {key: notes[key] for key in (SUSPENDED, SEAL)})
    jobs = (await windlass("jobs", "-n", made.key, "--state", "waiting", "--json")).json["jobs"]
    assert [each["name"] for each in jobs] == ["old"]
    await come_back(made, first)
    assert (await made.get(job_path(made, "copy")))["spec"]["suspend"] is True
    assert await made.pods("copy") == []
    await daemon.wait_said("mark not signed")


async def test_a_scheduler_that_may_not_read_its_key_evicts_pods_instead(made: Scene) -> None:
    proxy = await made.open_proxy()
    proxy.on("*", "secrets", answer(403, "Forbidden"))
    daemon = await made.leading(proxy)
    await preempt(made, 2)
    (said,) = daemon.lines("no signing key")
    assert said["level"] == "error"
    assert f"get and patch Secret {made.key}/{made.key}-signing-key" in said["advice"]
    job = await made.get(job_path(made, "old"))
    assert not job["spec"].get("suspend")
    assert SUSPENDED not in job["metadata"].get("annotations", {})
    evicted = [call for call in proxy.calls if call.resource == "pods/eviction"]
    assert len({call.path for call in evicted}) == 2


async def test_the_next_leader_believes_what_the_last_one_signed(made: Scene) -> None:
    daemon = await made.leading()
    first = await preempt(made, 2)
    key = await public_key(made)
    assert await daemon.stop() == 0
    await made.leading()
    await come_back(made, first)
    assert await public_key(made) == key


async def public_key(made: Scene) -> str:
    """The key that the leader publishes, as soon as it has renewed its lease."""

    async def published() -> str:
        return (await made.get(made.lease))["metadata"]["annotations"].get(PUBLIC_KEY, "")

    return await wait_until(published, "the lease tells the public key")


async def make_suspended(made: Scene, name: str, count: int, notes: dict[str, str]) -> None:
    """A Job that its user has suspended, with these annotations, of pods that need no GPU."""
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "parallelism": count,
        "completions": count,
        "suspend": True,
        "template": made.template(0, "low"),
    }
    meta = {"name": name, "annotations": notes}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    await made.api.post(f"/apis/batch/v1/namespaces/{made.key}/jobs", body)
