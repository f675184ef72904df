"""The dashboard of a live scheduler: everybody sees what they may list, strangers see nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
import yaml

from tests.live.support.bound_pods import wait_until
from tests.live.support.daemons import Daemon
from tests.live.support.scene import Scene, is_running, make_namespace, scene
from tests.live.support.shell import shell
from tests.live.support.viewers import NODES, PODS, Person, altered, person, queues
from windlass.cli.commands.dashboard import dashboard_instructions
from windlass.crds.definitions import API_VERSION, QUEUE
from windlass.kube.client.errors import NotFound
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_nodes.labels import GPU

PATHS = (
    *("cluster", "queues", "jobs", "job?gang=a", "decisions", "decisions/1"),
    *("room?gang=a", "events", "recorded?until=9", "recorded/cycle?key=1~a"),
)


@dataclass(slots=True)
class Cast:
    """Two teams with a namespace and a queue each, and a scheduler for both."""

    scene: Scene
    other: str
    """The namespace of the second team."""
    daemon: Daemon
    settings: Path | None = None

    @property
    def address(self) -> str:
        return address_of(self.daemon)

    async def ask(self, token: str, path: str) -> tuple[int, Any]:
        """What the API answers to whom the token belongs."""
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{self.address}/api/{path}"
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            return answer.status, await answer.json()

    async def told(self, token: str, path: str) -> Any:
        status, body = await self.ask(token, path)
        assert status == 200, body
        return body

    async def other_pod(self, name: str, gpus: int) -> None:
        """A pod of the second team, as large as this."""
        container = {"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}
        spec = {
            "schedulerName": "windlass",
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        body = {"metadata": {"name": name}, "spec": spec}
        await self.scene.api.post(f"/api/v1/namespaces/{self.other}/pods", body)

    async def wait_other_running(self, name: str) -> None:
        """Wait until a pod of the second team runs."""

        async def runs() -> bool:
            path = f"/api/v1/namespaces/{self.other}/pods/{name}"
            return is_running(await self.scene.get(path))

        await wait_until(runs, f"{name} runs")

    async def wait_told(self, token: str, path: str, holds: Any, sentence: str) -> Any:
        """Wait until what this viewer is told is as expected."""

        async def found() -> Any:
            status, body = await self.ask(token, path)
            return body if status == 200 and holds(body) else None

        return await wait_until(found, sentence)


@pytest.fixture
async def cast(plane: Plane, tmp_path: Path) -> AsyncIterator[Cast]:
    async with scene(plane.api_access(), tmp_path, nodes=2, ours=8) as made:
        other = f"{made.key}-b"
        await make_namespace(made.api, other)
        spec = {"namespaces": [other], "guarantee": {"gpu": 8}}
        queue = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": other}}
        await made.api.post(QUEUE.path(), queue | {"spec": spec})
        file = tmp_path / "windlass.yaml"
        history = {"url": f"sqlite:///{tmp_path / 'history.db'}"}
        file.write_text(yaml.safe_dump({"namespaces": [made.key, other], "history": history}))
        daemon = await made.leading(namespaces=None, config=file)
        yield Cast(made, other, daemon, file)
        made.check()
        for path in (QUEUE.path(other), f"/api/v1/namespaces/{other}"):
            with suppress(NotFound):
                await made.api.delete(path)


@pytest.fixture
async def people(cast: Cast) -> AsyncIterator[dict[str, Person]]:
    """Ann may see the first team alone, Bob the second and all nodes, Zoe everything."""
    api, key = cast.scene.api, cast.scene.key
    made = {name: await person(api, key, name) for name in ("ann", "bob", "zoe", "eve")}
    await made["ann"].may(key, PODS)
    await made["ann"].may("", queues(f"{key}-ours"))
    await made["bob"].may(cast.other, PODS)
    await made["bob"].may("", queues(cast.other), NODES)
    await made["zoe"].may("", PODS, NODES, queues())
    yield made
    for each in made.values():
        await each.leave()


def address_of(daemon: Daemon) -> str:
    return f"http://127.0.0.1:{daemon.lines('dashboard')[-1]['port']}"


def gangs(jobs: dict[str, Any]) -> set[str]:
    """All gangs of a document, without what tells them from their namesakes."""
    rows = jobs["waiting"] + jobs["running"] + jobs["finished"]
    return {each["gang"].partition("~")[0] for each in rows}


async def test_two_viewers_with_different_rights_see_different_jobs(
    cast: Cast, people: dict[str, Person]
) -> None:
    key, other = cast.scene.key, cast.other
    await cast.scene.job("train", 1, 8, "ours")
    await cast.other_pod("serve", 8)
    await cast.scene.wait_running(("train", 1))
    await cast.wait_other_running("serve")
    await cast.other_pod("late", 8)
    ann, bob, zoe, eve = [await people[name].token() for name in ("ann", "bob", "zoe", "eve")]
    everything = {f"{key}/train", f"{other}/serve", f"{other}/late"}
    both = lambda jobs: gangs(jobs) == everything and len(jobs["running"]) == 2  # noqa: E731
    await cast.wait_told(zoe, "jobs", both, "all jobs are shown to who may see all")
    seen = {who: await cast.told(who, "jobs") for who in (ann, bob, eve)}
    assert gangs(seen[ann]) == {f"{key}/train"}
    assert gangs(seen[bob]) == {f"{other}/serve", f"{other}/late"}
    assert gangs(seen[eve]) == set()
    counts = [(each["running_in_all"], each["waiting_in_all"]) for each in seen.values()]
    assert counts == [(1, 0), (1, 1), (0, 0)]

    names = {who: queue_names(await cast.told(who, "queues")) for who in (ann, bob, zoe, eve)}
    assert [names[who] for who in (ann, bob, eve)] == [{f"{key}-ours"}, {other}, set()]
    assert names[zoe] >= {f"{key}-ours", other}

    maps = {who: await cast.told(who, "cluster") for who in (ann, bob, zoe, eve)}
    assert [len(maps[who]["nodes"]["name"]) for who in (ann, bob, zoe, eve)] == [1, 2, 2, 0]
    assert {on_map(maps[who]) for who in (ann, bob)} == {f"{key}/train", f"{other}/serve"}
    assert sum(maps[bob]["given"]["milli"]) == sum(maps[zoe]["given"]["milli"])

    (gang,) = [each["gang"] for each in seen[bob]["waiting"]]
    assert (await cast.ask(bob, f"room?gang={gang}"))[0] == 200
    assert (await cast.ask(ann, f"room?gang={gang}"))[0] == 404
    for who, hidden in ((ann, other), (bob, f"{key}/"), (eve, key)):
        assert hidden not in await cast_all(cast, who)

    both_bound = lambda record: sum(record["cycles"]["bound"]) == 2  # noqa: E731
    ever = "recorded?until=99999999999"
    record = await cast.wait_told(zoe, ever, both_bound, "what was bound is in the record")
    keys = [quote(each) for each in record["cycles"]["key"]]
    cycles = [await cast.told(zoe, f"recorded/cycle?key={each}") for each in keys]
    placed = {row["gang"].partition("~")[0] for each in cycles for row in each["placed"]}
    assert placed == {f"{key}/train", f"{other}/serve"}
    assert [(await cast.ask(who, ever))[0] for who in (ann, bob, eve)] == [403, 403, 403]
    assert not (await cast.told(ann, "decisions"))["is_recorded"]


def queue_names(document: dict[str, Any]) -> set[str]:
    assert document["queues"] or not document["past"]["allocated"]
    return {each["name"] for each in document["queues"]}


def on_map(document: dict[str, Any]) -> str:
    """The one gang with a name that has GPUs."""
    (name,) = set(document["gangs"]["name"]) - {""}
    return name.partition("~")[0]


async def cast_all(cast: Cast, token: str) -> str:
    """Everything that somebody is told, past decisions and all, as one text."""
    told = [await cast.told(token, path) for path in ("cluster", "queues", "jobs", "decisions")]
    for number in told[-1]["cycles"]["cycle"]:
        told.append(await cast.told(token, f"decisions/{number}"))
    return json.dumps(told)


async def test_forged_expired_and_foreign_tokens_see_nothing(
    cast: Cast, people: dict[str, Person], plane: Plane, tmp_path: Path
) -> None:
    good = await people["zoe"].token()
    key = plane.folder / "pki" / "tokens.key"
    assert (await cast.ask(altered(good, key, 300), "jobs"))[0] == 200  # the key is the right one
    head, body, signature = good.split(".")
    bad = {
        "none": "",
        "nonsense": "nonsense",
        "forged": f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        "expired": altered(good, key, -5),
        "foreign": await people["zoe"].token("another-service"),
    }
    for what, token in bad.items():
        for path in PATHS:
            status, said = await cast.ask(token, path)
            assert (status, list(said)) == (401, ["error"]), f"{what} {path}"
        assert "token" in said["error"]
        assert await cast.told(token, "viewer") == {"door": True, "name": ""}
    log = cast.daemon.log.read_text()
    assert all(token not in log for token in (good, *bad.values()) if token)


async def test_a_session_ends_with_its_token(
    cast: Cast, people: dict[str, Person], plane: Plane
) -> None:
    token = altered(await people["ann"].token(), plane.folder / "pki" / "tokens.key", 4)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        url = f"{cast.address}/api"
        async with session.post(f"{url}/sign-in", json={"token": token}) as answer:
            assert answer.status == 200
            marks = answer.headers["set-cookie"].split("; ")[1:]
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(marks)
            assert token not in answer.headers["set-cookie"]

        async def is_out() -> bool:
            async with session.get(f"{url}/jobs") as told:
                assert told.status in (200, 401)
                return told.status == 401

        async with session.get(f"{url}/viewer") as told:
            assert (await told.json())["name"].endswith(":ann")
        await wait_until(is_out, "the session has ended")


async def test_a_replica_that_stands_by_leads_to_the_leader_and_takes_over(
    cast: Cast, people: dict[str, Person]
) -> None:
    second = await cast.scene.start(namespaces=None, config=cast.settings)
    await second.wait_said("dashboard")
    there = Cast(cast.scene, cast.other, second)
    zoe, strange = await people["zoe"].token(), "nonsense"
    await cast.scene.job("train", 1, 8, "ours")
    has = lambda jobs: gangs(jobs) == {f"{cast.scene.key}/train"}  # noqa: E731
    through = await there.wait_told(zoe, "jobs", has, "the replica passes on what the leader says")
    assert (await there.ask(strange, "jobs"))[0] == 401
    assert second.lines("leads") == []
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {zoe}"}) as session,
        session.get(f"{there.address}/api/events") as events,
    ):
        assert (await events.content.readline()).startswith(b"id: ")

    assert await cast.daemon.stop() == 0
    await second.wait_said("leads")
    after = await there.wait_told(zoe, "jobs", has, "the new leader shows the same")
    assert after["stamp"]["run"] != through["stamp"]["run"]


async def test_the_command_tells_who_leads_and_where(
    cast: Cast, plane: Plane, tmp_path: Path
) -> None:
    windlass = shell(cast.scene, plane.kubeconfig, tmp_path)
    told = await windlass("dashboard")
    port = cast.address.rpartition(":")[2]
    assert (told.status, told.err) == (0, "")
    own = "r0 leads, and serves the dashboard on its own host"
    assert told.out.startswith(f"{own}: http://127.0.0.1:{port}/\n")
    in_a_pod = dashboard_instructions("r0", f"10.1.4.7:{port}", cast.scene.key)
    assert in_a_pod.startswith(f"r0 leads, and serves the dashboard at 10.1.4.7:{port}.")
    assert f"kubectl -n {cast.scene.key} port-forward pod/r0 {port}\n" in in_a_pod
    bare = await windlass("dashboard", "--token")  # an administrator with a certificate
    assert (bare.status, bare.out) == (2, "")
    assert "kubectl create token NAME" in bare.err
