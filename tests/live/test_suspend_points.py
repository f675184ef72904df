"""A crash at any write of a suspension, before it or after its answer, costs nothing.

A Job makes room for a gang, waits, and comes back when that goes. Each kind of write in between is
a kill point twice: the condition on its pods, the suspension with its mark, the resumption with its
places, the binds after its pods have come, and the end of the mark.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from tests.live.test_kill_points import AT_ONCE, PATIENT, SIGKILLED, succeeded
from tests.live.test_suspend import come_back, job_path, preempt
from windlass.kube.client.auth import Access
from windlass.workloads.objects.annotations import SUSPENDED
from windlass_lab.api_proxy.calls import Call
from windlass_lab.api_proxy.faults import When, kill
from windlass_lab.control_plane.plane import Plane

COUNT = 2
WRITES = ("announce", "suspend", "resume", "first bind", "last bind", "end of the mark")
SOME = ("announce", "suspend", "resume", "first bind")
"""Those after which something is half done; all of them with WINDLASS_PROOF=1."""


@dataclass(frozen=True, slots=True)
class Point:
    """A write, and the moment of the crash."""

    purpose: str
    when: When


async def test_a_crash_at_any_write_of_a_suspension_loses_nothing(
    plane: Plane, tmp_path: Path
) -> None:
    points = [Point(purpose, when) for purpose in WRITES for when in When]
    if os.environ.get("WINDLASS_PROOF") != "1":
        points = [each for each in points if each.when is When.AFTER and each.purpose in SOME]
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(point: Point) -> str | None:
        async with slots:
            try:
                for _ in range(2):  # one that did not come there may be repeated, once
                    if await comes_to(plane.api_access(), tmp_path, point):
                        return None
            except AssertionError as error:
                return f"--- {point}: {error}"
            return f"--- {point}: this point was not visited"

    wrong = [each for each in await asyncio.gather(*map(one, points)) if each]
    assert not wrong, "\n".join(wrong)


async def comes_to(access: Access, folder: Path, point: Point) -> bool:
    """A run in which the first daemon is killed at the point; did it get there?"""
    async with scene(access, folder, nodes=1, low=0, high=8) as made:
        proxy = await made.open_proxy()
        crash = proxy.on(
            "*",
            "*",
            kill(lambda: made.daemons[0].pid),
            when=point.when,
            times=1,
            only=lambda call: purpose(call, proxy.calls) == point.purpose,
        )
        first = await made.start(proxy, writes_concurrency=1, **PATIENT)
        async with succeeded(made, first):
            uids = await preempt(made, COUNT)
            await come_back(made, uids)
            await wait_unmarked(made)
        if crash.met == 0:
            return False
        assert first.process.exitcode == SIGKILLED
        job = await made.get(job_path(made, "old"))
        assert job["status"].get("failed", 0) == 0
        assert job["spec"]["suspend"] is False
        assert not [call for call in all_calls(made) if call.resource == "pods/eviction"]
        made.check()
        return True


async def wait_unmarked(made: Scene) -> None:
    """Wait until the Job is its user's again."""

    async def unmarked() -> bool:
        job = await made.get(job_path(made, "old"))
        return SUSPENDED not in job["metadata"].get("annotations", {})

    await wait_until(unmarked, "the mark is taken away")


def all_calls(made: Scene) -> list[Call]:
    return [call for daemon in made.daemons for call in daemon.proxy.calls]


def purpose(call: Call, calls: Sequence[Call]) -> str:
    """What a write is for."""
    if call.resource == "jobs" and call.verb == "patch":
        return _turn(json.loads(call.body))
    if call.resource == "pods/status" and b"DisruptionTarget" in call.body:
        return "announce"
    if call.resource == "pods/binding" and "/old-" in call.path:
        return _bind(call, calls)
    return ""


def _turn(body: dict[str, dict[str, object]]) -> str:
    if "spec" not in body:
        return "end of the mark"
    return "suspend" if body["spec"]["suspend"] else "resume"


def _bind(call: Call, calls: Sequence[Call]) -> str:
    """Of those after the Job has come back."""
    earlier = calls[: call.number]
    back = [at for at, each in enumerate(earlier) if purpose(each, ()) == "resume"]
    if not back:
        return ""
    binds = {each.path for each in earlier[back[0] :] if each.resource == "pods/binding"}
    return {0: "first bind", COUNT - 1: "last bind"}.get(len(binds - {call.path}), "")
