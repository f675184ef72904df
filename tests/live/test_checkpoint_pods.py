"""Pods that save themselves, asked through a real API server as the scheduler asks them."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import FAKE, QUICK, Lab, open_lab, wait_until
from tests.support.checkpointed_job import COUNTING
from windlass.checkpoint.protocol import (
    DEFAULT_PATH,
    DEFAULT_PORT,
    EXIT_SAVED,
    REQUEST,
    Ack,
    CheckpointRequest,
    SaveState,
    accepts,
    read_ack,
)
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_kubelet import Habits, Kubelet

ASKED = CheckpointRequest("7f3a", 4_000_000_000, "room for a gang of a higher priority")
HABITS: Habits = replace(QUICK, processes=2)


@pytest.fixture
async def lab(plane: Plane, namespace: str) -> AsyncIterator[Lab]:
    async with open_lab(plane.api_access(), namespace) as lab:
        yield lab


async def counting(lab: Lab, name: str, node: str, folder: Path, **env: str) -> str:
    """A pod that counts and saves itself."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "none",
        "command": [sys.executable, "-c", COUNTING],
        "args": [str(folder / name), "1000000000", "900"],
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    spec = {"nodeName": node, "containers": [container]}
    return await lab.create(name, spec, {f"{FAKE}runs": "process"})


async def wait_said(kubelet: Kubelet, uid: str, lines: int) -> None:
    async def said() -> bool:
        return kubelet.processes.said(uid).count("\n") >= lines

    await wait_until(said, f"the process has counted {lines} steps more")


async def ask(lab: Lab, name: str, request: CheckpointRequest | None) -> None:
    """Ask a pod as the scheduler does, or take it back."""
    note = {REQUEST: request.text() if request else None}
    await lab.api.patch(lab.path(name), {"metadata": {"annotations": note}})


async def test_asked_by_annotation_it_ends_and_its_last_word_is_the_answer(
    lab: Lab, tmp_path: Path
) -> None:
    async with lab.nodes(habits=HABITS) as (kubelet, [node]):
        uid = await counting(lab, "p", node, tmp_path)
        await lab.wait_phase("p", "Running")
        await wait_said(kubelet, uid, 5)
        kubelet.pause(node)
        await ask(lab, "p", ASKED)
        kubelet.resume(node)  # what it has missed, it sees now
        status = await lab.wait_phase("p", "Failed")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        answer = read_ack(ended["message"])
        assert (ended["exitCode"], accepts(ASKED, answer)) == (EXIT_SAVED, True)
        assert not accepts(replace(ASKED, id="7f3b"), answer)
        assert answer is not None
        assert answer.step >= 5
        assert kubelet.book.held(node) == {}


async def test_asked_over_http_at_its_own_address_it_answers_and_works_on(
    lab: Lab, tmp_path: Path
) -> None:
    port = str(DEFAULT_PORT)
    async with lab.nodes(habits=HABITS) as (kubelet, [node]):
        names = ("one", "two")  # the same port in both
        uids = [
            await counting(lab, name, node, tmp_path, WINDLASS_CHECKPOINT_PORT=port)
            for name in names
        ]
        for name, uid in zip(names, uids, strict=True):
            ip = (await lab.wait_phase(name, "Running"))["podIP"]
            await wait_said(kubelet, uid, 5)
            asked = replace(ASKED, id=name)
            first = await asyncio.to_thread(call, ip, asked.text())
            assert accepts(asked, first)

            async def done(ip: str = ip, asked: CheckpointRequest = asked) -> bool:
                ack = await asyncio.to_thread(call, ip)
                return accepts(asked, ack) and ack.state is SaveState.DONE

            await wait_until(done, f"{name} has saved")
            await wait_said(kubelet, uid, kubelet.processes.said(uid).count("\n") + 5)


async def test_a_request_that_is_withdrawn_before_it_is_seen_leaves_the_work_untouched(
    lab: Lab, tmp_path: Path
) -> None:
    async with lab.nodes(habits=HABITS) as (kubelet, [node]):
        uid = await counting(lab, "p", node, tmp_path)
        await lab.wait_phase("p", "Running")
        kubelet.pause(node)  # it sees nothing meanwhile
        await ask(lab, "p", ASKED)
        await ask(lab, "p", None)
        kubelet.resume(node)
        await wait_said(kubelet, uid, kubelet.processes.said(uid).count("\n") + 1000)
        assert (await lab.status("p"))["phase"] == "Running"
        assert not (tmp_path / "p").exists()  # not even a save


async def test_a_process_that_does_not_obey_dies_when_the_grace_is_over(lab: Lab) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=1); "
    container = {"name": "main", "image": "none", "command": [sys.executable, "-c"]}
    container["args"] = [deaf + "time.sleep(600)"]
    async with lab.nodes(habits=HABITS) as (kubelet, [node]):
        spec = {"nodeName": node, "containers": [container]}
        uid = await lab.create("p", spec, {f"{FAKE}runs": "process"})
        await wait_said(kubelet, uid, 1)
        await lab.delete("p", grace=1)
        await lab.wait_gone(lab.path("p"))
        assert kubelet.processes.pids == {}


def call(ip: str, body: str = "") -> Ack:
    """Ask, or look how far it is."""
    url = f"http://{ip}:{DEFAULT_PORT}{DEFAULT_PATH}"
    with urllib.request.urlopen(url, body.encode() or None, timeout=10) as answer:
        found = read_ack(answer.read())
    assert found is not None, json.dumps(body)
    return found
