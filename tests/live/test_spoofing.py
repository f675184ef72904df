"""Who says in an object what is not so gains nothing: it is refused or ignored, with a reason.

Two teams share a plane, each with a namespace and a queue of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.definitions import installed
from tests.live.support.fake_controller import Troupe, message_of, open_troupe
from tests.live.support.scene import Scene, scene
from windlass.crds.definitions import API_VERSION, QUEUE
from windlass.kube.client.client import connect
from windlass.kube.client.errors import ApiError, Forbidden
from windlass.workloads.objects.annotations import GANG, MINIMUM, PROMISE
from windlass.workloads.objects.annotations import QUEUE as QUEUE_LABEL
from windlass_lab.control_plane.plane import Plane

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True, slots=True)
class Teams:
    """One who lies, and one who is lied about."""

    liar: Troupe
    honest: Troupe

    @property
    def scene(self) -> Scene:
        return self.liar.scene


@pytest.fixture(scope="module", autouse=True)
def kinds(plane: Plane) -> Iterator[None]:
    with installed(plane):
        yield


@pytest.fixture
async def teams(plane: Plane, tmp_path: Path) -> AsyncIterator[Teams]:
    async with scene(plane.api_access(), tmp_path, nodes=1) as made:
        found = [await _team(made, name, 4) for name in ("liar", "honest")]
        await made.leading(namespaces=None, scheduler_names=made.key)
        yield Teams(*found)
        made.check()
        for each in found:
            await made.api.delete(QUEUE.path(each.namespace))
            await made.api.delete(f"/api/v1/namespaces/{each.namespace}")


async def _team(made: Scene, name: str, gpus: int) -> Troupe:
    """A namespace, and a queue of the same name for it alone."""
    troupe = await open_troupe(made, name)
    spec = {"namespaces": [troupe.namespace], "guarantee": {"gpu": gpus}}
    meta = {"name": troupe.namespace}
    body = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": meta, "spec": spec}
    await made.api.post(QUEUE.path(), body)
    return troupe


async def test_a_pod_that_names_the_queue_of_another_namespace_is_refused(teams: Teams) -> None:
    await teams.liar.pod("x", None, **{QUEUE_LABEL: teams.honest.namespace})
    await teams.liar.wait_told(
        1,
        f'Namespace "{teams.liar.namespace}" may not use queue "{teams.honest.namespace}"; '
        "add it to the namespaces of that queue, or name another",
    )
    assert [each["spec"].get("nodeName") for each in await teams.liar.pods()] == [None]


async def test_a_job_is_refused_as_its_pods_are(teams: Teams) -> None:
    spec = teams.liar.indexed(2)
    spec["template"]["metadata"]["labels"] = {QUEUE_LABEL: teams.honest.namespace}
    await teams.liar.make("Job", "x", spec)
    await teams.liar.wait_told(2, "may not use queue")
    assert [each["spec"].get("nodeName") for each in await teams.liar.pods()] == [None, None]


async def test_a_gang_of_the_same_name_in_another_namespace_is_another_gang(teams: Teams) -> None:
    labels = {GANG: "x", MINIMUM: "2"}
    await teams.liar.pod("a", None, **labels)
    await teams.honest.pod("a", None, **labels)
    for troupe in (teams.liar, teams.honest):
        await troupe.wait_told(1, "1 of the 2 tasks it starts with exist")
    await teams.honest.pod("b", None, **labels)
    await teams.honest.wait_running(2)
    await teams.liar.wait_told(1, "1 of the 2 tasks it starts with exist")


async def test_a_gang_object_of_another_namespace_says_nothing_about_ours(teams: Teams) -> None:
    await teams.honest.make("Gang", "x", {"minimum": 1})
    await teams.liar.pod("a", None, **{GANG: "x"})
    await teams.liar.wait_told(1, "there is no Gang x in its namespace")


async def test_a_pod_cannot_join_a_job_of_another_namespace(teams: Teams) -> None:
    """The honest Job lacks a pod; the liar's names it as its owner."""
    await teams.honest.allow(1)
    job = await teams.honest.make("Job", "x", teams.honest.indexed(2))
    await teams.honest.wait_told(1, "1 of the 2 tasks it starts with exist")
    await teams.liar.pod("x-1", job)
    await _wait_nothing_gained(teams.liar, "x-1")
    await teams.honest.wait_told(1, "1 of the 2 tasks it starts with exist")


async def test_a_pod_cannot_choose_its_owners_kind(teams: Teams) -> None:
    """As a JobSet, which it is not, its Job would be read by other rules."""
    job = await teams.liar.make("Job", "x", teams.liar.indexed(1))
    await teams.liar.wait_running(1)
    forged = job | {"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2"}
    await teams.liar.pod("forged", forged)
    await _wait_nothing_gained(teams.liar, "forged")


async def test_a_promise_in_a_new_pod_is_dropped_by_the_api_server(teams: Teams) -> None:
    """Promises stand in the status, which only those may write who may write pods/status."""
    node = f"{teams.scene.key}-0"
    forged = {"type": PROMISE, "status": "True", "message": f'{{"places": {{"x": "{node}"}}}}'}
    body = teams.liar.template()
    body |= {"metadata": {"name": "x", "annotations": {PROMISE: forged["message"]}}}
    labels = {"labels": {GANG: "x", MINIMUM: "2"}}
    body["metadata"] |= labels
    await teams.scene.api.post(teams.liar.path("Pod"), body | {"status": {"conditions": [forged]}})
    await teams.liar.wait_told(1, "1 of the 2 tasks it starts with exist")
    (found,) = await teams.liar.pods()
    assert PROMISE not in [each["type"] for each in found["status"]["conditions"]]
    assert "nodeName" not in found["spec"]


async def test_a_user_who_may_make_pods_may_not_write_promises(plane: Plane, teams: Teams) -> None:
    await _allow_pods(teams, "mallory")
    async with connect(plane.api_access("mallory")) as api:
        body = {"metadata": {"name": "x"}, **teams.liar.template()}
        await api.post(teams.liar.path("Pod"), body | {"metadata": {"name": "x"}})
        with pytest.raises(Forbidden):
            await api.patch(f"{teams.liar.path('Pod', 'x')}/status", {"status": {}})


async def test_nobody_writes_a_priority_that_no_class_gives(teams: Teams) -> None:
    body = teams.liar.template()
    body["spec"]["priority"] = 1_000_000
    with pytest.raises(ApiError):
        await teams.scene.api.post(teams.liar.path("Pod"), body | {"metadata": {"name": "x"}})


async def test_the_highest_priority_takes_nothing_from_another_queues_guarantee(
    teams: Teams,
) -> None:
    meta = {"name": teams.scene.key}
    await teams.scene.api.post(CLASSES, {"metadata": meta, "value": 999_999_999})
    await teams.honest.make("Job", "x", teams.honest.indexed(4))
    before = await teams.honest.wait_running(4)
    try:
        spec = teams.liar.indexed(5)
        spec["template"]["spec"]["priorityClassName"] = teams.scene.key
        await teams.liar.make("Job", "x", spec)
        await teams.liar.wait_told(5, "It needs room for 5 tasks")
        assert await teams.honest.wait_running(4) == before
    finally:
        await teams.scene.api.delete(f"{CLASSES}/{teams.scene.key}")


async def _wait_nothing_gained(troupe: Troupe, name: str) -> None:
    """It waits for an owner that is not there, or the garbage collector has removed it already."""
    for _ in range(100):
        found = [each for each in await troupe.pods() if each["metadata"]["name"] == name]
        assert not any(each["spec"].get("nodeName") for each in found)
        if not found or "has not been seen" in message_of(found[0]):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"nothing was said about {name}")


async def _allow_pods(teams: Teams, user: str) -> None:
    """What an ordinary user of a namespace may do."""
    group = "rbac.authorization.k8s.io"
    place = f"/apis/{group}/v1/namespaces/{teams.liar.namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "patch"]}]
    await teams.scene.api.post(f"{place}/roles", {"metadata": {"name": user}, "rules": rules})
    binding: dict[str, Any] = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    await teams.scene.api.post(f"{place}/rolebindings", binding)
