"""What fails around the daemon, and that nothing goes wrong because of it: no restart, no harm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from tests.live.support.bound_pods import wait_until
from tests.live.support.fake_api_server import served, status, until
from tests.live.support.scene import Scene, is_running, name_of, scene
from windlass.config import read_config
from windlass.daemon.loop.pause import set_paused
from windlass.daemon.serving.context import Clock
from windlass.kube.client.client import connect
from windlass.kube.client.write_queue import WriteQueue
from windlass.kube.refs import PodRef
from windlass.kube.writers.binder import Binder
from windlass.kube.writes import Binding, BindResult, GangBinds
from windlass.model.events import BindFailed
from windlass.model.jobs import TaskId
from windlass.workloads.objects.annotations import PROMISE
from windlass_lab.api_proxy.calls import Call
from windlass_lab.api_proxy.faults import Verdict, When, answer, kill, lose
from windlass_lab.api_proxy.proxy import Proxy, ProxyRule
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_kubelet.allocation_audit import Cause

STATUS = "pods/status"
OUTAGE_S = 30
"""Many times as long as the lease of these scenes holds."""
POLICIES = "/apis/windlass.dev/v1alpha1/policies"


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, team=12, other=12) as made:
        yield made
        made.check()
        assert all(len(each.lines("started")) == 1 for each in made.daemons)


@pytest.fixture
async def hasty(plane: Plane, made: Scene) -> AsyncIterator[None]:
    """A policy that gives back what is left of a gang after two seconds."""
    body = {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "default"},
        "spec": {"staleAfterSeconds": 2},
    }
    await made.api.post(POLICIES, body)
    yield
    await made.api.delete(f"{POLICIES}/default")


# --- the API server and the way to it -------------------------------------------------------------


async def test_an_api_server_that_is_away_amid_a_gang_finds_it_completed_when_it_is_back(
    fresh_plane: Plane, tmp_path: Path
) -> None:
    async with scene(fresh_plane.api_access(), tmp_path, team=24) as made:
        daemon = await made.leading(writes_concurrency=1)
        stopped = asyncio.Event()

        async def stop(_call: Call) -> Verdict:
            await asyncio.to_thread(fresh_plane.stop, "kube-apiserver", at_once=True)
            stopped.set()
            return None

        second = daemon.proxy.on(
            "create", "pods/binding", stop, only=not_first(daemon.proxy), times=1
        )
        uids = await made.gang("a", 3, 8, "team")
        await stopped.wait()
        assert second.met == 1
        await daemon.wait_said("leads no more")
        await wait_until(is_over(OUTAGE_S), "the outage has lasted for long")
        fresh_plane.compact()  # so that no watch can go on where it was
        await asyncio.to_thread(fresh_plane.start, "kube-apiserver")
        assert await made.wait_running(("a", 3)) == uids
        await daemon.wait_said("leads", 2)
        for uid, name in zip(uids, ("a-0", "a-1", "a-2"), strict=True):
            await made.delete(name, uid)
        await made.gang("b", 3, 8, "team")
        await made.wait_running(("b", 3))
        made.check()


async def test_a_pod_is_not_given_up_while_its_bind_may_still_be_carried_out() -> None:
    asked: list[str] = []
    is_busy = True

    async def answer_it(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(f"{request.method} {request.path.rsplit('/', 1)[1]}")
        if is_busy:
            return status(500, "InternalError")
        return web.json_response(UNBOUND, status=201)

    async with served(answer_it) as access, connect(access) as api:
        workers, heard = WriteQueue(4), list[BindResult]()
        working = asyncio.create_task(workers.run())
        binder = Binder(api, workers, heard.append, Random(7))
        pod = PodRef(TaskId("t"), "ns", "p", "uid")
        binder.start(GangBinds((Binding(pod, "n1"),)))
        await until(lambda: len(asked) > 2, "the bind was tried again and again")
        binder.read(pod)  # as for one that is overdue
        is_busy = False
        await workers.wait_idle()
        assert set(asked) == {"POST binding"}
        assert heard == []
        binder.read(pod)
        await workers.wait_idle()
        assert asked[-1] == "GET p"
        assert isinstance(heard[0], BindFailed)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


UNBOUND = {"metadata": {"name": "p", "namespace": "ns", "uid": "uid"}, "spec": {}, "status": {}}


async def test_watches_that_are_cut_miss_nothing(made: Scene) -> None:
    daemon = await made.leading()
    away = daemon.proxy.on("watch", "*", answer(503, "ServiceUnavailable"))
    assert daemon.proxy.cut_watches() >= 7
    await made.gang("a", 3, 4, "team")
    gone = await made.pod("gone", 8, "other")
    await made.delete("gone", gone)
    daemon.proxy.rules.remove(away)
    await made.wait_running(("a", 3))
    assert daemon.lines("leads no more") == []


async def test_a_bind_that_is_refused_for_a_moment_is_made_later(made: Scene) -> None:
    daemon = await made.leading()
    answers = {
        409: "Conflict",
        404: "NotFound",
        422: "Invalid",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServiceUnavailable",
    }
    for code, reason in answers.items():
        refusal = answer(code, reason, 1 if code == 429 else None)
        rule = daemon.proxy.on(
            "create", "pods/binding", refusal, only=not_first(daemon.proxy), times=1
        )
        uids = await made.gang("a", 3, 4, "team")
        assert await made.wait_running(("a", 3)) == uids
        assert rule.met == 1, f"nobody was told {code}"
        for number, uid in enumerate(uids):
            await made.delete(f"a-{number}", uid)
        daemon.proxy.calls.clear()


async def test_a_place_whose_bind_failed_stays_with_its_gang(made: Scene) -> None:
    daemon = await made.leading()
    refused = daemon.proxy.on("create", "pods/binding", answer(422, "Invalid"), times=1)
    uids = await made.gang("a", 3, 8, "other", preemptible="true")
    await wait_until(lambda: _met(refused), "a bind was refused")
    await made.gang("b", 1, 8, "other", preemptible="true")  # it would fit into the gap
    assert await made.wait_running(("a", 3)) == uids


async def test_binds_whose_answers_are_lost_are_not_made_twice(made: Scene) -> None:
    proxy = await made.open_proxy()
    lost = proxy.on("create", "pods/binding", lose(), when=When.AFTER, times=4)
    await made.leading(proxy)
    uids = await made.gang("a", 4, 2, "team")
    assert await made.wait_running(("a", 4)) == uids
    assert lost.met == 4
    binds = [each for each in proxy.calls if each.resource == "pods/binding"]
    assert sum(each.status == 201 for each in binds) == 4


async def test_a_promise_whose_answer_is_lost_is_kept(made: Scene) -> None:
    proxy = await made.open_proxy()
    lost = proxy.on("patch", STATUS, lose(), when=When.AFTER, only=is_promise, times=1)
    await made.leading(proxy)
    await made.gang("a", 4, 2, "team")
    await made.wait_running(("a", 4))
    assert lost.met == 1


async def test_a_promise_that_cannot_be_written_binds_nobody(made: Scene) -> None:
    proxy = await made.open_proxy()
    refused = proxy.on("patch", STATUS, answer(403, "Forbidden"), only=is_promise, times=1)
    await made.leading(proxy)
    await made.gang("a", 4, 2, "team")
    await made.wait_running(("a", 4))
    assert refused.met == 1
    promises = [each.number for each in proxy.calls if is_promise(each)]
    binds = [each.number for each in proxy.calls if each.resource == "pods/binding"]
    assert len(promises) == 2
    assert promises[1] < min(binds)


# --- nodes and their kubelets ---------------------------------------------------------------------


async def test_a_gang_whose_node_is_deleted_under_a_binding_pod_starts_whole_elsewhere(
    made: Scene,
) -> None:
    daemon = await made.leading(writes_concurrency=1)
    gone: list[str] = []

    async def delete_node(call: Call) -> Verdict:
        node = call.json()["target"]["name"]
        gone.append(node)
        await made.kubelet.delete_node(node)
        return None

    daemon.proxy.on("create", "pods/binding", delete_node, only=not_first(daemon.proxy), times=1)
    await made.job("a", 2, 6, "team")

    async def bound_to_nothing() -> list[str]:
        return [name_of(each) for each in await made.pods() if each["spec"].get("nodeName") in gone]

    await wait_until(bound_to_nothing, "a pod is bound to a node that is not there")
    await made.wait_running(("a", 2))
    assert not await bound_to_nothing()
    job = await made.get(f"/apis/batch/v1/namespaces/{made.key}/jobs/a")
    assert job["status"].get("failed", 0) == 0


async def test_a_job_whose_pods_a_kubelet_refuses_is_completed_by_their_replacements(
    made: Scene,
) -> None:
    await made.leading()
    reasons = {"OutOfnvidia.com/gpu", "UnexpectedAdmissionError"}
    for node, reason in zip(made.kubelet.hosts, sorted(reasons), strict=False):
        made.kubelet.refuse_next(node, reason)
    await made.job("a", 3, 4, "team")
    await made.wait_running(("a", 3))
    assert {each.reason for each in made.kubelet.book.refusals} == reasons
    assert {each.cause for each in made.kubelet.book.refusals} == {Cause.ORDERED}


@pytest.mark.usefixtures("hasty")
async def test_what_is_left_of_a_gang_after_a_refusal_is_given_back_whole(made: Scene) -> None:
    await made.leading()
    await gang_with_a_refused_pod(made, preemptible="true")
    await made.gang("b", 3, 8, "other", preemptible="true")  # fits only without it
    await made.wait_running(("b", 3))
    assert not any(map(is_running, await made.pods("a")))


@pytest.mark.usefixtures("hasty")
async def test_bare_pods_are_not_destroyed_because_one_of_them_was_refused(made: Scene) -> None:
    await made.leading()
    await gang_with_a_refused_pod(made)
    await made.gang("b", 1, 1, "other", preemptible="true", **{"fake.windlass.dev/runs-for": "5s"})
    await made.wait_phase("b-0", "Succeeded")
    assert sum(map(is_running, await made.pods("a"))) == 2


async def test_a_victim_that_does_not_end_keeps_its_place_until_it_does(made: Scene) -> None:
    await made.leading()
    never = {"fake.windlass.dev/terminates-after": "never"}
    victims = await made.gang("v", 3, 8, "other", preemptible="true", **never)
    await made.wait_running(("v", 3))
    await made.gang("a", 3, 4, "team")

    async def all_leave() -> bool:
        return all("deletionTimestamp" in each["metadata"] for each in await made.pods("v"))

    await wait_until(all_leave, "the victims are asked to leave")
    await made.wait_condition("a", 3, "PlaceHeld")
    assert not any("nodeName" in each["spec"] for each in await made.pods("a"))
    for uid in victims:
        made.kubelet.release(uid)
    await made.wait_running(("a", 3))


# --- pausing --------------------------------------------------------------------------------------


async def test_a_pause_stops_evictions_and_they_go_on_when_it_ends(made: Scene) -> None:
    daemon = await made.leading()
    await made.gang("v", 3, 8, "other", preemptible="true")
    await made.wait_running(("v", 3))
    await pause(made, True)
    await daemon.wait_said("paused")
    await made.gang("a", 3, 4, "team")
    await made.wait_reasons("a", 3)
    assert evictions(daemon.proxy) == []
    await pause(made, False)
    await made.wait_running(("a", 3))


async def test_a_pause_also_stops_what_a_leader_before_has_promised(made: Scene) -> None:
    proxy = await made.open_proxy()
    first = await made.leading(proxy)
    await made.gang("v", 3, 8, "other", preemptible="true")
    await made.wait_running(("v", 3))
    crash = kill(lambda: first.pid)
    proxy.on("patch", STATUS, crash, when=When.AFTER, only=lambda call: b"evicts" in call.body)
    await made.gang("a", 3, 4, "team")
    await first.ended()
    await pause(made, True)
    second = await made.leading()
    await second.wait_said("paused")
    await made.gang("d", 1, 8, "team", preemptible="true")
    await made.wait_reasons("d", 1)
    assert evictions(second.proxy) == []
    await made.wait_running(("v", 3))
    await pause(made, False)
    await made.wait_running(("a", 3))


@pytest.mark.usefixtures("hasty")
async def test_a_policy_that_changes_does_not_end_a_pause(made: Scene) -> None:
    daemon = await made.leading()
    await made.gang("v", 3, 8, "other", preemptible="true")
    await made.wait_running(("v", 3))
    await pause(made, True)
    await daemon.wait_said("paused")
    await made.api.patch(f"{POLICIES}/default", {"spec": {"staleAfterSeconds": 3}})
    await made.gang("a", 3, 4, "team")
    await made.wait_reasons("a", 3)
    assert evictions(daemon.proxy) == []
    await pause(made, False)
    await made.wait_running(("a", 3))


# --- the clock ------------------------------------------------------------------------------------


def test_a_wall_clock_that_jumps_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    before = clock.now()
    for jump in (86_400 * 365, -86_400 * 365):
        jumped = time.time() + jump
        monkeypatch.setattr(time, "time", lambda jumped=jumped: jumped)
        assert before <= clock.now() <= before + 60
        monkeypatch.undo()


async def pause(made: Scene, paused: bool) -> None:
    """As `windlass pause` and `windlass resume` do."""
    kubeconfig = str(made.folder / f"kubeconfig-{len(made.daemons) - 1}")
    told = {"kubeconfig": kubeconfig, "lease.name": made.key, "lease.namespace": made.key}
    await set_paused(read_config(None, {}, told), paused)


async def gang_with_a_refused_pod(made: Scene, **marks: str) -> None:
    """Three pods that start together, of which a kubelet will refuse the last."""
    labels = {"windlass.dev/gang": "a", "windlass.dev/minimum": "3", **marks}
    for number in range(3):
        refuse = {"fake.windlass.dev/refuse": "OutOfnvidia.com/gpu"} if number == 2 else {}
        await made.pod(f"a-{number}", 4, "team", **labels, **refuse)


def is_promise(call: Call) -> bool:
    return PROMISE.encode() in call.body


def not_first(proxy: Proxy) -> Callable[[Call], bool]:
    """Picks the binds after the first one."""

    def is_it(call: Call) -> bool:
        return any(each.resource == call.resource for each in proxy.calls[: call.number])

    return is_it


def is_over(seconds: float) -> Callable[[], Awaitable[bool]]:
    began = time.monotonic()

    async def has_passed() -> bool:
        return time.monotonic() - began > seconds

    return has_passed


def evictions(proxy: Proxy) -> list[Call]:
    return [each for each in proxy.calls if each.resource == "pods/eviction"]


async def _met(rule: ProxyRule) -> bool:
    return rule.met > 0
