"""`windlass run` as a process that can be killed, stopped and asked what it said.

Processes are forked from one that has imported everything, so that a start takes a moment and not
seconds: tests that kill daemons start hundreds of them.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias

from tests.live.support.bound_pods import wait_until
from windlass_lab.api_proxy.proxy import Proxy
from windlass_lab.control_plane.process import Keeper

IMPORTED = (
    *("__main__", "tests.live.daemons", "windlass.cli.commands.run", "windlass.daemon.loop.main"),
    *("kubernetes.client", "kubernetes.config.kube_config", "uvicorn.protocols.http.auto"),
    *("uvicorn.lifespan.off", "uvicorn.protocols.websockets.auto"),
)
"""Whatever a daemon imports, also what it imports late."""

_nursery = multiprocessing.get_context("forkserver")
_nursery.set_forkserver_preload(list(IMPORTED))


@dataclass(slots=True)
class Daemon:
    """A `windlass run` of its own process, behind its own proxy."""

    process: BaseProcess
    proxy: Proxy
    log: Path
    _keeper: Keeper

    @property
    def pid(self) -> int:
        found = self.process.pid
        assert found is not None
        return found

    @property
    def is_running(self) -> bool:
        return self.process.exitcode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGKILL is a crash, SIGSTOP a machine that stands still."""
        if self.is_running:
            os.kill(self.pid, number)

    async def ended(self) -> int:
        """Wait until it has ended, and say with which status; below zero: by which signal."""

        async def has_ended() -> bool:
            return not self.is_running

        await wait_until(has_ended, "the daemon has ended")
        self._keeper.forget(self.pid)
        assert self.process.exitcode is not None
        return self.process.exitcode

    async def stop(self) -> int:
        """Ask it to stop, and wait until it has."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    def lines(self, what: str) -> list[dict[str, Any]]:
        """What it has logged about something."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [line for line in lines if line.get("what") == what]

    async def wait_said(self, what: str, times: int = 1) -> None:
        """Wait until it has logged this so often."""

        async def said() -> bool:
            assert self.is_running or len(self.lines(what)) >= times, self.log.read_text()[-3000:]
            return len(self.lines(what)) >= times

        await wait_until(said, f"the daemon has said {what!r} {times} times")


Before: TypeAlias = Callable[[], None]
"""Changes the process before it runs; a function of a module, so that it can be sent there."""


async def launch(
    words: Sequence[str], log: Path, proxy: Proxy, keeper: Keeper, before: Before | None = None
) -> Daemon:
    """Start `windlass run` with these words; what it says goes to the log."""
    log.touch()
    process = _nursery.Process(target=_run, args=(list(words), str(log), before))
    await asyncio.to_thread(process.start)  # the first one waits for all the imports
    daemon = Daemon(process, proxy, log, keeper)
    keeper.add(daemon.pid)
    return daemon


def _run(words: list[str], log: str, before: Before | None) -> None:
    stream = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    for name in [each for each in os.environ if each.startswith("WINDLASS_")]:
        del os.environ[name]
    if before is not None:
        before()
    sys.argv = ["windlass", "run", *words]

    from windlass.cli import main

    main()
