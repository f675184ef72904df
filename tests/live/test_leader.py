"""One leads, and whoever does not lead any more writes nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.live.support.bound_pods import wait_until
from tests.live.support.daemons import Daemon
from tests.live.support.fake_api_server import served
from tests.live.support.scene import Scene, scene
from windlass.kube.client.client import connect
from windlass.kube.client.errors import NotAllowed
from windlass.kube.client.leader_election import PAUSED
from windlass.workloads.objects.annotations import PROMISE
from windlass_lab.api_proxy.calls import Call
from windlass_lab.api_proxy.faults import When, answer, hold, run
from windlass_lab.api_proxy.proxy import ProxyRule
from windlass_lab.control_plane.plane import Plane

LONG: dict[str, Any] = {"lease_duration_s": 3600, "lease_renew_deadline_s": 1800}
"""Nobody waits for the end of such a lease."""


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, team=24) as made:
        yield made
        made.check()


async def test_of_two_replicas_one_leads_and_the_other_takes_over(made: Scene) -> None:
    first = await made.leading()
    second = await made.start()
    await made.gang("a", 2, 8, "team")
    await made.wait_running(("a", 2))
    await wait_asked(second)
    assert second.lines("leads") == []
    assert second.proxy.writes() == []
    first.signal(signal.SIGKILL)
    await second.wait_said("leads")
    await made.gang("b", 1, 8, "team")
    await made.wait_running(("a", 2), ("b", 1))


async def test_a_replica_that_is_stopped_in_order_hands_over_at_once(made: Scene) -> None:
    first = await made.leading(**LONG)
    second = await made.start(**LONG)
    await wait_asked(second)
    assert await first.stop() == 0
    await second.wait_said("leads")
    await made.gang("a", 2, 8, "team")
    await made.wait_running(("a", 2))


async def test_what_is_under_way_is_finished_before_a_replica_stops(made: Scene) -> None:
    proxy = await made.open_proxy()
    may_go = asyncio.Event()
    held = proxy.on("create", "pods/binding", hold(may_go), times=1)
    daemon = await made.leading(proxy, writes_concurrency=1, **LONG)
    await made.gang("a", 3, 8, "team")
    await wait_until(lambda: met(held), "the first bind is on its way")
    daemon.signal(signal.SIGTERM)
    await daemon.wait_said("stopping")
    may_go.set()
    assert await daemon.ended() == 0
    await made.wait_running(("a", 3))
    assert await made.holder() == ""


async def test_a_leader_that_stood_still_meanwhile_writes_nothing_when_it_wakes(
    made: Scene,
) -> None:
    proxy = await made.open_proxy()
    first = await made.leading(proxy)
    # it stops between its promise and the binds, which it would send first of all when it wakes
    stop = run(lambda: first.signal(signal.SIGSTOP))
    proxy.on("patch", "pods/status", stop, when=When.AFTER, only=is_promise, times=1)
    second = await made.start()
    uids = await made.gang("a", 3, 8, "team")
    await second.wait_said("leads")
    assert await made.wait_running(("a", 3)) == uids
    before = len(proxy.writes())
    first.signal(signal.SIGCONT)
    await first.wait_said("leads no more")
    await wait_asked(first)
    assert proxy.writes()[before:] == []
    assert len(first.lines("leads")) == 1


async def test_a_leader_that_lost_the_lease_begins_anew_when_it_has_it_again(made: Scene) -> None:
    daemon = await made.leading()
    cut = daemon.proxy.on("*", "leases", answer(503, "ServiceUnavailable"))
    await made.gang("a", 2, 8, "team")
    await daemon.wait_said("leads no more")
    await made.gang("b", 1, 8, "team")
    daemon.proxy.rules.remove(cut)
    await made.wait_running(("a", 2), ("b", 1))
    assert len(daemon.lines("leads")) == 2


async def test_a_pause_that_comes_between_does_not_keep_the_lease_from_being_released(
    made: Scene,
) -> None:
    daemon = await made.leading(**LONG)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{made.key}/leases/{made.key}"
    held = daemon.proxy.on("get", "leases", hold(asyncio.Event()), times=1)
    await wait_until(lambda: met(held), "it does not see what happens to the lease")
    await made.api.patch(path, {"metadata": {"annotations": {PAUSED: "true"}}})
    assert await daemon.stop() == 0
    assert await made.holder() == ""


async def test_a_write_whose_connection_took_too_long_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    got: list[str] = []
    may_write = True
    connect_at_once = aiohttp.TCPConnector.connect

    async def connect_late(*given: Any, **named: Any) -> Any:
        nonlocal may_write
        connection = await connect_at_once(*given, **named)
        may_write = False
        return connection

    def guard() -> None:
        if not may_write:
            raise NotAllowed("not the leader any more")

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append(request.method)
        return web.Response(body=b"{}")

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", connect_late)
    async with served(handle) as access, connect(access, guard=guard) as api:
        with pytest.raises(NotAllowed):
            await api.post("/api/v1/events", {})
        await api.get("/api/v1/events")
    assert got == ["GET"]


async def wait_asked(daemon: Daemon, times: int = 2) -> None:
    """Wait until a daemon has looked at the lease again so often."""
    calls = daemon.proxy.calls
    before = sum(each.resource == "leases" for each in calls)

    async def asked() -> bool:
        return sum(each.resource == "leases" for each in calls) >= before + times

    await wait_until(asked, "the replica has asked for the lease")


def is_promise(call: Call) -> bool:
    return PROMISE.encode() in call.body


async def met(rule: ProxyRule) -> bool:
    return rule.met > 0
