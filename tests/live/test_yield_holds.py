"""A disruption budget delays who makes room for a borrower; meanwhile a guarantee is claimed."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live.support.scene import Scene, scene
from tests.live.support.shell import Shell
from windlass_lab.control_plane.plane import Plane

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=2, research=8, serving=8) as made:
        await made.api.post(CLASSES, {"metadata": {"name": made.key}, "value": 1000})
        yield made
        await made.api.delete(f"{CLASSES}/{made.key}")
        made.check()


async def test_a_guarantee_gets_what_a_budget_keeps_from_a_borrower(
    made: Scene, windlass: Shell
) -> None:
    await made.leading()
    budget = await delayed(made)
    await made.gang("serve", 1, 1, "serving")
    await made.wait_condition("serve", 1, "PlaceHeld")
    told = (await windlass("explain", f"{made.key}/serve")).out
    assert "low-0" in told
    assert "cannot be preempted" not in told
    await made.wait_condition("high", 1, "Unschedulable")
    await made.api.delete(budget)
    await made.wait_running(("serve", 1))


async def test_it_is_promised_also_after_a_crash(made: Scene) -> None:
    first = await made.leading()
    budget = await delayed(made)
    await made.gang("serve", 1, 1, "serving")
    await made.wait_condition("serve", 1, "PlaceHeld")
    await made.wait_condition("high", 1, "Unschedulable")
    first.signal(signal.SIGKILL)
    await first.ended()
    await made.let_pass()
    await made.leading()
    await made.api.delete(budget)
    await made.wait_running(("serve", 1))
    assert not [each for each in await made.pods("high") if each["spec"].get("nodeName")]


async def delayed(made: Scene) -> str:
    """Who makes room for a borrower is kept by a budget; where that lies."""
    await made.gang("firm", 1, 8, "research")
    await made.wait_running(("firm", 1))
    await made.job("low", 1, 8, "research", app="low")
    await made.wait_running(("low", 1))
    budgets = f"/apis/policy/v1/namespaces/{made.key}/poddisruptionbudgets"
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}}
    await made.api.post(budgets, {"metadata": {"name": "none"}, "spec": spec})
    await made.job("high", 1, 8, "research", priority=made.key)
    await made.wait_condition("high", 1, "PlaceHeld")
    return f"{budgets}/none"
