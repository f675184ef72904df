"""The faults of the fake kubelet on a real control plane: lost, paused, restarted, broken, slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.live.support.bound_pods import QUICK, Lab, open_lab, wait_held, wait_until
from windlass.kube.client.errors import ApiError, NotFound
from windlass_lab.control_plane.plane import Options, Plane
from windlass_lab.fake_kubelet import DeviceAllocations, Machine, playing
from windlass_lab.fake_nodes.nodes import NODES


@pytest.fixture
async def lab(plane: Plane, namespace: str) -> AsyncIterator[Lab]:
    async with open_lab(plane.api_access(), namespace) as lab:
        yield lab


async def test_a_failed_gpu_lowers_allocatable_until_it_is_healed(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        for change, expected in ((kubelet.fail_gpu, "3"), (kubelet.heal_gpu, "4")):
            change(node, 0)

            async def counted(wanted: str = expected) -> bool:
                return await lab.allocatable(node) == wanted

            await wait_until(counted, f"{expected} GPUs are allocatable")


async def test_a_gpu_that_failed_unnoticed_is_an_unexpected_admission_error(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        kubelet.fail_gpu(node, 0, tell=False)
        await lab.bind("p", node, gpus=4)
        status = await lab.wait_phase("p", "Failed")
        assert kubelet.book.overbooked() == []
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "Requested: 4, Available: 3, which is unexpected" in status["message"]


async def test_leases_are_renewed_but_for_a_lost_node(lab: Lab) -> None:
    async with lab.nodes(2) as (kubelet, [kept, lost]):

        async def both() -> bool:
            with suppress(NotFound):
                return bool(await lab.renewed(kept)) and bool(await lab.renewed(lost))
            return False

        await wait_until(both, "both nodes have leases")
        kubelet.lose(lost)
        settled = kubelet.heartbeats.renewals + 2

        async def quiet() -> bool:
            return kubelet.heartbeats.renewals >= settled

        await wait_until(quiet, "a renewal that was under way is over")
        before = await lab.renewed(kept), await lab.renewed(lost)

        async def renewed() -> bool:
            return await lab.renewed(kept) > before[0]

        await wait_until(renewed, "the other lease is renewed again")
        assert await lab.renewed(lost) == before[1]


async def test_a_lost_node_keeps_its_devices_and_catches_up_when_it_is_back(lab: Lab) -> None:
    async with lab.nodes(2) as (kubelet, [lost, other]):
        deleted = await lab.bind("deleted", lost)
        ending = await lab.bind("ending", lost, runs_for="2s")
        for name in ("deleted", "ending"):
            await lab.wait_phase(name, "Running")
        kubelet.lose(lost)
        await lab.delete("deleted", grace=1)
        await lab.bind("new", lost)
        await lab.bind("witness", other, runs_for="3s")
        await lab.wait_phase("witness", "Succeeded")
        assert len(kubelet.book.held_by(deleted)) == 1
        assert kubelet.book.held_by(ending) == ()
        assert [(await lab.status(name))["phase"] for name in ("ending", "new")] == [
            "Running",
            "Pending",
        ]
        kubelet.bring_back(lost)
        await lab.wait_gone(lab.path("deleted"))
        await lab.wait_phase("ending", "Succeeded")
        await lab.wait_phase("new", "Running")


async def test_a_paused_kubelet_does_nothing_until_it_is_resumed(lab: Lab) -> None:
    async with lab.nodes(2) as (kubelet, [paused, other]):
        uid = await lab.bind("p", paused, runs_for="1s")
        await lab.wait_phase("p", "Running")
        kubelet.pause(paused)
        await lab.bind("witness", other, runs_for="2s")
        await lab.wait_phase("witness", "Succeeded")
        assert len(kubelet.book.held_by(uid)) == 1
        kubelet.resume(paused)
        await lab.wait_phase("p", "Succeeded")
        assert kubelet.book.held_by(uid) == ()


async def test_a_restarted_kubelet_keeps_the_devices_of_its_pods(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        await lab.bind("runs", node, gpus=2)
        await lab.bind("starts", node, gpus=2, starts_after="1s")
        await lab.wait_phase("runs", "Running")
        before = kubelet.book.held(node)
        await kubelet.restart(node)
        await lab.wait_phase("starts", "Running")
        assert kubelet.book.held(node) == before


async def test_a_kubelet_process_that_is_replaced_goes_on_with_the_book(lab: Lab) -> None:
    async with lab.nodes() as (first, [node]):
        await lab.bind("p", node, gpus=2)
        await lab.wait_phase("p", "Running")
        held, checkpoint = first.book.held(node), first.book.checkpoint()
    book = DeviceAllocations.restored(checkpoint)
    async with playing(lab.access, [Machine(node, gpus=4)], QUICK, book) as second:
        await lab.bind("q", node, gpus=2)
        await lab.wait_phase("q", "Running")
        assert held.items() <= second.book.held(node).items()
        assert second.book.violations() == []


async def test_a_machine_taken_away_takes_its_node_and_its_containers(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        uid = await lab.bind("p", node)
        await lab.wait_phase("p", "Running")
        await kubelet.delete_node(node)
        await lab.wait_gone(f"{NODES}/{node}")
        assert kubelet.book.held_by(uid) == ()


async def test_a_machine_can_be_added_later(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        lab.made.append(f"{node}-new")
        await kubelet.add(Machine(f"{node}-new", gpus=1))
        await lab.bind("p", f"{node}-new")
        await lab.wait_phase("p", "Running")


async def test_the_next_pods_are_refused_when_the_test_says_so(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        kubelet.refuse_next(node, "UnexpectedAdmissionError")
        await lab.bind("one", node)
        assert (await lab.wait_phase("one", "Failed"))["reason"] == "UnexpectedAdmissionError"
        await lab.bind("two", node, refuse="NodeShutdown")
        assert (await lab.wait_phase("two", "Failed"))["reason"] == "NodeShutdown"
        await lab.bind("three", node)
        await lab.wait_phase("three", "Running")
        assert kubelet.book.overbooked() == []


async def test_a_slow_node_holds_devices_before_its_containers_run(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        kubelet.slow_down(node, 1.0)
        uid = await lab.bind("p", node)
        await wait_held(kubelet, uid, 1)
        assert (await lab.status("p"))["phase"] == "Pending"
        await lab.wait_phase("p", "Running")


async def test_an_api_server_that_was_away_finds_everything_done(fresh_plane: Plane) -> None:
    async with open_lab(fresh_plane.api_access(), "default") as lab:
        await wait_account(lab)
        async with lab.nodes() as (kubelet, [node]):
            uid = await lab.bind("p", node, runs_for="2s")
            await lab.wait_phase("p", "Running")
            fresh_plane.stop("kube-apiserver")
            await wait_held(kubelet, uid, 0)
            await asyncio.to_thread(fresh_plane.start, "kube-apiserver")
            await asyncio.to_thread(fresh_plane.wait_ready, "kube-apiserver")
            await lab.wait_phase("p", "Succeeded")
            await lab.bind("q", node)
            await lab.wait_phase("q", "Running")


SOON = Options(
    flags={
        "kube-controller-manager": ["--node-monitor-grace-period=5s", "--node-monitor-period=1s"]
    }
)


@pytest.mark.parametrize("fresh_plane", [SOON], indirect=True)
async def test_the_controllers_notice_that_a_node_is_lost_and_that_it_is_back(
    fresh_plane: Plane,
) -> None:
    async with (
        open_lab(fresh_plane.api_access(), "default") as lab,
        lab.nodes() as (kubelet, [node]),
    ):
        await wait_ready(lab, node, "True")
        kubelet.lose(node)
        await wait_ready(lab, node, "Unknown")
        kubelet.bring_back(node)
        await wait_ready(lab, node, "True")


async def wait_ready(lab: Lab, node: str, wanted: str) -> None:
    async def is_so() -> bool:
        conditions = (await lab.get(f"{NODES}/{node}"))["status"]["conditions"]
        return {one["type"]: one["status"] for one in conditions}["Ready"] == wanted

    await wait_until(is_so, f"node {node} has Ready={wanted}")


async def wait_account(lab: Lab) -> None:
    async def is_there() -> bool:
        with suppress(ApiError):
            await lab.api.get("/api/v1/namespaces/default/serviceaccounts/default")
            return True
        return False

    await wait_until(is_there, "the controllers have made a service account")
