"""Windlass and kube-scheduler as processes, each as it would run in production.

Both are measured from the moment at which they have read the cluster and can decide. Windlass logs
this moment; kube-scheduler reports it at /readyz. Its client limits are lifted, and so is
Windlass's cap on evictions, since neither is to be measured.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from windlass_lab.control_plane.errors import LabError, PlaneFailed
from windlass_lab.control_plane.plane import READY_SECONDS, Plane
from windlass_lab.control_plane.process import Keeper, Process
from windlass_lab.control_plane.readiness import is_ready

POLL_S = 0.01
PROGRAM = "from windlass.cli import main; main()"
UNCAPPED = "--evictions-per-queue-per-minute=1000000"
WINDLASS, KUBE_SCHEDULER = "windlass", "kube-scheduler"
NAMES = {WINDLASS: "windlass", KUBE_SCHEDULER: "default-scheduler"}
"""The schedulerName of each."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running scheduler."""

    name: str
    pid: int
    log: Path
    began_at: float
    in_step_at: float
    """The time at which it had read everything and could decide."""


@asynccontextmanager
async def running(name: str, plane: Plane, level: str = "info") -> AsyncGenerator[Running]:
    """Run a scheduler while the context is open; it opens once the scheduler has read
    everything."""
    using = _windlass(plane, level) if name == WINDLASS else _kube_scheduler(plane)
    async with using as found:
        yield found


def lines(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the log lines of Windlass, each with its time in seconds, `at_s`."""
    for line in log.read_bytes().splitlines():
        try:
            found: dict[str, Any] = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue  # half a line, or a traceback
        yield found | {"at_s": datetime.fromisoformat(found["at"]).timestamp()}


@asynccontextmanager
async def _windlass(plane: Plane, level: str) -> AsyncGenerator[Running]:
    words = [sys.executable, "-c", PROGRAM, "run", f"--kubeconfig={plane.kubeconfig}"]
    words += ["--address=127.0.0.1", "--port=0"]
    words += [UNCAPPED, f"--log-level={level}"]
    keeper = Keeper(None)
    process = Process(WINDLASS, words, plane.folder / "windlass.log", keeper)
    try:
        began_at = time.time()
        process.start()
        while not (in_step := [each for each in _lines(process) if each["what"] == "read"]):
            process.check()
            _mind_patience(began_at, process.last_words())
            await asyncio.sleep(POLL_S)
        yield Running(WINDLASS, _pid(process.pid), process.log, began_at, in_step[0]["at_s"])
        process.check()
    except LabError:
        process.check()  # if it has ended, that says more than what was waited for in vain
        raise
    finally:
        await asyncio.to_thread(process.stop, at_once=True)
        keeper.close()


def _lines(process: Process) -> Iterator[dict[str, Any]]:
    return lines(process.log) if process.log.exists() else iter(())


@asynccontextmanager
async def _kube_scheduler(plane: Plane) -> AsyncGenerator[Running]:
    trust = ssl.create_default_context(cafile=plane.folder / "pki" / "ca.crt")
    url = plane.layout.url(KUBE_SCHEDULER)
    try:
        began_at = time.time()
        await asyncio.to_thread(plane.start, KUBE_SCHEDULER)
        while not await asyncio.to_thread(is_ready, url, "/readyz", trust):
            _mind_patience(began_at, f"its log is {plane.log(KUBE_SCHEDULER)}")
            await asyncio.sleep(POLL_S)
        log, pid = plane.log(KUBE_SCHEDULER), _pid(plane.pid(KUBE_SCHEDULER))
        yield Running(KUBE_SCHEDULER, pid, log, began_at, time.time())
    finally:
        await asyncio.to_thread(plane.stop, KUBE_SCHEDULER, at_once=True)


def _mind_patience(began_at: float, said: str) -> None:
    if time.time() - began_at > READY_SECONDS:
        raise PlaneFailed(
            f"a scheduler has not read everything within {READY_SECONDS} s of its start; {said}"
        )


def _pid(pid: int | None) -> int:
    if pid is None:
        raise PlaneFailed("the scheduler ended before it could be measured")
    return pid
