"""DCGM exporters on a real control plane: broken GPUs are avoided, busy ones are shown.

The exporters are real processes at addresses of their own; each tells what stands in a file.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.daemons import Daemon
from tests.live.support.scene import QUICK, Scene, make_namespace, scene
from tests.live.support.viewers import NODES, PODS, person, queues
from windlass.kube.client.errors import NotFound
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_kubelet.pod_annotations import PROCESS, RUNS

FELL_OFF = "ill: GPU 3 reports XID 79 (fell off the bus)"
OFTEN: dict[str, Any] = {"dcgm_every_s": 1, "log_level": "debug"}
PORT = 9411
EXPORTER = """
import http.server, os, pathlib, sys, time

class Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = pathlib.Path(sys.argv[1]).read_bytes()
        if text == b"silent":
            time.sleep(3600)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)
        while text == b"huge":
            self.wfile.write(bytes(65536))

address = os.environ["IP"], int(sys.argv[2])
http.server.ThreadingHTTPServer(address, Exporter).serve_forever()
"""


def told(*, xid: int = 0, used: int = 0) -> str:
    """What an exporter tells about eight GPUs; GPU 3 has an error, all are used so much."""
    rows = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}"}} {used}' for gpu in range(8)]
    rows += [f'DCGM_FI_DEV_XID_ERRORS{{gpu="{gpu}"}} {xid * (gpu == 3)}' for gpu in range(8)]
    return "\n".join(rows) + "\n"


@dataclass(slots=True)
class Ward:
    """A cluster whose nodes have exporters, in a namespace without a queue."""

    scene: Scene
    infra: str

    def node(self, number: int) -> str:
        return f"{self.scene.key}-{number}"

    def say(self, number: int, text: str) -> None:
        """Have the exporter of a node tell something else from now on."""
        file = self._file(number)
        file.with_suffix(".new").write_text(text)
        file.with_suffix(".new").rename(file)

    async def run_exporter(self, number: int, text: str) -> None:
        """Start the exporter of a node, and wait until it listens."""
        self.say(number, text)
        container = {
            "name": "exporter",
            "image": "none",
            "command": [sys.executable, "-c", EXPORTER],
            "args": [str(self._file(number)), str(PORT)],
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [{"name": "metrics", "containerPort": PORT}],
        }
        name = f"dcgm-{number}"
        meta = {
            "name": name,
            "labels": {"app": "nvidia-dcgm-exporter"},
            "annotations": {RUNS: PROCESS},
        }
        spec = {"nodeName": self.node(number), "containers": [container]}
        spec["automountServiceAccountToken"] = False
        path = f"/api/v1/namespaces/{self.infra}/pods"
        await self.scene.api.post(path, {"metadata": meta, "spec": spec})

        async def listens() -> bool:
            ip = (await self.scene.get(f"{path}/{name}"))["status"].get("podIP", "")
            with suppress(OSError):
                _, writer = await asyncio.open_connection(ip, PORT)
                writer.close()
                return bool(ip)
            return False

        await wait_until(listens, f"the exporter of node {number} listens")

    async def wait_told(self, name: str, sentence: str) -> None:
        """Wait until a pod says why it waits."""

        async def says() -> bool:
            status = (await self.scene.get(self.scene.path(name)))["status"]
            return any(sentence in each.get("message", "") for each in status.get("conditions", ()))

        await wait_until(says, f"{name} says: {sentence}")

    def _file(self, number: int) -> Path:
        return self.scene.folder / f"metrics-{number}"


@pytest.fixture
async def ward(plane: Plane, tmp_path: Path) -> AsyncIterator[Ward]:
    habits = replace(QUICK, processes=3)
    async with scene(plane.api_access(), tmp_path, nodes=2, habits=habits, team=16) as made:
        infra = f"{made.key}-infra"
        await make_namespace(made.api, infra)
        yield Ward(made, infra)
        made.check()
        await made.api.delete(f"/api/v1/namespaces/{infra}/pods", {"gracePeriodSeconds": 0})
        with suppress(NotFound):
            await made.api.delete(f"/api/v1/namespaces/{infra}")


async def test_a_node_with_a_broken_gpu_gets_nobody_new_until_its_exporter_says_0(
    ward: Ward,
) -> None:
    made = ward.scene
    await ward.run_exporter(0, told(xid=79))
    first = await made.leading(**OFTEN)
    await made.pod("a", 8, "team")
    await made.wait_running(("a", 1))
    assert (await made.pods("a"))[0]["spec"]["nodeName"] == ward.node(1)
    await made.pod("b", 8, "team")
    await ward.wait_told("b", FELL_OFF)

    first.signal(signal.SIGKILL)  # a new leader asks before it decides
    await first.ended()
    await made.let_pass()
    second = await made.leading(**OFTEN)
    await second.wait_said("cycle", 3)
    assert "nodeName" not in (await made.pods("b"))[0]["spec"]

    ward.say(0, told())
    await made.wait_running(("b", 1))
    ward.say(0, told(xid=48))
    await second.wait_said("cycle", len(second.lines("cycle")) + 5)
    await made.wait_running(("a", 1), ("b", 1))  # what runs there goes on


async def test_what_exporters_measure_is_on_the_dashboard(ward: Ward) -> None:
    made = ward.scene
    await ward.run_exporter(0, told(used=87))
    daemon = await made.leading(**OFTEN)
    viewer = await person(made.api, made.key, "zoe")
    await viewer.may("", PODS, NODES, queues())
    expected = {ward.node(0): [870] * 8, ward.node(1): [-1] * 8}
    token = await viewer.token()

    async def is_shown() -> bool:
        return await utilisation(daemon, token) == expected

    await wait_until(is_shown, "the dashboard shows how busy the GPUs are")
    assert await is_shown(), "and goes on showing it"
    await viewer.leave()


@pytest.mark.parametrize("text", ["silent", "huge", "\x00garbage} {", ""])
async def test_an_exporter_that_misbehaves_does_no_harm(ward: Ward, text: str) -> None:
    made = ward.scene
    await ward.run_exporter(0, text)
    await ward.run_exporter(1, told(xid=79))
    daemon = await made.leading(**OFTEN)
    await made.gang("wide", 2, 8, "team")
    await ward.wait_told("wide-0", FELL_OFF)
    ward.say(1, text)  # what it said last counts for a while
    await daemon.wait_said("cycle", len(daemon.lines("cycle")) + 5)
    await made.pod("small", 8, "team")
    await made.wait_running(("small", 1))
    assert (await made.pods("small"))[0]["spec"]["nodeName"] == ward.node(0)
    ward.say(1, told())
    await made.delete("small", grace=0)
    await made.wait_running(("wide", 2))


async def utilisation(daemon: Daemon, token: str) -> dict[str, list[int]]:
    """Of every node, as the dashboard tells."""
    url = f"http://127.0.0.1:{daemon.lines('dashboard')[-1]['port']}/api/cluster"
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
        if answer.status != 200:
            return {}
        found = await answer.json()
    told, nodes = iter(found["utilisation"]), found["nodes"]
    return {
        name: [next(told, -2) for _ in range(gpus)]
        for name, gpus in zip(nodes["name"], nodes["gpus"], strict=True)
    }
