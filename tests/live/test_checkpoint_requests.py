"""Gangs that save before they go, on a real API server: asked, believed, withdrawn, crashed.

The pods are played; the test answers for them, as work without the library would: by annotation.
Whoever leads, a gang is asked by one id, and no pod goes before all of its gang have answered.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, is_running, name_of, scene, uid_of
from windlass.checkpoint.protocol import ACK, BUDGET, MODE, REQUEST, Ack, SaveState, read_request
from windlass.kube.client.errors import NotFound
from windlass.workloads.objects.annotations import PROMISE, SAVED
from windlass_lab.api_proxy.calls import Call
from windlass_lab.api_proxy.faults import When, kill
from windlass_lab.api_proxy.proxy import Proxy
from windlass_lab.control_plane.plane import Plane

SAVERS = {MODE: "file", BUDGET: "5m"}
SIZE = 3
PATIENT: dict[str, Any] = {"lease_duration_s": 60, "lease_renew_deadline_s": 40}
SIGKILLED = -9
AT_ONCE = 4

PROOF = os.environ.get("WINDLASS_PROOF") == "1"
PURPOSES = (
    *("promise and ask", "first request", "last request"),
    *("first saved", "last saved", "promise and evict", "suspend"),
)
FEW = {
    When.BEFORE: ("last request", "last saved"),
    When.AFTER: ("promise and ask", "first request"),
}
"""Without WINDLASS_PROOF=1; `test_kill_points.py` has the rest of the evictions."""


@dataclass(slots=True)
class Workload:
    """Answers for the pods of a gang, and remembers by which ids they were asked."""

    made: Scene
    answers: bool = True
    asked: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By pod, the ids."""
    step: int = 7

    async def look(self) -> None:
        for pod in await self.made.pods("b"):
            request = read_request(pod["metadata"].get("annotations", {}).get(REQUEST, ""))
            if request is None:
                continue
            self.asked.setdefault(uid_of(pod), set()).add(request.id)
            notes = pod["metadata"]["annotations"]
            if self.answers and ACK not in notes and is_running(pod):
                await self.answer(name_of(pod), request.id)

    async def answer(self, name: str, request: str) -> None:
        ack = Ack(request, SaveState.DONE, self.step, at=1_000_000_000)
        note = {"metadata": {"annotations": {ACK: ack.text()}}}
        with suppress(NotFound):  # it is gone meanwhile
            await self.made.api.patch(self.made.path(name), note)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Answer meanwhile."""

        async def work() -> None:
            while True:
                await self.look()
                await asyncio.sleep(0.05)

        task = asyncio.create_task(work())
        try:
            yield
        finally:
            task.cancel()
            [ended] = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError), repr(ended)

    async def wait_asked(self) -> set[str]:
        """Wait until all pods were asked; the ids."""

        async def were() -> bool:
            await self.look()
            return len(self.asked) == SIZE

        await wait_until(were, "all pods of the gang are asked")
        return {each for ids in self.asked.values() for each in ids}


async def test_who_can_save_goes_once_it_has_and_a_wrong_answer_is_refused(
    plane: Plane, tmp_path: Path
) -> None:
    async with scene(plane.api_access(), tmp_path, low=0, high=12) as made:
        daemon, workload = await begin(made), Workload(made, answers=False)
        [name] = await workload.wait_asked()
        for pod in await made.pods("b"):
            await workload.answer(name_of(pod), "forged")
        await daemon.wait_said("answer refused", SIZE)
        there = await made.pods("b")
        assert len(there) == SIZE
        assert all(map(is_running, there))
        for pod in there:
            await workload.answer(name_of(pod), name)
        await made.wait_running(("c", 3))
        await made.wait_gone("b", [uid_of(each) for each in there])
        assert [each["outcome"] for each in daemon.lines("save ended")] == ["saved"]
        made.check()


async def test_a_withdrawn_request_leaves_no_trace_and_the_work_untouched(
    plane: Plane, tmp_path: Path
) -> None:
    async with scene(plane.api_access(), tmp_path, low=0, high=12) as made:
        daemon, workload = await begin(made), Workload(made, answers=False)
        before = {uid_of(each) for each in await made.pods("b")}
        await workload.wait_asked()
        for number in range(3):
            await made.delete(f"c-{number}", grace=0)
        await wait_until(lambda: carries_none(made), "the requests are taken back")
        there = await made.pods("b")
        assert {uid_of(each) for each in there if is_running(each)} == before
        assert [each["outcome"] for each in daemon.lines("save ended")] == ["withdrawn"]


async def test_a_crash_before_a_withdrawal_is_finished_by_the_successor(
    plane: Plane, tmp_path: Path
) -> None:
    async with scene(plane.api_access(), tmp_path, low=0, high=12) as made:
        proxy, workload = await made.open_proxy(), Workload(made, answers=False)
        await begin(made, proxy)
        crash = at(proxy, made, "first withdrawal", When.AFTER)
        await workload.wait_asked()
        for number in range(3):
            await made.delete(f"c-{number}", grace=0)
        assert await made.daemons[0].ended() == SIGKILLED
        assert crash()
        await made.let_pass()
        await made.start(**PATIENT)
        await wait_until(lambda: carries_none(made), "the requests are taken back")
        assert all(map(is_running, await made.pods("b")))


@pytest.mark.parametrize("when", list(When))
async def test_a_crash_at_any_step_of_the_protocol_is_gone_on_from_with_the_same_id(
    plane: Plane, tmp_path: Path, when: When
) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(purpose: str) -> str:
        async with slots:
            try:
                await crashes(plane, tmp_path, purpose, when)
            except AssertionError as error:
                return f"--- {when} {purpose}: {error}"
            return ""

    chosen = PURPOSES if PROOF else FEW[when]
    wrong = [each for each in await asyncio.gather(*map(one, chosen)) if each]
    assert not wrong, "\n".join(wrong)


# --- runs -----------------------------------------------------------------------------------------


async def begin(made: Scene, proxy: Proxy | None = None) -> Any:
    """A gang that can save has borrowed the GPUs that another one claims."""
    await made.job("b", SIZE, 8, "low", **SAVERS)
    await made.wait_there("b", SIZE)
    daemon = await made.leading(proxy, writes_concurrency=1, **PATIENT)
    await made.wait_running(("b", SIZE))
    await made.gang("c", 3, 4, "high", preemptible="false")
    return daemon


async def crashes(plane: Plane, folder: Path, purpose: str, when: When) -> None:
    """Kill the daemon there; its successor ends what it began."""
    async with scene(plane.api_access(), folder, low=0, high=12) as made:
        proxy, workload = await made.open_proxy(), Workload(made)
        crash = at(proxy, made, purpose, when)
        async with workload.at_work():
            await begin(made, proxy)
            lent = [uid_of(each) for each in await made.pods("b") if is_running(each)]
            assert await made.daemons[0].ended() == SIGKILLED
            assert crash(), "this point was not visited"
            await made.let_pass()
            successor = await made.start(writes_concurrency=1, **PATIENT)
            await made.wait_running(("c", 3))
            await made.wait_gone("b", lent)
        ids = {each for uid in lent for each in workload.asked.get(uid, ())}
        assert len(ids) == 1, f"they were asked by {ids}"
        assert all(uid in workload.asked for uid in lent), "one went without being asked"
        outcomes = [each["outcome"] for each in successor.lines("save ended")]
        assert set(outcomes) <= {"saved"}, outcomes
        made.check()


def at(proxy: Proxy, made: Scene, purpose: str, when: When) -> Callable[[], bool]:
    """Kill the first daemon at the first call of this purpose; answers whether it came there."""

    def is_it(call: Call) -> bool:
        return purpose_of(call, proxy.calls) == purpose

    rule = proxy.on("*", "*", kill(lambda: made.daemons[0].pid), when=when, times=1, only=is_it)
    return lambda: rule.met == 1


def purpose_of(call: Call, calls: Sequence[Call]) -> str:
    """Which step of the protocol a call is."""
    kind = kind_of(call)
    if kind in ("promise and ask", "promise and evict", "suspend", ""):
        return kind
    earlier = {e.path for e in calls[: call.number] if kind_of(e) == kind and e.path != call.path}
    place = {0: "first", SIZE - 1: "last"}.get(len(earlier), "amid")
    return f"{place} {kind}"


def kind_of(call: Call) -> str:
    if call.verb == "patch" and call.resource == "jobs":
        return "suspend"
    if call.verb != "patch" or call.resource != "pods/status":
        return ""
    if REQUEST.encode() in call.body:
        notes = json.loads(call.body)["metadata"]["annotations"]
        return "request" if notes[REQUEST] else "withdrawal"
    if PROMISE.encode() in call.body:
        text = json.loads(call.body)["status"]["conditions"][0]["message"]
        if '"asks"' in text:
            return "promise and ask"
        return "promise and evict" if '"evicts"' in text else ""
    return "saved" if SAVED.encode() in call.body else ""


async def carries_none(made: Scene) -> bool:
    """Has no pod of the gang a request?"""
    pods = await made.pods("b")
    return not any(REQUEST in each["metadata"].get("annotations", {}) for each in pods)
