"""A Job that makes room is suspended, waits without pods and comes back, by its real controller."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from windlass.workloads.objects.annotations import MAX_RUN, OVERRUN, SUSPENDED
from windlass_lab.control_plane.plane import Plane

BY_LABEL = {"windlass.dev/gang": "old", "windlass.dev/minimum": "2"}
"""Pods that name their gang are evicted one by one, whoever made them."""


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=1, low=0, high=8) as made:
        yield made
        made.check()


async def test_a_job_makes_room_waits_and_comes_back_without_a_backoff(made: Scene) -> None:
    daemon = await made.leading()
    first = await preempt(made, 4)
    job = await made.get(job_path(made, "old"))
    mark = json.loads(job["metadata"]["annotations"][SUSPENDED])
    assert job["spec"]["suspend"] is True
    assert (mark["rule"], mark["for"]) == ("guarantee", f"{made.key}/due")
    assert not [call for call in daemon.proxy.calls if call.resource == "pods/eviction"]
    took_s = await come_back(made, first)
    job = await made.get(job_path(made, "old"))
    assert job["status"].get("failed", 0) == 0
    assert SUSPENDED not in job["metadata"].get("annotations", {})
    print(f"\n4 pods of a suspended Job run {took_s:.1f} s after there is room")


async def test_the_same_by_evictions_waits_for_the_jobs_backoff(made: Scene) -> None:
    daemon = await made.leading()
    first = await preempt(made, 2, **BY_LABEL)
    evicted = [call for call in daemon.proxy.calls if call.resource == "pods/eviction"]
    assert len({call.path for call in evicted}) == 2
    took_s = await come_back(made, first)
    print(f"\n2 pods of an evicted Job run {took_s:.1f} s after there is room")


async def test_a_budget_that_does_not_spare_the_whole_gang_keeps_it_running(made: Scene) -> None:
    daemon = await made.leading()
    budget = f"/apis/policy/v1/namespaces/{made.key}/poddisruptionbudgets"
    selector = {"matchLabels": {"windlass.dev/queue": f"{made.key}-low"}}
    spec = {"maxUnavailable": 1, "selector": selector}
    await made.api.post(budget, {"metadata": {"name": "one"}, "spec": spec})
    await made.job("old", 2, 4, "low")
    first = await made.wait_running(("old", 2))
    await made.gang("due", 1, 8, "high")

    async def asked() -> bool:
        tried = [call for call in daemon.proxy.calls if call.resource == "pods/eviction"]
        return len(tried) >= 2

    await wait_until(asked, "it was asked on trial whether the pods may go")
    assert await made.wait_running(("old", 2)) == first
    await made.api.delete(f"{budget}/one")
    await made.wait_running(("due", 1))
    assert (await made.get(job_path(made, "old")))["spec"]["suspend"] is True


async def test_a_job_that_has_run_for_as_long_as_it_may_is_suspended_for_good(made: Scene) -> None:
    await made.leading()
    await made.job("old", 2, 4, "low", **{MAX_RUN: "4s"})
    first = await made.wait_running(("old", 2))
    await made.wait_gone("old", first)
    job = await made.get(job_path(made, "old"))
    assert job["spec"]["suspend"] is True
    assert SUSPENDED not in job["metadata"].get("annotations", {}), "it is its user's again"


async def test_or_it_stands_in_line_again_and_runs_anew(made: Scene) -> None:
    await made.leading()
    await made.job("old", 2, 4, "low", **{MAX_RUN: "4s", OVERRUN: "requeue"})
    first = await made.wait_running(("old", 2))
    await made.wait_gone("old", first)
    again = await made.wait_running(("old", 2))
    assert not set(again) & set(first)


async def preempt(made: Scene, count: int, **labels: str) -> list[str]:
    """A gang claims the node that was lent to a Job, and runs; the uids of the Job's pods."""
    await made.job("old", count, 8 // count, "low", **labels)
    first = await made.wait_running(("old", count))
    await made.gang("due", 1, 8, "high")
    await made.wait_running(("due", 1))
    await made.wait_gone("old", first)
    return first


async def come_back(made: Scene, first: list[str]) -> float:
    """The gang goes; how long it then takes until the Job runs again."""
    await made.delete("due-0")
    began = time.monotonic()
    again = await made.wait_running(("old", len(first)))
    assert not set(again) & set(first)
    return time.monotonic() - began


def job_path(made: Scene, name: str) -> str:
    return f"/apis/batch/v1/namespaces/{made.key}/jobs/{name}"
