"""Shadow mode beside a real kube-scheduler: nothing is written, and what differs is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.daemons import Daemon
from tests.live.support.fake_controller import Troupe, open_troupe
from tests.live.support.scene import scene
from windlass.crds.definitions import API_VERSION, QUEUE
from windlass_lab.api_proxy.proxy import recording
from windlass_lab.control_plane.plane import Options, Plane
from windlass_lab.control_plane.ports import PortPool
from windlass_lab.fake_nodes.labels import GPU

USER = "windlass-shadow"
SETTINGS = "shadow: true\nshadow_of: [default-scheduler]\n"
WITH_SCHEDULER = pytest.mark.parametrize(
    "fresh_plane", [Options(scheduler=True, audit=True)], indirect=True
)


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster that kube-scheduler drives, and a daemon in its shadow."""

    plane: Plane
    troupe: Troupe
    daemon: Daemon
    port: int

    async def job(self, name: str, count: int, gpus: int) -> None:
        """An Indexed Job for kube-scheduler."""
        spec = self.troupe.indexed(count)
        inside = spec["template"]["spec"]
        inside["schedulerName"] = "default-scheduler"
        # kube-scheduler spreads by CPU and memory, and else as chance will have it
        inside["containers"][0]["resources"] = {"limits": {GPU: str(gpus), "cpu": "20"}}
        await self.troupe.make("Job", name, spec)

    async def report(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/shadow"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return await answer.json()

    async def wait_finding(self, kind: str, job: str, words: str = "") -> dict[str, Any]:
        """Wait until this was found about a Job, in these words."""

        async def told() -> dict[str, Any] | None:
            about = f"{self.troupe.namespace}/{job}~"
            for each in (await self.report())["findings"]:
                is_about = each["kind"] == kind and each["subject"].startswith(about)
                if is_about and words in each["sentence"]:
                    return each
            return None

        return await wait_until(told, f"{kind} is found")

    def verbs(self) -> set[str]:
        """What the API server's audit log says the daemon has done."""
        lines = (self.plane.folder / "audit.log").read_text().splitlines()
        calls = [json.loads(line) for line in lines]
        return {each["verb"] for each in calls if each["user"]["username"] == USER}


@pytest.fixture
async def watched(fresh_plane: Plane, tmp_path: Path) -> AsyncIterator[Watched]:
    """Two nodes of 8 GPUs and a queue for the namespace."""
    ports = PortPool()
    mine = fresh_plane.api_access(USER, ["system:masters"])
    async with (
        scene(fresh_plane.api_access(), tmp_path, nodes=2) as made,
        recording(mine) as proxy,
    ):
        troupe = await open_troupe(made, "ml")
        spec = {"namespaces": [troupe.namespace], "guarantee": {"gpu": 16}}
        body = {"apiVersion": API_VERSION, "kind": "Queue", "spec": spec}
        await made.api.post(QUEUE.path(), body | {"metadata": {"name": "team"}})
        file = tmp_path / "windlass.yaml"
        file.write_text(SETTINGS)
        port = ports.claim()
        daemon = await made.leading(proxy, namespaces=None, config=file, port=port)
        yield Watched(fresh_plane, troupe, daemon, port)
        assert proxy.writes() == []
    ports.give_back()


@WITH_SCHEDULER
async def test_a_shadow_tells_what_kube_scheduler_does_differently_and_writes_nothing(
    watched: Watched,
) -> None:
    """Three tasks of 6 GPUs do not fit on two nodes of 8; pod by pod, two of them start."""
    await watched.job("large", 3, 6)
    words = "2 of the 3 tasks it starts with were placed, and hold 12 GPUs"
    found = await watched.wait_finding("HalfStarted", "large", words)
    assert found["queue"] == "team"
    assert "Windlass would have let it wait whole" in found["sentence"]

    async def grows() -> bool:
        return (await watched.report())["idleGpuSeconds"] >= 12

    await wait_until(grows, "the time that is lost is counted")
    assert await watched.daemon.stop() == 0
    (line,) = [
        each for each in watched.daemon.lines("would differ") if each["kind"] == "HalfStarted"
    ]
    assert line["sentence"].startswith("2 of the 3 tasks")
    (total,) = watched.daemon.lines("shadow")
    assert (total["halfStarted"], total["started"]) == (1, 0)
    assert watched.verbs() <= {"get", "list", "watch"}
    assert watched.verbs()


@WITH_SCHEDULER
async def test_a_shadow_compares_where_pods_are_with_where_it_would_have_put_them(
    watched: Watched,
) -> None:
    """kube-scheduler spreads, Windlass packs: the second job need not open the second node."""
    await watched.job("first", 1, 2)
    await watched.troupe.wait_running(1)
    await watched.job("second", 1, 2)
    await watched.troupe.wait_running(2)
    found = await watched.wait_finding("PlacedElsewhere", "second")
    nodes = {each["spec"]["nodeName"] for each in await watched.troupe.pods()}
    assert len(nodes) == 2
    assert all(node in found["sentence"] for node in nodes)
    report = await watched.report()
    assert report["started"] == 2
    assert report["placementsCompared"] >= 1
    assert watched.verbs() <= {"get", "list", "watch"}
