"""The fake kubelet on a real control plane: what a scheduler's test relies on day by day."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.live.support.bound_pods import FAKE, QUICK, Lab, open_lab, wait_held, wait_until
from windlass.kube.client.client import Patch
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_kubelet import Cause, Habits, Machine, playing
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.fake_nodes.nodes import NODES
from windlass_lab.fake_nodes.prefill import PrefillPods, fill


@pytest.fixture
async def lab(plane: Plane, namespace: str) -> AsyncIterator[Lab]:
    async with open_lab(plane.api_access(), namespace) as lab:
        yield lab


async def test_nodes_are_ready_and_labelled_as_gpu_feature_discovery_does(lab: Lab) -> None:
    async with lab.nodes(model="A100-80GB", labels={"rack": "r7"}) as (_, [name]):
        node = await lab.get(f"{NODES}/{name}")
    labels = node["metadata"]["labels"]
    assert labels[f"{GPU}.product"] == "NVIDIA-A100-SXM4-80GB"
    assert (labels[f"{GPU}.count"], labels["nvidia.com/mig.capable"]) == ("4", "true")
    assert (labels["rack"], node["status"]["allocatable"][GPU]) == ("r7", "4")
    ready = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
    assert [one["status"] for one in ready] == ["True"]


async def test_a_ready_node_loses_the_taint_that_new_nodes_carry(lab: Lab) -> None:
    async with lab.nodes() as (_, [name]):

        async def untainted() -> bool:
            return not (await lab.get(f"{NODES}/{name}"))["spec"].get("taints")

        await wait_until(untainted, "the controllers took the not-ready taint away")


async def test_a_bound_pod_runs_and_holds_its_devices_until_it_has_succeeded(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        uid = await lab.bind("p", node, gpus=2, runs_for="2s")
        status = await lab.wait_phase("p", "Running")
        assert status["containerStatuses"][0]["ready"]
        assert kubelet.book.held(node) == {uid: (f"GPU-{node}-0", f"GPU-{node}-1")}
        await lab.wait_phase("p", "Succeeded")
        assert kubelet.book.held(node) == {}


async def test_a_pod_bound_through_the_binding_subresource_keeps_its_conditions(lab: Lab) -> None:
    async with lab.nodes() as (_, [node]):
        await lab.create("p", {"schedulerName": "nobody"}, {})
        doomed = {"type": "DisruptionTarget", "status": "True", "reason": "Test"}
        body = {"status": {"conditions": [doomed]}}
        await lab.api.patch(f"{lab.path('p')}/status", body, kind=Patch.STRATEGIC)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}}
        await lab.api.post(f"{lab.path('p')}/binding", binding | {"target": target})
        status = await lab.wait_phase("p", "Running")
    kinds = {condition["type"] for condition in status["conditions"]}
    assert {"DisruptionTarget", "PodScheduled", "Ready"} <= kinds


async def test_an_exit_code_fails_the_pod(lab: Lab) -> None:
    async with lab.nodes() as (_, [node]):
        await lab.bind("p", node, runs_for="100ms", exit_code="7")
        status = await lab.wait_phase("p", "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


async def test_a_double_booked_node_refuses_the_second_pod(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        await lab.bind("one", node, gpus=3)
        await lab.wait_phase("one", "Running")
        uid = await lab.bind("two", node, gpus=2)
        status = await lab.wait_phase("two", "Failed")
        assert [refusal.holder for refusal in kubelet.book.overbooked()] == [uid]
    assert status["reason"] == "OutOfnvidia.com/gpu"
    assert status["message"].endswith("nvidia.com/gpu, requested: 2, used: 3, capacity: 4")


async def test_a_node_without_cpu_left_refuses_the_pod(lab: Lab) -> None:
    async with lab.nodes(cpu_milli=500) as (_, [node]):
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        await lab.create("p", {"nodeName": node, "containers": [container]}, {})
        status = await lab.wait_phase("p", "Failed")
    assert status["reason"] == "OutOfcpu"


async def test_a_node_whose_labels_do_not_suit_refuses_the_pod(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        await lab.create("p", {"nodeName": node, "nodeSelector": {"no": "such"}}, {})
        status = await lab.wait_phase("p", "Failed")
        assert kubelet.book.overbooked() == []
    assert status["reason"] == "NodeAffinity"


async def test_a_deleted_pod_is_gone_when_its_containers_have_ended(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        uid = await lab.bind("p", node, terminates_after="1s")
        await lab.wait_phase("p", "Running")
        await lab.delete("p", grace=30)
        assert len(kubelet.book.held_by(uid)) == 1
        await lab.wait_gone(lab.path("p"))
        assert kubelet.book.held_by(uid) == ()


async def test_a_pod_that_never_ends_holds_its_devices_until_it_is_released(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        stuck = await lab.bind("stuck", node, terminates_after="never")
        await lab.bind("obeys", node)
        for name in ("stuck", "obeys"):
            await lab.wait_phase(name, "Running")
            await lab.delete(name, grace=1)
        await lab.wait_gone(lab.path("obeys"))
        assert len(kubelet.book.held_by(stuck)) == 1
        kubelet.release(stuck)
        await lab.wait_gone(lab.path("stuck"))
        assert kubelet.book.held_by(stuck) == ()


async def test_a_pod_deleted_by_force_leaves_its_devices_held_until_it_is_killed(lab: Lab) -> None:
    async with lab.nodes(habits=Habits(kill_delay_s=2)) as (kubelet, [node]):
        uid = await lab.bind("old", node, gpus=4, terminates_after="never")
        await lab.wait_phase("old", "Running")
        await lab.delete("old", grace=0)
        await lab.wait_gone(lab.path("old"))
        assert len(kubelet.book.held_by(uid)) == 4
        await lab.bind("early", node, gpus=4)
        await lab.wait_phase("early", "Failed")
        assert [refusal.cause for refusal in kubelet.book.refusals] == [Cause.LINGERING]
        await wait_held(kubelet, uid, 0)
        await lab.bind("late", node, gpus=4)
        await lab.wait_phase("late", "Running")


async def test_a_pod_of_the_same_name_does_not_get_its_predecessors_status(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        uid = await lab.bind("p", node, runs_for="1s", exit_code="9")
        await lab.wait_phase("p", "Running")
        kubelet.lose(node)
        await lab.delete("p", grace=0)
        await lab.bind("p", node)
        await wait_held(kubelet, uid, 0)  # the first one has ended, but cannot say so
        kubelet.bring_back(node)
        assert (await lab.wait_phase("p", "Running", "Failed"))["phase"] == "Running"


async def test_a_job_of_the_controllers_runs_to_its_end(lab: Lab) -> None:
    async with lab.nodes() as (kubelet, [node]):
        container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
        template = {
            "metadata": {"annotations": {f"{FAKE}runs-for": "100ms"}},
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]},
        }
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"completions": 8, "parallelism": 4, "template": template},
        }
        jobs = f"/apis/batch/v1/namespaces/{lab.namespace}/jobs"
        await lab.api.post(jobs, job)

        async def complete() -> bool:
            return (await lab.get(f"{jobs}/j"))["status"].get("succeeded") == 8

        await wait_until(complete, "the job has succeeded eight times")
        assert kubelet.book.overbooked() == []


async def test_two_hundred_bound_pods_run_at_once(lab: Lab) -> None:
    async with lab.nodes(50) as (kubelet, _):
        fleet = [host.machine for host in kubelet.hosts.values()]
        await fill(lab.api, fleet, 200, PrefillPods(lab.namespace, running=False))

        async def all_run() -> bool:
            pods = (await lab.get(lab.path()))["items"]
            return len(pods) == 200 and all(one["status"]["phase"] == "Running" for one in pods)

        await wait_until(all_run, "200 pods run")
        held = sum(len(kubelet.book.held(node)) for node in kubelet.hosts)
        assert (held, kubelet.book.refusals) == (200, [])


async def test_pods_that_ran_before_are_found_running(lab: Lab) -> None:
    prefix = uuid.uuid4().hex[:8]
    fleet = [Machine(f"n-{prefix}-{number}", gpus=4) for number in range(3)]
    lab.made += [machine.name for machine in fleet]
    async with playing(lab.access, fleet, QUICK):
        pass
    await fill(lab.api, fleet, 12, PrefillPods(lab.namespace))
    async with playing(lab.access, fleet, QUICK) as kubelet:
        assert all(kubelet.book.free(machine.name) == () for machine in fleet)
        assert kubelet.book.refusals == []
