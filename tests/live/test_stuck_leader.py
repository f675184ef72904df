"""A leader whose decision does not end gives up, so that another replica leads."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from tests.live.test_leader import LONG, wait_asked
from windlass.daemon.decide.step import SchedulerStep, StepOutput
from windlass_lab.control_plane.plane import Plane

BAD = "bad"


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=1, team=8) as made:
        yield made
        made.check()


async def test_a_leader_whose_decision_does_not_end_hands_over_and_stands_by_once_it_has(
    made: Scene, tmp_path: Path
) -> None:
    may_end, port = tmp_path / "may end", free_port()
    made.before = partial(stick_at_bad_pods, str(may_end))
    first = await made.leading(port=port, cycle_stuck_after_s=1, **LONG)
    made.before = None
    second = await made.start(**LONG)
    await wait_asked(second)
    await made.gang(BAD, 1, 1, "team")
    await first.wait_said("stuck")
    assert "the decision that is being made has not ended for" in await not_ready(port)
    await made.wait_running((BAD, 1))
    assert len(second.lines("leads")) == 1
    written = len(first.proxy.writes())
    may_end.touch()
    await first.wait_said("leads no more")
    await wait_until(lambda: ready(port), "it stands by")
    late = [call for call in first.proxy.writes()[written:] if call.resource != "leases"]
    assert late == []


async def test_a_process_whose_decision_does_not_end_at_all_ends_with_an_error(
    made: Scene, tmp_path: Path
) -> None:
    made.before = partial(stick_at_bad_pods, str(tmp_path / "never"))
    daemon = await made.leading(cycle_stuck_after_s=1)
    await made.gang(BAD, 1, 1, "team")
    assert await daemon.ended() == 1
    assert [line["level"] for line in daemon.lines("ends")] == ["error"]
    assert await made.holder() == ""


def stick_at_bad_pods(until: str) -> None:
    """In this process a decision about a bad pod does not end before that file is there."""
    step = SchedulerStep.step

    def stuck(self: SchedulerStep, now: int) -> StepOutput:
        while any(f"/{BAD}-" in task for task in self.cluster.tasks) and not Path(until).exists():
            time.sleep(0.05)
        return step(self, now)

    SchedulerStep.step = stuck


async def ready(port: int) -> bool:
    return (await ask(port))[0] == 200


async def not_ready(port: int) -> str:
    """What the process says of itself."""
    status, text = await ask(port)
    assert status == 503
    return text


async def ask(port: int) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/readyz") as found,
    ):
        return found.status, await found.text()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]
