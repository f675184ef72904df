"""Pods whose command really runs: started, told, killed, and gone with their kubelet."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from windlass_lab.fake_kubelet.pod_lifecycle import Exit
from windlass_lab.fake_kubelet.processes import Processes
from windlass_lab.fake_kubelet.wire import Pod

OBEYS = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(85)); print('up', flush=1)"
SLEEP = "; time.sleep(60)"


def pod(code: str, *env: dict[str, Any], uid: str = "p", **notes: str) -> Pod:
    container = {"name": "main", "command": [sys.executable, "-c"], "args": [code], "env": env}
    meta = {"name": f"pod-{uid}", "uid": uid, "annotations": notes}
    return msgspec.convert({"metadata": meta, "spec": {"containers": [container]}}, Pod)


class Told:
    """How processes ended."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.exits: asyncio.Queue[Exit] = asyncio.Queue()

    def launch(self, started: Pod) -> None:
        self.processes.launch(started, "127.0.0.3", self.exits.put_nowait)

    async def exit(self) -> Exit:
        async with asyncio.timeout(20):
            return await self.exits.get()

    async def said(self, text: str, uid: str = "p") -> None:
        async with asyncio.timeout(20):
            while text not in self.processes.said(uid):
                await asyncio.sleep(0.01)


@pytest.fixture
def told() -> Iterator[Told]:
    processes = Processes(2)
    yield Told(processes)
    processes.close()


async def test_how_a_process_ends_and_its_last_word_are_told(told: Told) -> None:
    told.launch(
        pod("import os; open(os.environ['WINDLASS_TERMINATION_LOG'], 'w').write('bye'); exit(3)")
    )
    assert await told.exit() == Exit(3, "bye")
    assert told.processes.pids == {}


async def test_a_process_may_obey_or_is_killed(told: Told) -> None:
    for at_once, code in ((False, 85), (True, 137)):
        told.launch(pod(OBEYS + SLEEP))
        await told.said("up\n" * (2 if at_once else 1))
        told.processes.kill("p", at_once=at_once)
        assert (await told.exit()).code == code


async def test_what_cannot_be_started_ends_at_once(told: Told) -> None:
    missing = msgspec.structs.replace(pod("").spec.containers[0], command=["no-such-program"])
    spec = msgspec.structs.replace(pod("").spec, containers=[missing])
    told.launch(msgspec.structs.replace(pod(""), spec=spec))
    assert (await told.exit()).code == 128


async def test_no_more_run_than_were_allowed(told: Told) -> None:
    for uid in ("a", "b", "c"):
        told.launch(pod(OBEYS + SLEEP, uid=uid))
    assert await told.exit() == Exit(128, "it was not started: 2 processes run already")
    assert set(told.processes.pids) == {"a", "b"}


async def test_a_process_sees_its_annotations_as_they_change(told: Told) -> None:
    looks = """
import os, time
while 'asked="\\\\"now\\\\""' not in open(os.environ["WINDLASS_CHECKPOINT_FILE"]).read():
    time.sleep(0.01)
"""
    told.launch(pod(looks))
    told.processes.show(pod(looks, asked='"now"'))
    assert (await told.exit()).code == 0


async def test_a_variable_may_name_a_field_of_the_pod(told: Told) -> None:
    fields = {"INDEX": "metadata.annotations['index']", "IP": "status.podIP", "ME": "metadata.name"}
    env = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": fields[key]}}} for key in fields]
    told.launch(pod("import os; print(*map(os.getenv, ['INDEX', 'IP', 'ME']))", *env, index="7"))
    assert (await told.exit()).code == 0
    assert told.processes.said("p") == "7 127.0.0.3 pod-p\n"


async def test_processes_end_with_their_kubelet() -> None:
    processes = Processes(1)
    Told(processes).launch(pod("import time" + SLEEP))
    (pid,) = processes.pids.values()
    processes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
