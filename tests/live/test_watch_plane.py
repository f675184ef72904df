"""The same watch on a real API server: pages, lists in a watch, outage, compaction."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.live.support.fake_api_server import Thing, until
from windlass.kube.client import errors
from windlass.kube.client.client import Api, Patch, connect
from windlass.kube.client.watch import Change, ObjectSeen, Watch
from windlass_lab.control_plane.plane import Options, Plane

BARE = Options(controllers=False)
MINE = {"labelSelector": "test=watch"}


class Told:
    def __init__(self) -> None:
        self.words: list[str] = []

    def sink(self, changes: list[Change[Thing]]) -> None:
        for change in changes:
            sign = "+" if isinstance(change, ObjectSeen) else "-"
            self.words.append(sign + change.object.metadata.name)

    async def wait_for(self, *words: str) -> None:
        await until(lambda: self.words == list(words), f"{self.words[:20]} was {words}")


@asynccontextmanager
async def running(watch: Watch[Thing]) -> AsyncIterator[Told]:
    told = Told()
    task = asyncio.create_task(watch.run(told.sink))
    try:
        await until(watch.synced.is_set, "the watch was in step")
        yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def path_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def create(api: Api, namespace: str, *names: str) -> None:
    def body(name: str) -> dict[str, object]:
        return {"metadata": {"name": name, "labels": {"test": "watch"}}, "data": {"a": "b"}}

    await asyncio.gather(*(api.post(path_of(namespace), body(name)) for name in names))


async def change(api: Api, namespace: str, name: str, value: str) -> None:
    await api.patch(f"{path_of(namespace)}/{name}", {"data": {"a": value}}, kind=Patch.MERGE)


class Counting:
    """An Api that remembers what lists and watches were asked for."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.asked: list[dict[str, str]] = []

    async def get(self, path: str, params: dict[str, str], **rest: float) -> bytes:
        self.asked.append(dict(params))
        return await self._api.get(path, params, **rest)

    def stream(self, path: str, params: dict[str, str], **rest: float) -> object:
        self.asked.append(dict(params))
        return self._api.stream(path, params, **rest)


async def test_two_thousand_objects_come_in_the_watch_or_in_pages(
    plane: Plane, namespace: str
) -> None:
    names = [f"c-{number:04}" for number in range(2000)]
    async with connect(plane.api_access()) as api:
        await create(api, namespace, *names)
        in_watch, in_pages = Counting(api), Counting(api)
        one = Watch(in_watch, path_of(namespace), Thing, params=MINE)  # type: ignore[arg-type]
        other = Watch(in_pages, path_of(namespace), Thing, params=MINE)  # type: ignore[arg-type]
        other._offers_list = False
        async with running(one) as told_one, running(other) as told_other:
            assert told_one.words == told_other.words == [f"+{name}" for name in names]
            assert [a.get("sendInitialEvents") for a in in_watch.asked] == ["true"]
            assert [a.get("limit") for a in in_pages.asked[:4]] == ["500"] * 4
            await change(api, namespace, "c-0007", "c")
            await api.delete(f"{path_of(namespace)}/c-0008")
            for told in (told_one, told_other):
                await until(lambda told=told: len(told.words) == 2002, "both were told")
                assert told.words[2000:] == ["+c-0007", "-c-0008"]


@pytest.mark.parametrize("fresh_plane", [BARE], indirect=True)
async def test_an_api_server_that_stops_and_comes_back_is_followed_on_and_nothing_is_told_twice(
    fresh_plane: Plane,
) -> None:
    async with connect(fresh_plane.api_access(), timeout_s=5) as api:
        await create(api, "default", "a")
        watch = Watch(api, path_of("default"), Thing, params=MINE)
        async with running(watch) as told:
            await asyncio.to_thread(fresh_plane.stop, "kube-apiserver")
            await until(lambda: isinstance(watch.trouble, errors.Unanswered), "it was missed")
            await asyncio.to_thread(fresh_plane.start, "kube-apiserver")
            await create(api, "default", "b")
            await told.wait_for("+a", "+b")
            assert watch.trouble is None


@pytest.mark.parametrize("fresh_plane", [BARE], indirect=True)
async def test_after_a_compaction_only_differences_are_told(fresh_plane: Plane) -> None:
    async with connect(fresh_plane.api_access(), timeout_s=5) as api:
        await create(api, "default", "same", "changed", "lost")
        counting = Counting(api)
        watch = Watch(counting, path_of("default"), Thing, params=MINE)  # type: ignore[arg-type]
        async with running(watch) as told:
            assert sorted(told.words) == ["+changed", "+lost", "+same"]
        await change(api, "default", "changed", "anew")
        await api.delete(f"{path_of('default')}/lost")
        await asyncio.to_thread(fresh_plane.compact)
        await asyncio.to_thread(fresh_plane.stop, "kube-apiserver")  # it remembers by itself, too
        await asyncio.to_thread(fresh_plane.start, "kube-apiserver")
        async with running(watch) as told:
            await told.wait_for("+changed", "-lost")
            assert [a.get("resourceVersion") is None for a in counting.asked] == [True, False, True]
            await create(api, "default", "new")
            await told.wait_for("+changed", "-lost", "+new")
