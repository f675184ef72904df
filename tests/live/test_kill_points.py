"""A crash at any call to the API server, before it or after its answer, costs nothing.

The calls are those that a proxy saw in a run without a crash: each of them, with its purpose, is a
kill point twice. In a run of its own the daemon is killed there and a successor started. The
witness is the fake kubelet's device book, together with the pods themselves: none that was bound
may have been destroyed, but for those that another gang was promised the place of.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.daemons import Daemon
from tests.live.support.scene import Scene, is_running, scene
from windlass.kube.client.auth import Access
from windlass.workloads.objects.annotations import PROMISE
from windlass_lab.api_proxy.calls import Call
from windlass_lab.api_proxy.faults import When, answer, kill, lose
from windlass_lab.api_proxy.proxy import Proxy, ProxyRule
from windlass_lab.control_plane.plane import Plane

AT_ONCE = 6
"""Most of a run is waiting."""
PATIENT: dict[str, Any] = {"lease_duration_s": 60, "lease_renew_deadline_s": 40}
"""A busy machine loses no lease; after a crash the test lets it pass."""
SIGKILLED = -9
BY_LABEL = {"windlass.dev/gang": "b", "windlass.dev/minimum": "3"}
"""Whose pods name their gang is evicted pod by pod; `test_suspend_points.py` has the other way."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A kind of call, what it is for, and the moment of the crash."""

    verb: str
    resource: str
    purpose: str
    when: When

    def __str__(self) -> str:
        purpose = f" ({self.purpose})" if self.purpose else ""
        return f"{self.when} {self.verb} {self.resource}{purpose}"


@dataclass(frozen=True, slots=True)
class Way:
    """How a run goes."""

    whole: bool = True
    """With a reclaim; else only the first binds."""
    in_pages: bool = False
    """The server cannot begin a watch with a list."""


@pytest.mark.parametrize("in_pages", [False, True])
async def test_a_crash_at_any_read_loses_nothing(
    plane: Plane, tmp_path: Path, in_pages: bool
) -> None:
    way = Way(whole=False, in_pages=in_pages)
    points = [each for each in await record(plane.api_access(), tmp_path, way) if is_read(each)]
    if in_pages:
        points = [each for each in points if each.verb == "list"]
    assert len({each.resource for each in points}) >= 7
    async with scene(plane.api_access(), tmp_path, low=9, high=12) as made:
        for point in points:
            proxy = await opened(made, way)
            crash = at(proxy, point, lambda: made.daemons[-1].pid)
            assert await (await made.start(proxy, **PATIENT)).ended() == SIGKILLED
            assert crash.met == 1, f"{point} was not visited"
            own = {"leases", "secrets"}  # nothing is decided yet, but its key may be made
            assert not [each for each in proxy.writes() if each.resource not in own]
            await made.let_pass()
        await play(made, await opened(made, way), way)


async def test_a_crash_at_any_call_about_the_lease_loses_nothing(
    plane: Plane, tmp_path: Path
) -> None:
    points = await record(plane.api_access(), tmp_path, Way())
    chosen = [each for each in points if each.resource == "leases"]
    assert {each.purpose for each in chosen} == {"", "take", "renew", "release"}
    await visit_all(plane.api_access(), tmp_path, chosen, Way())


async def test_a_crash_at_any_write_loses_nothing(plane: Plane, tmp_path: Path) -> None:
    points = await record(plane.api_access(), tmp_path, Way())
    chosen = [each for each in points if not is_read(each) and each.resource != "leases"]
    found = {(each.resource, each.purpose) for each in chosen}
    assert found >= {
        ("pods/binding", "alone"),
        ("pods/binding", "first of a gang"),
        ("pods/binding", "amid a gang"),
        ("pods/binding", "last of a gang"),
        ("pods/eviction", "first of a gang"),
        ("pods/eviction", "amid a gang"),
        ("pods/status", "announce"),
        ("pods/status", "say"),
        ("pods/status", "promise"),
        ("pods/status", "promise and evict"),
        ("events", ""),
    }
    await visit_all(plane.api_access(), tmp_path, chosen, Way())


async def test_crash_after_crash_amid_one_gang_loses_nothing(plane: Plane, tmp_path: Path) -> None:
    crashes = 3
    async with scene(plane.api_access(), tmp_path, low=9) as made:
        uids = await made.gang("a", 4, 2, "low", preemptible="false")
        for _ in range(crashes):
            proxy = await made.open_proxy()
            daemon = await made.start(proxy, writes_concurrency=1)
            pid = daemon.pid
            proxy.on("create", "pods/binding", kill(lambda pid=pid: pid), when=When.AFTER)
            await daemon.ended()
        bound = [each for each in await made.pods() if "nodeName" in each["spec"]]
        assert len(bound) == crashes
        await made.start()
        assert await made.wait_running(("a", 4)) == uids
        made.check()


# --- runs -----------------------------------------------------------------------------------------


async def record(access: Access, folder: Path, way: Way) -> list[Point]:
    """All kill points of a run in which nobody crashes."""
    async with scene(access, folder, low=9, high=12) as made:
        proxy = await opened(made, way)
        await play(made, proxy, way)
        kinds = {
            (call.verb, call.resource, purpose(call, proxy.calls))
            for call in proxy.calls
            if call.status is not None
        }
    return sorted(Point(*kind, when) for kind in kinds for when in When)


async def visit_all(access: Access, folder: Path, points: Iterable[Point], way: Way) -> None:
    """A run with a crash for every point, some at a time; all that went wrong is told."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(point: Point) -> str | None:
        async with slots:
            try:
                await visit(access, folder, point, way)
            except AssertionError as error:
                return f"--- {point}: {error}"
            return None

    wrong = [each for each in await asyncio.gather(*map(one, points)) if each]
    assert not wrong, "\n".join(wrong)


async def visit(access: Access, folder: Path, point: Point, way: Way) -> None:
    """A run with a crash at the point; one that did not come there may be repeated, once."""
    for _ in range(2):
        if await comes_to(access, folder, point, way):
            return
    raise AssertionError("this point was not visited")


async def comes_to(access: Access, folder: Path, point: Point, way: Way) -> bool:
    """A run with a crash at the point; did it get there?"""
    async with scene(access, folder, low=9, high=12) as made:
        proxy = await opened(made, way)

        crash = at(proxy, point, lambda: made.daemons[0].pid)
        await play(made, proxy, way)
        assert crash.met == 0 or made.daemons[0].process.exitcode == SIGKILLED
        return crash.met == 1


def at(proxy: Proxy, point: Point, pid: Callable[[], int]) -> ProxyRule:
    """Kill the process when it comes to the point."""

    def is_it(call: Call) -> bool:
        return purpose(call, proxy.calls) == point.purpose

    return proxy.on(point.verb, point.resource, kill(pid), when=point.when, times=1, only=is_it)


def is_read(point: Point) -> bool:
    """Is it a part of reading all that is there, before anything is decided?"""
    return point.verb in ("get", "list", "watch") and (point.verb, point.resource) not in (
        ("get", "leases"),
        ("get", "pods"),
    )


async def opened(made: Scene, way: Way) -> Proxy:
    """A proxy that loses one answer, so that a pod has to be read again."""
    proxy = await made.open_proxy()
    if way.in_pages:
        only = lambda call: "sendInitialEvents" in call.query  # noqa: E731
        proxy.on("watch", "*", answer(422, "Invalid"), only=only)
    proxy.on(
        "create",
        "pods/binding",
        lose(),
        when=When.AFTER,
        times=1,
        only=lambda call: purpose(call, proxy.calls) == "alone",
    )
    return proxy


async def play(made: Scene, proxy: Proxy, way: Way) -> None:
    """Start three gangs, take one back for a fourth, and stop; a crashed daemon is replaced."""
    kept = await made.gang("a", 4, 2, "low", preemptible="false")
    kept.append(await made.pod("s", 1, "low", preemptible="false"))
    await made.job("b", 3, 4, "low", **BY_LABEL)
    await made.gang("d", 4, 8, "low", preemptible="true")
    lent = await made.wait_there("b", 3)
    first = await made.start(proxy, writes_concurrency=1, **PATIENT)
    started = len(made.daemons)
    async with succeeded(made, first):
        running = await made.wait_running(("a", 4), ("s", 1), ("b", 3))
        assert sorted(running) == sorted([*kept, *lent]), "a bound pod was destroyed"
        if way.whole:
            await take_back(made, kept, lent)
        await made.wait_condition("d", 4, "Unschedulable")
        await wait_renewed(made, proxy, started)
        if await made.daemons[-1].stop() == SIGKILLED:  # at the release of the lease
            await made.wait_daemons(started + 1)
            await made.daemons[-1].wait_said("leads")
            await made.daemons[-1].stop()
    last = await made.pods()
    uids = {each["metadata"]["uid"] for each in last if is_running(each)}
    assert uids >= set(kept), "a bound pod was destroyed"
    assert not any("nodeName" in each["spec"] for each in last if not is_running(each))
    made.check()


async def take_back(made: Scene, kept: list[str], lent: Sequence[str]) -> None:
    """A gang claims what is lent to the Job, whole."""
    kept += await made.gang("c", 3, 4, "high", preemptible="false")
    running = await made.wait_running(("a", 4), ("s", 1), ("c", 3))
    assert sorted(running) == sorted(kept), "a bound pod was destroyed"
    await made.wait_gone("b", lent)


@asynccontextmanager
async def succeeded(made: Scene, first: Daemon) -> AsyncIterator[None]:
    """Start a successor as soon as the daemon has crashed."""

    async def watch() -> None:
        if await first.ended() == SIGKILLED:
            await made.let_pass()
            await made.start(writes_concurrency=1, **PATIENT)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def purpose(call: Call, calls: Sequence[Call]) -> str:
    """What a call is for, as far as its verb and resource leave that open."""
    if call.resource in ("pods/binding", "pods/eviction"):
        return _place_in_gang(call, calls)
    if call.verb == "update" and call.resource == "leases":
        spec = json.loads(call.body)["spec"]
        before = [each for each in calls[: call.number] if each.verb == "update"]
        renewed = any(each.resource == "leases" for each in before)
        return "release" if not spec.get("holderIdentity") else "renew" if renewed else "take"
    if call.verb == "patch" and PROMISE.encode() in call.body:
        text = json.loads(call.body)["status"]["conditions"][0]["message"]
        return "take back" if not text else "promise and evict" if "evicts" in text else "promise"
    if call.verb == "patch" and call.resource == "pods/status":
        return "announce" if b"DisruptionTarget" in call.body else "say"
    return ""


async def wait_renewed(made: Scene, proxy: Proxy, started: int) -> None:
    """A run may be over before it is time for that; who has crashed renews nothing."""

    async def renewed() -> bool:
        calls = proxy.calls
        return len(made.daemons) > started or any(purpose(e, calls) == "renew" for e in calls)

    await wait_until(renewed, "the lease is renewed")


SIZES = {"a": 4, "b": 3, "c": 3}


def _place_in_gang(call: Call, calls: Sequence[Call]) -> str:
    gang = _gang(call)
    if gang not in SIZES:
        return "alone"
    earlier = {
        each.path
        for each in calls[: call.number]
        if each.resource == call.resource and _gang(each) == gang and each.path != call.path
    }
    places = {0: "first of a gang", SIZES[gang] - 1: "last of a gang"}
    return places.get(len(earlier), "amid a gang")


def _gang(call: Call) -> str:
    return call.path.split("/pods/")[1].split("/")[0].split("-")[0]
