"""Every eviction comes to an end: by the Eviction API, by a deletion, or by a refusal that is told.

Neither several disruption budgets on one pod nor a termination grace of ten years keeps places from
the gang that they are due to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from windlass.crds.definitions import API_VERSION
from windlass.kube.writers.eviction_api import MOST_FAULTS
from windlass_lab.api_proxy.calls import Call
from windlass_lab.api_proxy.faults import answer
from windlass_lab.control_plane.plane import Plane

POLICIES = f"/apis/{API_VERSION}/policies"
TEN_YEARS_S = 315_360_000
IGNORES_SIGTERM = {"fake.windlass.dev/terminates-after": "9000h"}

Open = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture
def opened(plane: Plane, tmp_path: Path) -> Open:
    """A node of 8 GPUs, queues with these guarantees, and a Policy."""

    @asynccontextmanager
    async def open_it(policy: dict[str, Any], *, low: int, high: int) -> AsyncIterator[Scene]:
        async with scene(plane.api_access(), tmp_path, nodes=1, low=low, high=high) as made:
            body = {"metadata": {"name": "default"}, "spec": policy}
            head = {"apiVersion": API_VERSION, "kind": "Policy"}
            await made.api.post(POLICIES, head | body)
            try:
                yield made
                made.check()
            finally:
                await made.api.delete(f"{POLICIES}/default")

    return open_it


async def test_two_budgets_on_a_borrower_delay_a_guarantee_and_do_not_stop_it(opened: Open) -> None:
    async with opened({}, low=0, high=8) as made:
        daemon = await made.leading(insist_after_s=1)
        borrowed = await borrow_under_two_budgets(made)
        await made.gang("due", 1, 8, "high")
        await made.wait_running(("due", 1))
        await made.wait_gone("old", borrowed)
        assert {call.status for call in daemon.proxy.calls if is_eviction(call)} == {500}
        deleted = [call for call in daemon.proxy.calls if is_deletion(call)]
        assert {call.json()["preconditions"]["uid"] for call in deleted} == set(borrowed)


async def test_two_budgets_stop_a_reclaim_towards_a_share_and_the_claimant_is_told(
    opened: Open,
) -> None:
    async with opened({"dwellSeconds": 0}, low=0, high=0) as made:
        daemon = await made.leading(insist_after_s=1)
        borrowed = await borrow_under_two_budgets(made)
        await made.gang("due", 1, 4, "high", preemptible="true")
        await daemon.wait_said("eviction refused")
        await wait_until(lambda: says(made, "due-0", "more than one"), "the claimant is told why")
        assert await made.wait_running(("old", 2)) == borrowed


async def test_an_eviction_api_that_always_fails_does_not_stop_a_guarantee(opened: Open) -> None:
    async with opened({}, low=0, high=8) as made:
        daemon = await made.leading(insist_after_s=1)
        broken = daemon.proxy.on("create", "pods/eviction", answer(500, "InternalError"))
        await made.gang("old", 1, 8, "low", preemptible="true")
        borrowed = await made.wait_running(("old", 1))
        await made.gang("due", 1, 8, "high")
        await made.wait_running(("due", 1))
        await made.wait_gone("old", borrowed)
        assert broken.met >= MOST_FAULTS


@pytest.mark.parametrize("kind", ["pods", "job"])
async def test_a_victim_with_a_grace_of_ten_years_is_gone_after_the_longest_grace(
    opened: Open, kind: str
) -> None:
    async with opened({"longestGraceSeconds": 2}, low=0, high=8) as made:
        await made.leading()
        made.grace_s = TEN_YEARS_S
        if kind == "pods":  # evicted one by one
            await made.gang("old", 2, 4, "low", preemptible="true", **IGNORES_SIGTERM)
        else:  # suspended, so that the Job's controller deletes its pods
            await made.job("old", 2, 4, "low", **IGNORES_SIGTERM)
        first = await made.wait_running(("old", 2))
        await made.gang("due", 1, 8, "high")
        await made.wait_running(("due", 1))
        await made.wait_gone("old", first)


async def borrow_under_two_budgets(made: Scene) -> list[str]:
    """Two pods that fill the node, and two budgets that allow each of them to go; their uids."""
    selector = {"matchLabels": {"windlass.dev/queue": f"{made.key}-low"}}
    spec = {"maxUnavailable": "100%", "selector": selector}
    for name in ("one", "two"):
        path = f"/apis/policy/v1/namespaces/{made.key}/poddisruptionbudgets"
        await made.api.post(path, {"metadata": {"name": name}, "spec": spec})
    await made.gang("old", 2, 4, "low", preemptible="true")
    return await made.wait_running(("old", 2))


async def says(made: Scene, name: str, words: str) -> bool:
    """Does the pod's condition `PodScheduled` have these words?"""
    found = (await made.get(made.path(name)))["status"].get("conditions", [])
    return any(words in each.get("message", "") for each in found if each["type"] == "PodScheduled")


def is_eviction(call: Call) -> bool:
    return call.resource == "pods/eviction"


def is_deletion(call: Call) -> bool:
    return call.verb == "delete" and call.resource == "pods"
