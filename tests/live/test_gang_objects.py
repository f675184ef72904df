"""Gang objects on a real control plane: what they say is done, and their status tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.fake_controller import Troupe, open_troupe
from tests.live.support.scene import Scene, scene
from windlass.crds.definitions import API_VERSION, QUEUE
from windlass.workloads.objects.annotations import GANG, GROUP
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_nodes.machines import HOSTNAME

TOPOLOGIES = "/apis/windlass.dev/v1alpha1/topologies"


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=2) as made:
        yield made
        made.check()


@pytest.fixture
async def troupe(made: Scene) -> AsyncIterator[Troupe]:
    """A namespace with a queue of 12 GPUs, two nodes of 8, and a daemon."""
    found = await open_troupe(made, "gangs")
    spec = {"namespaces": [found.namespace], "guarantee": {"gpu": 12}}
    body = {"apiVersion": API_VERSION, "kind": "Queue", "spec": spec}
    await made.api.post(QUEUE.path(), body | {"metadata": {"name": made.key}})
    await made.leading(namespaces=None, scheduler_names=made.key)
    yield found
    await made.api.delete(QUEUE.path(made.key))
    await made.api.delete(f"/api/v1/namespaces/{found.namespace}")


async def test_a_gang_starts_when_each_of_its_groups_is_complete(troupe: Troupe) -> None:
    groups = [{"name": "leader"}, {"name": "workers", "minimum": 2}]
    await troupe.make("Gang", "train", {"groups": groups})
    for number in range(3):
        await member(troupe, f"w-{number}", "workers")
    await wait_status(troupe, state="Waiting", waiting=3, running=0)
    assert not any(each["spec"].get("nodeName") for each in await troupe.pods())
    await member(troupe, "l-0", "leader")
    await troupe.wait_running(4)
    await wait_status(troupe, state="Running", waiting=0, running=4)


async def test_pods_that_come_before_their_gang_wait_for_it(troupe: Troupe) -> None:
    await member(troupe, "a")
    await troupe.wait_told(1, "there is no Gang train in its namespace")
    await troupe.make("Gang", "train", {"minimum": 1})
    assert len(await troupe.wait_running(1)) == 1


async def test_the_status_says_why_a_gang_waits_and_when_it_is_over(troupe: Troupe) -> None:
    await troupe.make("Gang", "train", {"minimum": 2})
    await wait_status(troupe, state="Waiting", reason="no pod names it yet")
    await member(troupe, "a")
    await wait_status(troupe, state="Waiting", reason="1 of the 2 tasks it starts with exist")
    await member(troupe, "b")
    await wait_status(troupe, state="Running", reason="")
    for name in ("a", "b"):
        await troupe.delete("Pod", name)
    await wait_status(troupe, state="Finished", running=0)
    assert await troupe.pods() == []


async def test_a_gang_that_asks_for_one_domain_runs_in_one(troupe: Troupe) -> None:
    key, api = troupe.scene.key, troupe.scene.api
    spec = {"levels": [HOSTNAME]}
    body = {"apiVersion": API_VERSION, "kind": "Topology", "metadata": {"name": key}, "spec": spec}
    await api.post(TOPOLOGIES, body)
    try:
        domain = {"topology": key, "level": HOSTNAME}
        await troupe.make("Gang", "train", {"minimum": 6, "domain": domain})
        for number in range(6):
            await member(troupe, f"a-{number}")
        await troupe.wait_running(6)
        assert len({each["spec"]["nodeName"] for each in await troupe.pods()}) == 1
    finally:
        await api.delete(f"{TOPOLOGIES}/{key}")


async def test_a_gang_that_contradicts_its_pods_is_told_so_in_its_conditions(
    troupe: Troupe,
) -> None:
    await troupe.make("Gang", "train", {"groups": [{"name": "leader"}]})
    await member(troupe, "a", "ladder")

    async def told() -> bool:
        ready = (await status_of(troupe)).get("conditions", [{}])[0]
        return ready.get("status") == "False" and '"ladder"' in ready["message"]

    await wait_until(told, "the Gang is not ready, and says why")
    assert await told(), "and goes on saying it"


async def test_many_gangs_have_their_statuses_written(troupe: Troupe) -> None:
    names = [f"g-{number}" for number in range(4)]
    await asyncio.gather(*(troupe.make("Gang", name, {"minimum": 1}) for name in names))
    await asyncio.gather(*(troupe.pod(name, None, **{GANG: name}) for name in names))
    for name in names:
        await wait_status(troupe, name, state="Running", running=1)
    told = [(await status_of(troupe, name))["running"] for name in names]
    assert told == [1, 1, 1, 1]


async def member(troupe: Troupe, name: str, group: str = "") -> None:
    labels = {GANG: "train"} | ({GROUP: group} if group else {})
    await troupe.pod(name, None, **labels)


async def status_of(troupe: Troupe, name: str = "train") -> dict[str, Any]:
    return (await troupe.scene.get(troupe.path("Gang", name))).get("status", {})


async def wait_status(troupe: Troupe, name: str = "train", **expected: object) -> None:
    """Wait until a status says this; of its reason a part, or nothing."""

    async def says() -> bool:
        found = await status_of(troupe, name)
        reason = str(expected.get("reason", found.get("reason", "")))
        is_so = all(found.get(k) == value for k, value in expected.items() if k != "reason")
        told = str(found.get("reason", ""))
        return is_so and (reason.lower() in told.lower() if reason else not told)

    await wait_until(says, f"the status of {name} says {expected}")
